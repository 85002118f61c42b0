import Glibc
package import Logging
package import PersistentHistory

/// The folder with the daemon's state, held by one daemon at a time.
///
/// The lock is a flock(2) on a file in the folder: the kernel releases it however the process ends.
package final class StateFolder: Sendable {
    package let path: String
    /// Whether its file system was read-only when the folder was opened.
    let isReadOnly: Bool
    private let descriptor: Int32

    /// Creates the folder where it is missing, and takes the lock.
    ///
    /// - Throws: `HistoryError` with `.stateInUse`, which names the process that holds the lock, or with what
    ///   is wrong with the folder.
    package init(_ path: String) throws(HistoryError) {
        self.path = path
        guard Self.make(path) else {
            throw Self.trouble("The state folder \"\(path)\" cannot be created", errno, at: path)
        }
        let file = "\(path)/historyd.lock"
        var descriptor = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        // Opening succeeds even if nothing can be written now: each store waits for that.
        let number = errno
        isReadOnly = descriptor < 0 && number == EROFS
        if isReadOnly { descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) }
        guard descriptor >= 0 else {
            throw Self.trouble("The lock \"\(file)\" cannot be opened", number, at: path)
        }
        self.descriptor = descriptor
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            var digits = [UInt8](repeating: 0, count: 20)
            let count = read(descriptor, &digits, digits.count)
            close(descriptor)
            let holder = count > 0 ? String(decoding: digits.prefix(count), as: UTF8.self) : "unknown"
            throw HistoryError(
                .stateInUse, "Another historyd, process \(holder), uses the state folder \"\(path)\".",
                hint: "Stop it, or set another STATE_DIRECTORY for this one.")
        }
        let process = Array("\(getpid())".utf8)
        ftruncate(descriptor, 0)
        write(descriptor, process, process.count)
    }

    private static func trouble(_ what: String, _ number: Int32, at path: String) -> HistoryError {
        let trouble = StateTrouble(errno: number)
        let hint = trouble == .unusable ? "Set STATE_DIRECTORY to a writable folder." : trouble.hint(at: path)
        return HistoryError(trouble.code, "\(what): \(String(cString: strerror(number))).", hint: hint)
    }

    /// Takes the folder, and waits while its file system is temporarily full or read-only.
    ///
    /// A service has its own view of the file systems, in which a folder that was read-only at the start stays
    /// read-only. The daemon therefore ends after a while, and the service manager starts it with a new view.
    ///
    /// - Parameter readOnlyLimit: How long to wait for a read-only file system; nil waits for as long as it
    ///   takes.
    /// - Throws: `HistoryError` for what does not resolve by itself; `CancellationError`.
    package static func waiting(
        for path: String, logger: Logger, notifier: any ServiceNotifying, readOnlyLimit: Duration?
    ) async throws -> StateFolder {
        var failures = 0
        let start = ContinuousClock.now
        while true {
            do throws(HistoryError) {
                let folder = try StateFolder(path)
                guard folder.isReadOnly, readOnlyLimit != nil else { return folder }
                throw trouble("The state folder \"\(path)\" cannot be written", EROFS, at: path)
            } catch {
                guard error.code == .stateFull || error.code == .stateReadOnly else { throw error }
                if error.code == .stateReadOnly, let readOnlyLimit, .now - start > readOnlyLimit {
                    throw HistoryError(
                        .stateReadOnly, "\(error.message) historyd ends, to be started again.", hint: error.hint
                    )
                }
                failures += 1
                let delay = Backoff.delay(
                    afterFailures: failures, first: .milliseconds(500), longest: .seconds(20))
                if failures == 1 { logger.report(.stateUnavailable, "\(error)") }
                notifier.notify(.status("Waiting: \(error.message)"), .extendTimeout(delay + .seconds(60)))
                try await Task.sleep(for: delay, clock: .loop)
            }
        }
    }

    /// Creates the folder and its missing parents.
    ///
    /// - Returns: False with `errno` set if that fails.
    private static func make(_ path: String) -> Bool {
        if mkdir(path, 0o700) == 0 || errno == EEXIST { return true }
        guard errno == ENOENT, let slash = path.dropLast().lastIndex(of: "/"), slash > path.startIndex else {
            return false
        }
        return make(String(path[..<slash])) && (mkdir(path, 0o700) == 0 || errno == EEXIST)
    }

    deinit { close(descriptor) }
}
