internal import CSQLiteHistory
package import GRDB
import GRDBSQLite

/// Settings for every connection to a file that others can write (https://www.sqlite.org/security.html).
package enum ConnectionHardening {
    /// Whether triggers and views of the file run. They run only where the caller's own SQL does.
    package enum SchemaCode: Int32 { case isLeftAlone = 0, runs = 1 }

    /// How many instructions of SQLite's virtual machine run between two checks: a fraction of a
    /// millisecond.
    private static let instructionsPerLook: Int32 = 20_000

    /// - Parameter work: Bounds each statement's work.
    package static func apply(_ db: Database, _ code: SchemaCode, _ work: WorkLimit? = nil) throws {
        let connection = db.sqliteConnection
        let result = history_harden(connection, code.rawValue)
        guard result == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: result)) }
        if code == .isLeftAlone { sqlite3_limit(connection, SQLITE_LIMIT_ATTACHED, 0) }
        sqlite3_limit(connection, SQLITE_LIMIT_WORKER_THREADS, 0)
        // Check cells when a page is read from the file, not with each use. Map no part of the file: a
        // process that truncates it would crash this one.
        try db.execute(sql: "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0")
        guard let work else { return }
        work.connection.withLock { $0 = UInt(bitPattern: connection) }
        sqlite3_progress_handler(
            connection, instructionsPerLook,
            { work in
                guard let work else { return 0 }
                return Unmanaged<WorkLimit>.fromOpaque(work).takeUnretainedValue().mayGoOn ? 0 : 1
            }, Unmanaged.passUnretained(work).toOpaque())
    }
}

/// Limits the work of SQLite, and ends it early when the task is cancelled.
///
/// It belongs to one connection and must live as long as that does. Only the connection's queue counts
/// with it; the limit can be set from elsewhere.
package final class WorkLimit: Sendable {
    private struct State {
        var looks = 0
        var most: Int
        var isExceeded = false
    }

    private let state: Locked<State>
    private let endsWithTask: Bool
    /// The address of the connection whose work it bounds.
    fileprivate let connection = Locked<UInt>(0)

    /// - Parameters:
    ///   - looks: How often SQLite may check whether to continue.
    ///   - endsWithTask: Whether the work ends when the task is cancelled.
    init(looks: Int = .max, endsWithTask: Bool = true) {
        state = Locked(State(most: looks))
        self.endsWithTask = endsWithTask
    }

    /// Starts counting from zero for the next piece of work.
    func begin() { state.withLock { ($0.looks, $0.isExceeded) = (0, false) } }

    func setMost(_ looks: Int) { state.withLock { $0.most = looks } }

    /// Whether the last piece of work was ended because it reached the limit.
    var isExceeded: Bool { state.withLock(\.isExceeded) }

    /// - Throws: `UnexpectedValue` if the work exceeded the limit; what the body throws.
    func explaining<T>(_ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_INTERRUPT && isExceeded {
            throw UnexpectedValue("reading it takes more work than any valid history needs")
        }
    }

    fileprivate var mayGoOn: Bool {
        // A transaction that keeps others from beginning one may do so for a limited time only.
        history_open_solo(OpaquePointer(bitPattern: connection.withLock { $0 }))
        if endsWithTask && Task.isCancelled { return false }
        return state.withLock { state in
            state.looks += 1
            state.isExceeded = state.looks > state.most
            return !state.isExceeded
        }
    }
}
