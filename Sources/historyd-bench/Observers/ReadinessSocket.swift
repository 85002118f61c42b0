import Glibc
import PersistentHistory

/// The socket on which the daemon reports that it is ready, as to the service manager (sd_notify(3)).
struct ReadinessSocket: ~Copyable {
    private let descriptor: Int32

    init(_ path: String) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        guard path.utf8.count <= UnixAddress.longestPath else {
            throw BenchError("The path of the stores' folder is too long for a socket.")
        }
        guard UnixAddress.with(path, { bind(descriptor, $0, $1) }) == 0 else {
            throw BenchError.system("make a socket")
        }
        _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
    }

    deinit { close(descriptor) }

    /// False if the daemon reports nothing for half a minute.
    func wait() -> Bool {
        var message = [UInt8](repeating: 0, count: 4096)
        var source = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        while poll(&source, 1, 30_000) > 0 {
            let count = recv(descriptor, &message, message.count, 0)
            guard count > 0 else { return false }
            if String(decoding: message[..<count], as: UTF8.self).split(separator: "\n").contains("READY=1") {
                return true
            }
        }
        return false
    }
}
