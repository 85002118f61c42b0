import CSQLiteHistory
import GRDBSQLite

/// A connection by SQLite's own interface, with nothing in between that could cost something.
final class Connection {
    fileprivate let handle: OpaquePointer

    init(_ path: String) throws(BenchError) {
        var handle: OpaquePointer?
        let result = sqlite3_open_v2(
            path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil)
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
        return try statement.step() ? statement.integer(0) : 0
    }

    fileprivate func error(_ sql: String) -> BenchError {
        BenchError("SQLite on \"\(sql)\": \(String(cString: sqlite3_errmsg(handle))).")
    }
}

/// A prepared statement.
final class Statement {
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

    /// - Returns: Whether there is a row.
    fileprivate func step() throws(BenchError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw connection.error(sql)
        }
    }

    /// Runs it to its end.
    func run(_ values: Int64...) throws(BenchError) {
        for (index, value) in values.enumerated() { sqlite3_bind_int64(handle, Int32(index + 1), value) }
        defer { sqlite3_reset(handle) }
        _ = try step()
    }

    fileprivate func integer(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
}
