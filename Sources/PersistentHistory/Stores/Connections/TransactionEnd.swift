import GRDB
import GRDBSQLite

extension Database {
    /// Rolls the open transaction back, if there is one.
    ///
    /// `ROLLBACK` is a statement as any other: SQLite does not even prepare it while the connection is interrupted, and
    /// an interruption lasts as long as a statement runs. So all statements are reset first.
    ///
    /// - Returns: Whether no transaction is open any more. A limit on the connection's work can keep it open.
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

    /// The same, whatever limits the connection's work: that is taken away, and then the connection is of no further use.
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

/// Accesses after which no transaction is open. GRDB traps where one is; here it is ended, and a connection on which that
/// fails is closed.
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

/// What an access to a connection left.
private struct TransactionEnd {
    private var wasOpen = false
    private var isUsable = true

    mutating func follow<T>(_ db: Database, _ body: (Database) throws -> T) throws -> T {
        // An access by GRDB alone may have left one.
        db.rollBackTransaction()
        defer {
            // There is no connection where it was closed meanwhile.
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
                // What cannot be rolled back otherwise, the end of its connection rolls back.
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
