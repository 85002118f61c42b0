public import GRDB
import GRDBSQLite
internal import Glibc

/// Runs SQL as an author, for programs without their own connection.
public enum AuthoredSQL {
    /// Runs statements one after the other: all in one transaction, unless they contain BEGIN.
    ///
    /// Statements that SQLite refuses or ignores within a transaction (VACUUM, `PRAGMA foreign_keys`) work as
    /// well: a single statement runs in autocommit mode, and so does each PRAGMA and ATTACH before all other
    /// statements.
    ///
    /// - Parameters:
    ///   - sql: One or more statements.
    ///   - path: The store.
    ///   - author: The author of the changes.
    ///   - context: The part of the author that makes the changes.
    ///   - row: Called with each row that a statement returns: its values as SQLite converts them to
    ///     text, nil for null. It is called before the transaction is committed.
    /// - Returns: The token of the last transaction that recorded something.
    /// - Throws: `HistoryError` with `.statementFailed`, `.authorInvalid` and others, and what `row`
    ///   throws. An open transaction is then rolled back.
    @discardableResult
    public static func run(
        _ sql: String, on path: String, author: String, context: String? = nil,
        row: ([[UInt8]?]) throws -> Void = { _ in }
    ) throws -> HistoryToken? {
        try StoreRecorder.requireRecordable(path)
        return try StoreConnection.withConnection(to: path, .write, schemaCode: .runs) { queue in
            try queue.writeEndingTransactions { db in
                guard try StoreRecorder.hasRecordedHistory(db) else { throw HistoryError.notTracked(db) }
                try declare(author, context, db)
                var script = Script(sql, db)
                try script.run(row)
                return try String.fetchOne(db, sql: "SELECT history_token()").flatMap(HistoryToken.init)
            }
        }
    }

    private static func declare(_ author: String, _ context: String?, _ db: Database) throws {
        do {
            try db.declareAuthor(author, context: context)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw HistoryError(
                .authorInvalid, "The author cannot be declared: \(error.message ?? "").", cause: error)
        }
    }

    /// The current statements.
    private struct Script {
        private let sql: String
        private let connection: OpaquePointer?
        private let needsTransaction: Bool
        private var hasBegun = false

        init(_ sql: String, _ db: Database) {
            self.sql = sql
            connection = db.sqliteConnection
            let words = SQLTokens.firstWords(sql)
            needsTransaction = !words.contains("BEGIN") && words.drop(while: Self.isPreparation).count > 1
        }

        mutating func run(_ row: ([[UInt8]?]) throws -> Void) throws {
            guard !sql.utf8.contains(0) else {
                throw HistoryError(
                    .statementFailed, "The SQL contains a NUL character, at which SQLite stops reading.")
            }
            // GRDB's authorizer is called for each column that a statement or one of its triggers reads,
            // to track changes. It is not needed here, and takes longer than everything else.
            sqlite3_set_authorizer(connection, nil, nil)
            // The text ends with a NUL. Otherwise SQLite copies the whole rest for each statement.
            try sql.withCString { start in
                var next = start
                while next.pointee != 0 { next = try runStatement(next, row) }
            }
            // The SQL may have ended the transaction.
            if hasBegun, isInTransaction { try execute("COMMIT") }
            guard !isInTransaction else {
                throw HistoryError(
                    .statementFailed, "The SQL leaves a transaction open; it was rolled back.",
                    hint: "End it with COMMIT.")
            }
        }

