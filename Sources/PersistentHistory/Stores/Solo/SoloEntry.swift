internal import CSQLiteHistory
import GRDB
import GRDBSQLite
internal import Glibc

/// Lets a connection begin a write transaction only while no other connection is in a transaction.
///
/// In WAL mode, a transaction that has read and then writes fails at once if another connection has
/// committed in between, whatever its timeout. That cannot happen if the commit comes while no other
/// connection is in a transaction. A transaction that begins meanwhile waits inside SQLite, without its
/// busy timeout, as long as the solo transaction lasts (see `solo.c`). With a rollback journal there is
/// nothing to do: its locks already exclude each other.
struct SoloEntry {
    private(set) var staying = StayingReaders()
    var now: () -> ContinuousClock.Instant = { .now }

    /// Runs a transaction if no other connection is in one.
    ///
    /// - Parameters:
    ///   - wait: How long to hold back new transactions of others until those in progress have ended.
    ///   - restartsLog: Whether the transaction may restart the log, which waits for the disk. If others
    ///     write, they restart it.
    /// - Returns: Nil if others are in a transaction. It then took no lock that could affect an
    ///   application.
    /// - Throws: What the body throws, and `DatabaseError`.
    mutating func transaction<T>(
        _ db: Database, wait: Duration, restartsLog: Bool = true, _ body: (Database) throws -> T
    ) throws -> T? {
        let connection = db.sqliteConnection
        defer { history_leave_solo(connection) }
        guard try enter(connection, wait: wait, restartsLog) else { return nil }
        do {
            var result: T?
            try db.inTransaction(.immediate) {
                result = try body(db)
                return .commit
            }
            return result
        } catch let error as DatabaseError
            where error.extendedResultCode.rawValue == HISTORY_LOCKED_READERS && !db.isInsideTransaction
        {
            // Another connection was restarting the log.
            return nil
        }
    }

    private mutating func enter(
        _ connection: SQLiteConnection?, wait: Duration, _ restartsLog: Bool
    ) throws -> Bool {
        if wait > .zero { assertMayWait() }
        var seen = history_readers()
        let microseconds = Int32(clamping: Int64(wait / .microseconds(1)))
        let result = history_enter_solo(
            connection, staying.marks, microseconds, restartsLog ? 1 : 0, &seen)
        switch result {
        // With another VFS, other connections are not visible.
        case SQLITE_OK, SQLITE_NOTFOUND: return true
        case SQLITE_BUSY:
            staying.look(OtherReaders(seen), now: now())
            return false
        default: throw DatabaseError(resultCode: ResultCode(rawValue: result))
        }
    }
}

extension OtherReaders {
    fileprivate init(_ seen: history_readers) {
        held = seen.held
        outdated = seen.outdated
        let marks = seen.marks
        self.marks = [marks.0, marks.1, marks.2, marks.3, marks.4]
    }
}

extension DatabaseQueue {
    /// A write transaction that is solo if possible within some time, and otherwise an ordinary one.
    ///
    /// - Parameter timeout: How long to try.
    func inSoloTransaction<T>(timeout: Duration = .seconds(2), _ body: (Database) throws -> T) throws -> T {
        assertMayWait()
        var entry = SoloEntry()
        var pace = SoloPace()
        let end = ContinuousClock.now + timeout
        while ContinuousClock.now < end {
            let result = try writeWithoutTransaction { db in try entry.transaction(db, wait: pace.wait, body) }
            if let result { return result }
            let pause = min(pace.refused(chance: .random(in: 0..<1)), .milliseconds(100))
            usleep(UInt32(clamping: Int64(pause / .microseconds(1))))
        }
        return try inTransaction(.immediate, body)
    }
}
