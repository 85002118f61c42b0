import GRDB
import GRDBSQLite

extension Database {
    /// Rolls back the open transaction, if any.
    ///
    /// `ROLLBACK` is a statement like any other: SQLite does not even prepare it while the connection is
    /// interrupted, and an interruption lasts as long as a statement runs. So all statements are reset
    /// first.
    ///
    /// - Returns: Whether no transaction is open any more. A limit on the connection's work can keep it
    ///   open.
    @discardableResult
    func rollBackTransaction() -> Bool {
        guard let connection = sqliteConnection, isInsideTransaction else { return true }
        var statement = sqlite3_next_stmt(connection, nil)
        while let current = statement {
            sqlite3_reset(current)
            statement = sqlite3_next_stmt(connection, current)
        }
        sqlite3_exec(connection, "ROLLBACK", nil, nil, nil)
        return !isInsideTransaction
    }

    /// The same, without the limit on the connection's work. The limit is removed, so the connection must
    /// not be used again.
    ///
    /// - Returns: Whether the connection can be used further.
    fileprivate func endTransaction() -> Bool {
        if rollBackTransaction() { return true }
        let connection = sqliteConnection
        sqlite3_progress_handler(connection, 0, nil, nil)
        sqlite3_set_authorizer(connection, nil, nil)
        sqlite3_exec(connection, "ROLLBACK", nil, nil, nil)
        return false
    }
}

/// Accesses that leave no transaction open. GRDB traps on an open transaction; these end it, and close
/// the connection if that fails.
extension DatabaseQueue {
    /// As `unsafeRead`.
    func readEndingTransactions<T>(_ body: (Database) throws -> T) throws -> T {
        var end = TransactionEnd()
        let result = Result { try unsafeRead { db in try end.follow(db, body) } }
        return try end.check(result, self)
    }

    /// As `writeWithoutTransaction`.
    func writeEndingTransactions<T>(_ body: (Database) throws -> T) throws -> T {
        var end = TransactionEnd()
        let result = Result { try writeWithoutTransaction { db in try end.follow(db, body) } }
        return try end.check(result, self)
    }
}

/// The state of a connection after an access.
private struct TransactionEnd {
    private var wasOpen = false
    private var isUsable = true

    mutating func follow<T>(_ db: Database, _ body: (Database) throws -> T) throws -> T {
        // An access through GRDB alone may have left a transaction open.
        db.rollBackTransaction()
        defer {
            // The connection is nil if it was closed meanwhile.
            wasOpen = db.sqliteConnection != nil && db.isInsideTransaction
            isUsable = db.endTransaction()
        }
        return try body(db)
    }

    func check<T>(_ result: Result<T, any Error>, _ queue: DatabaseQueue) throws -> T {
        var failure: (any Error)?
        if case .failure(let error) = result { failure = error }
        guard isUsable else {
            do {
                // Closing the connection rolls back what ROLLBACK cannot.
                try queue.close()
            } catch {
                failure = failure ?? error
            }
            throw HistoryError(
                .storeInterrupted,
                "A transaction on \"\(queue.path)\" could not be ended, and its connection was closed.",
                hint: "The store is opened again.", cause: failure)
        }
        guard !wasOpen || failure != nil else {
            throw HistoryError(
                .sqlite, "A transaction on \"\(queue.path)\" was left open, and was rolled back.")
        }
        return try result.get()
    }
}
