import Glibc
import PersistentHistory

extension UnixAddress {
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
