import CSQLiteHistory
import GRDBSQLite
import PersistentHistory

// SQLITE_CONSTRAINT_FOREIGNKEY, _PRIMARYKEY, _UNIQUE, _ROWID, _TRIGGER, _PINNED and _DATATYPE, macros that Swift does not see.
private let foreignKeyViolation = SQLITE_CONSTRAINT | 3 << 8
private let uniquenessViolations = [6, 8, 10].map { SQLITE_CONSTRAINT | $0 << 8 }
private let raised = SQLITE_CONSTRAINT | 7 << 8
private let pinnedRow = SQLITE_CONSTRAINT | 11 << 8
private let typeViolation = SQLITE_CONSTRAINT | 12 << 8

/// A connection by SQLite's own interface: fast, and with nothing of the library in between.
final class Connection {
    /// What an application sees of a statement.
    struct Outcome: Equatable, CustomStringConvertible {
        var code: Int32 = SQLITE_OK
        var message = ""
        var rows: [[Cell]] = []
        var changes: Int64 = 0
        var lastInsertRowid: Int64 = 0
        var isInTransaction = false

        var succeeded: Bool { code == SQLITE_OK }
        var violatesType: Bool { code == typeViolation || code == SQLITE_MISMATCH }
        /// What an index computes of a row failed.
        var failsToCompute: Bool {
            code == SQLITE_ERROR
                && ["malformed JSON", "integer overflow", "JSON"].contains(where: message.hasPrefix)
        }
        var wasTooMuch: Bool { code == SQLITE_INTERRUPT }
        var violatesUniqueness: Bool { uniquenessViolations.contains(code) }
        /// A trigger called RAISE.
        var wasRaised: Bool { code == raised }
        var meetsPinnedRow: Bool { code == pinnedRow }
        var violatesForeignKey: Bool { code == foreignKeyViolation }

        var description: String {
            "\(code) \"\(message)\" rows \(rows) changes \(changes) rowid \(lastInsertRowid)"
                + (isInTransaction ? " in a transaction" : "")
        }
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    private let handle: OpaquePointer
    /// Statements that are run again and again.
    private var kept: [BinaryText: OpaquePointer] = [:]

    /// Sets limits that SQLite recommends (https://www.sqlite.org/security.html), but for the depth of expressions.
    func limit() {
        for (limit, value) in [
            (SQLITE_LIMIT_COMPOUND_SELECT, 3), (SQLITE_LIMIT_EXPR_DEPTH, 100), (SQLITE_LIMIT_FUNCTION_ARG, 8),
        ] as [(Int32, Int32)] {
            sqlite3_limit(handle, limit, value)
        }
    }

    init(_ path: String) throws(Failure) {
        var handle: OpaquePointer?
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
        let result = sqlite3_open_v2(path, &handle, flags, nil)
        guard let handle, result == SQLITE_OK else {
            throw Failure(description: "\(path) cannot be opened: SQLite result \(result).")
        }
        self.handle = handle
        sqlite3_extended_result_codes(handle, 1)
        // Triggers that call each other may have a statement go on for hours.
        sqlite3_progress_handler(handle, 500_000, { _ in 1 }, nil)
    }

    deinit {
        for statement in kept.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
    }

    /// Makes `history_author` known, as the loadable extension does.
    func installHistory() throws(Failure) {
        guard sqlite3_history_init(handle, nil, nil) == SQLITE_OK else {
            throw Failure(description: "The history functions cannot be installed.")
        }
    }

    var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    /// Runs one statement to its end, whatever comes of it.
    func run(_ sql: String) -> Outcome {
        var outcome = Outcome()
        var statement: OpaquePointer?
        var code = sqlite3_prepare_v2(handle, sql, -1, &statement, nil)
        if code == SQLITE_OK {
            (code, outcome.rows) = step(statement)
            code = code == SQLITE_DONE ? SQLITE_OK : code
        }
        if code != SQLITE_OK { outcome.message = String(cString: sqlite3_errmsg(handle)) }
        sqlite3_finalize(statement)
        outcome.code = code
        outcome.changes = sqlite3_changes64(handle)
        outcome.lastInsertRowid = sqlite3_last_insert_rowid(handle)
        outcome.isInTransaction = isInTransaction
        return outcome
    }

    /// Sets what `last_insert_rowid()` says.
    func forgetLastInsert() { sqlite3_set_last_insert_rowid(handle, 0) }

    /// Runs statements that must succeed.
    func execute(_ sql: String) throws(Failure) {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure(sql) }
    }

    /// The rows of a statement that is kept for the next time; nil while another has a lock.
    func rows(_ sql: String) throws(Failure) -> [[Cell]]? {
        let sql = BinaryText(sql)
        if kept[sql] == nil {
            var statement: OpaquePointer?
            let code = sqlite3_prepare_v2(handle, sql.text, -1, &statement, nil)
            if code & 0xff == SQLITE_BUSY { return nil }
            guard code == SQLITE_OK else { throw failure(sql.text) }
            kept[sql] = statement
        }
        let statement = kept[sql]
        defer { sqlite3_reset(statement) }
        let (code, rows) = step(statement)
        if code & 0xff == SQLITE_BUSY { return nil }
        guard code == SQLITE_DONE else { throw failure(sql.text) }
        return rows
    }

    private func step(_ statement: OpaquePointer?) -> (Int32, [[Cell]]) {
        var rows: [[Cell]] = []
        while true {
            let code = sqlite3_step(statement)
            guard code == SQLITE_ROW else { return (code, rows) }
            rows.append((0..<sqlite3_column_count(statement)).map { cell(statement, $0) })
        }
    }

    private func cell(_ statement: OpaquePointer?, _ column: Int32) -> Cell {
        func bytes(_ start: UnsafeRawPointer?) -> [UInt8] {
            let count = Int(sqlite3_column_bytes(statement, column))
            return start.map { Array(UnsafeRawBufferPointer(start: $0, count: count)) } ?? []
        }
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: return .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: return .number(sqlite3_column_double(statement, column))
        case SQLITE_TEXT: return .text(bytes(sqlite3_column_text(statement, column)))
        case SQLITE_BLOB: return .blob(bytes(sqlite3_column_blob(statement, column)))
        default: return .null
        }
    }

    private func failure(_ sql: String) -> Failure {
        Failure(description: "\"\(sql)\": \(String(cString: sqlite3_errmsg(handle)))")
    }
}
