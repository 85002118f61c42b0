import Glibc
import HistoryControl
public import PersistentHistory

/// The folder with the daemon's memory, held by one daemon at a time.
///
/// The lock is one of flock(2) on a file in it: the kernel lets go of it when the process ends,
/// however that may be.
public final class StateFolder: Sendable {
    public let path: String
    private let descriptor: Int32

    /// `$STATE_DIRECTORY` (systemd.exec(5)), else `$XDG_STATE_HOME/historyd`, else
    /// `~/.local/state/historyd` (the XDG Base Directory Specification).
    public static func path(environment: [String: String]) -> String {
        StateFolderPath.path(environment: environment)
    }

    /// Makes the folder where it is missing, and takes the lock.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`, or `.stateInUse` naming the process that has it.
    public init(_ path: String) throws(HistoryError) {
        self.path = path
        guard Self.make(path) else {
            throw HistoryError(
                .stateUnusable,
                "The state folder \"\(path)\" can not be made: \(String(cString: strerror(errno))).",
                hint: "Set STATE_DIRECTORY to a folder that may be written.")
        }
        let file = "\(path)/historyd.lock"
        descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else {
            throw HistoryError(
                .stateUnusable, "The lock \"\(file)\" can not be opened: \(String(cString: strerror(errno))).",
                hint: "Check the folder's owner and permissions.")
        }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            var digits = [UInt8](repeating: 0, count: 20)
            let count = read(descriptor, &digits, digits.count)
            close(descriptor)
            let holder = count > 0 ? String(decoding: digits.prefix(count), as: UTF8.self) : "unknown"
            throw HistoryError(
                .stateInUse, "Another historyd, process \(holder), uses the state folder \"\(path)\".",
                hint: "Stop it, or give this one a STATE_DIRECTORY of its own.")
        }
        let process = Array("\(getpid())".utf8)
        ftruncate(descriptor, 0)
        write(descriptor, process, process.count)
    }

    /// Makes the folder, and those that it lies in.
    ///
    /// - Returns: false with `errno`.
    private static func make(_ path: String) -> Bool {
        if mkdir(path, 0o700) == 0 || errno == EEXIST { return true }
        guard errno == ENOENT, let slash = path.dropLast().lastIndex(of: "/"), slash > path.startIndex else {
            return false
        }
        return make(String(path[..<slash])) && (mkdir(path, 0o700) == 0 || errno == EEXIST)
    }

    deinit { close(descriptor) }
}
