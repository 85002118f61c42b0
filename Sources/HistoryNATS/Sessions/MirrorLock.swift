import Glibc
import PersistentHistory

/// The lock of a mirror's only writer: two followers of one file would take turns to refill it.
///
/// It is on a separate file: closing any other descriptor of the mirror would release SQLite's locks on it.
final class MirrorLock {
    /// Another program follows into the mirror.
    struct Taken: Error, CustomStringConvertible {
        let path: String

        var description: String {
            "another historyd-nats follows into \"\(path)\": stop it, or name another path"
        }
    }

    private let descriptor: Int32

    /// - Throws: `Taken`, `SystemError`.
    init(_ path: String) throws {
        descriptor = open("\(path)-follower", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw SystemError(call: "open the lock file \"\(path)-follower\"", number: errno)
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let number = errno
            close(descriptor)
            guard number == EWOULDBLOCK else {
                throw SystemError(call: "lock \"\(path)-follower\"", number: number)
            }
            throw Taken(path: path)
        }
    }

    deinit { close(descriptor) }
}
