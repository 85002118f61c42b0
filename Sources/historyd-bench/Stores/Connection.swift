import CSQLiteHistory
import GRDBSQLite

/// A connection by SQLite's own interface, with nothing in between that could cost something.
final class Connection {
    fileprivate let handle: OpaquePointer

    init(_ path: String, readOnly: Bool = false) throws(BenchError) {
        var handle: OpaquePointer?
        let access = readOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        let result = sqlite3_open_v2(path, &handle, access | SQLITE_OPEN_NOMUTEX, nil)
        guard let handle, result == SQLITE_OK else {
            throw BenchError("Cannot open a store: SQLite result \(result).")
        }
        self.handle = handle
    }

    deinit { sqlite3_close_v2(handle) }

    /// Waits for a lock that another holds, at most so long.
    func waitForLocks(milliseconds: Int32) { sqlite3_busy_timeout(handle, milliseconds) }

    /// Makes the connection known to the history, as one that has the extension linked in.
    func declareAuthor(_ author: String) throws(BenchError) {
        guard sqlite3_history_init(handle, nil, nil) == SQLITE_OK else {
            throw BenchError("The history functions cannot be installed.")
        }
        try execute("SELECT history_author('\(author)')")
    }

    func execute(_ sql: String) throws(BenchError) {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw error(sql) }
    }

    func number(_ sql: String) throws(BenchError) -> Int64 {
        let statement = try Statement(self, sql)
        return try statement.step() == .row ? statement.integer(0) : 0
    }

    fileprivate func error(_ sql: String) -> BenchError {
        BenchError("SQLite on \"\(sql)\": \(String(cString: sqlite3_errmsg(handle))).")
    }
}

/// A prepared statement.
final class Statement {
    enum Outcome {
        case row, done
        /// Another has a lock.
        case busy
    }

    private let connection: Connection
    private let sql: String
    private let handle: OpaquePointer

    init(_ connection: Connection, _ sql: String) throws(BenchError) {
        var handle: OpaquePointer?
        guard
            sqlite3_prepare_v3(connection.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil)
                == SQLITE_OK, let handle
        else { throw connection.error(sql) }
        self.connection = connection
        self.sql = sql
        self.handle = handle
    }

    deinit { sqlite3_finalize(handle) }

    func bind(_ values: Int64...) {
        for (index, value) in values.enumerated() { sqlite3_bind_int64(handle, Int32(index + 1), value) }
    }

    func step() throws(BenchError) -> Outcome {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return .row
        case SQLITE_DONE: return .done
        case SQLITE_BUSY: return .busy
        default: throw connection.error(sql)
        }
    }

    func reset() { sqlite3_reset(handle) }

    /// Runs it to its end.
    func run(_ values: Int64...) throws(BenchError) {
        for (index, value) in values.enumerated() { sqlite3_bind_int64(handle, Int32(index + 1), value) }
        let outcome = try step()
        reset()
        guard outcome != .busy else { throw connection.error(sql) }
    }

    func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }

    /// A column's bytes as text, valid until the next step.
    func bytes(_ column: Int32) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(
            start: sqlite3_column_text(handle, column), count: Int(sqlite3_column_bytes(handle, column)))
    }
}