        /// - Returns: Where the next statement begins.
        private mutating func runStatement(
            _ start: UnsafePointer<CChar>, _ row: ([[UInt8]?]) throws -> Void
        ) throws -> UnsafePointer<CChar> {
            var statement: OpaquePointer?
            var tail: UnsafePointer<CChar>?
            try check(sqlite3_prepare_v2(connection, start, -1, &statement, &tail))
            defer { sqlite3_finalize(statement) }
            let end = tail ?? start + strlen(start)
            // There is no statement if only a comment or white space is left.
            guard let statement else { return end }
            if needsTransaction, !hasBegun {
                let text = String(
                    decoding: UnsafeRawBufferPointer(start: start, count: end - start), as: UTF8.self)
                if !Self.isPreparation(SQLTokens.firstWords(text).first ?? "") {
                    try execute("BEGIN IMMEDIATE")
                    hasBegun = true
                }
            }
            while true {
                let result = sqlite3_step(statement)
                if result == SQLITE_DONE { return end }
                if result != SQLITE_ROW { try check(result) }
                try row((0..<sqlite3_column_count(statement)).map { Self.text(statement, $0) })
            }
        }

        private static func text(_ statement: OpaquePointer, _ column: Int32) -> [UInt8]? {
            guard let bytes = sqlite3_column_text(statement, column) else { return nil }
            return Array(UnsafeBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(statement, column))))
        }

        /// Whether a statement sets up the connection, and does not belong to a transaction.
        private static func isPreparation(_ firstWord: String) -> Bool {
            firstWord == "PRAGMA" || firstWord == "ATTACH"
        }

        private var isInTransaction: Bool { sqlite3_get_autocommit(connection) == 0 }

        private func execute(_ sql: String) throws { try check(sqlite3_exec(connection, sql, nil, nil, nil)) }

        private func check(_ result: Int32) throws {
            guard result != SQLITE_OK else { return }
            let error = DatabaseError(
                resultCode: ResultCode(rawValue: result), message: String(cString: sqlite3_errmsg(connection)))
            // A lock, a damaged file or a missing permission is not the statement's fault.
            guard
                [
                    .SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_READONLY,
                    .SQLITE_CANTOPEN, .SQLITE_FULL, .SQLITE_IOERR,
                ]
                .contains(error.resultCode)
            else {
                throw HistoryError(
                    .statementFailed, "The SQL fails: \(error.message ?? "SQLite result \(result)").",
                    hint: hasBegun && isInTransaction
                        ? "Nothing was changed, because all the SQL is one transaction." : nil, cause: error)
            }
            throw error
        }
    }
}

/// GRDB connections whose transactions are recorded under a name.
extension Configuration {
    /// Declares each connection's author when it is opened: a queue's one, a pool's writer.
    ///
    /// - Parameters:
    ///   - author: The author, such as `MainApp`.
    ///   - context: The part of the author that makes the changes, such as `editor`; nil for none.
    public mutating func declareAuthor(_ author: String, context: String? = nil) {
        prepareDatabase { db in
            try db.installHistory()
            try db.declareAuthor(author, context: context)
        }
    }

    fileprivate func declaring(_ author: String, _ context: String?) -> Configuration {
        var configuration = self
        configuration.declareAuthor(author, context: context)
        return configuration
    }
}

extension DatabaseQueue {
    /// Opens a store as an author: the connection's transactions are recorded under this name.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - author: The author, such as `MainApp`.
    ///   - context: The part of the author that makes the changes; nil for none.
    ///   - configuration: Further settings; its own preparations run first.
    /// - Throws: `DatabaseError`, also if the name is empty, longer than 255 bytes or has control characters.
    public convenience init(
        path: String, author: String, context: String? = nil, configuration: Configuration = Configuration()
    ) throws {
        try self.init(path: path, configuration: configuration.declaring(author, context))
    }
}

extension DatabasePool {
    /// Opens a store as an author: the connection's transactions are recorded under this name.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - author: The author, such as `MainApp`.
    ///   - context: The part of the author that makes the changes; nil for none.
    ///   - configuration: Further settings; its own preparations run first.
    /// - Throws: `DatabaseError`, also if the name is empty, longer than 255 bytes or has control characters.
    public convenience init(
        path: String, author: String, context: String? = nil, configuration: Configuration = Configuration()
    ) throws {
        try self.init(path: path, configuration: configuration.declaring(author, context))
    }
}
