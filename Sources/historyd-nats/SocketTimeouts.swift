import Glibc
import PersistentHistory

/// A path as bind(2) and connect(2) take it.
enum UnixAddress {
    /// - Returns: What the call returns; -1 with `ENAMETOOLONG` for a path that is too long.
    static func with(_ path: String, _ call: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
            errno = ENAMETOOLONG
            return -1
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                call($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    /// No call on the socket waits longer than some time.
    static func limitWaits(on descriptor: Int32, to time: Duration = .seconds(2)) {
        let microseconds = max(1, time.microseconds)
        // As timeval has them: that one's members are of another module in each kind of build.
        var limit = (seconds: Int(microseconds / 1_000_000), microseconds: Int(microseconds % 1_000_000))
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }
}
