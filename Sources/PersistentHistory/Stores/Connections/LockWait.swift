import GRDB
internal import Glibc

/// Waits for a lock that another process holds.
///
/// SQLite's own busy handler sleeps longer and longer, up to a tenth of a second
/// (`sqlite3_busy_timeout`). A writer that never pauses releases the lock for some microseconds between
/// two commits, so a reader that rarely tries misses them all.
final class LockWait: Sendable {
    private let timeout: Duration
    private let end = Locked<ContinuousClock.Instant?>(nil)

    /// - Parameter timeout: How long to wait; 0 for not at all.
    static func mode(_ timeout: Duration) -> Database.BusyMode {
        guard timeout > .zero else { return .immediateError }
        let wait = LockWait(timeout)
        return .callback { attempts in wait.goesOn(attempts) }
    }

    /// Retries while a lock is in the way, on a connection that does not wait for locks itself.
    ///
    /// - Throws: What the body throws; `HistoryError` with `.storeBusy` after the timeout.
    static func retrying<T>(_ timeout: Duration, _ body: () throws -> T) throws -> T {
        let wait = LockWait(timeout)
        var attempts = 0
        while true {
            do {
                return try body()
            } catch let error as HistoryError where error.code == .storeBusy {
                guard wait.goesOn(attempts) else { throw error }
                attempts += 1
            }
        }
    }

    private init(_ timeout: Duration) { self.timeout = timeout }

    /// Called by SQLite with the number of failed attempts at this lock so far.
    private func goesOn(_ attempts: Int) -> Bool {
        assertMayWait()
        let now = ContinuousClock.now
        let end = end.withLock { end -> ContinuousClock.Instant in
            let until = attempts == 0 ? now + timeout : end ?? now + timeout
            end = until
            return until
        }
        guard now < end else { return false }
        usleep(Self.pause(after: timeout - (end - now)))
        return true
    }

    /// How long to wait before the next attempt, in microseconds.
    ///
    /// Beside a writer that never pauses, one attempt in some hundreds succeeds, and it takes thousands
    /// to be nearly certain of one. But a lock held for long probably belongs to a process at work, and
    /// attempts use the processor. So their number first grows with the logarithm of the time, then by a
    /// thousand a second.
    private static func pause(after waited: Duration) -> UInt32 {
        UInt32(clamping: Int64(min(max(waited / 512, .microseconds(50)), .milliseconds(1)) / .microseconds(1)))
    }
}
