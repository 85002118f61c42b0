internal import CSQLiteHistory
public import GRDB
internal import GRDBSQLite
internal import Glibc

/// Opens connections to stores and registers the history's functions on them.
package enum StoreConnection {
    package enum Mode: Sendable {
        case read
        case write
    }

    /// How long a connection waits for a lock before it fails with `storeBusy`.
    static let defaultTimeout: Duration = .seconds(5)

    /// Opens an existing store, and never creates one.
    package static func open(
        _ path: String, _ mode: Mode, timeout: Duration = defaultTimeout,
        schemaCode: ConnectionHardening.SchemaCode = .isLeftAlone, work: WorkLimit? = nil
    ) throws -> DatabaseQueue {
        assertMayWait()
        let file = try StorePath.resolve(path)
        let hold = try SideFiles(of: file)?.prepare(for: mode, timeout: timeout)
        defer { withExtendedLifetime(hold) {} }
        let queue = try HistoryError.translating(path) {
            var configuration = Configuration.ofStore
            configuration.readonly = mode == .read
            configuration.busyMode = LockWait.mode(timeout)
            return try rollingBack(path) { [configuration] in
                // The closure keeps the work limit alive as long as the connection.
                try DatabaseQueue.open(
                    PlainFile.uri(file, mayMake: false, isReadOnly: mode == .read), configuration
                ) { [work] db in
                    try db.installHistory()
                    try ConnectionHardening.apply(db, schemaCode, work)
                } first: { queue in
                    // SQLite opens lazily: only the first read shows that a file is no database.
                    try queue.read { db in _ = try Int.fetchOne(db, sql: "PRAGMA schema_version") }
                }
            }
        }
        guard try StorePath.resolve(path) == file else {
            try queue.end()
            throw HistoryError.ledElsewhere(path)
        }
        return queue
    }

    /// Opens an existing store for as long as a body runs.
    static func withConnection<T>(
        to path: String, _ mode: Mode, timeout: Duration = defaultTimeout,
        schemaCode: ConnectionHardening.SchemaCode = .isLeftAlone, _ body: (DatabaseQueue) throws -> T
    ) throws -> T {
        let queue = try open(path, mode, timeout: timeout, schemaCode: schemaCode, work: WorkLimit())
        return try HistoryError.translating(path) {
            let result = Result { try body(queue) }
            try queue.end()
            return try result.get()
        }
    }

    /// Reads. If a writer crashed in the middle of a transaction, a connection that may write rolls back
    /// its hot journal (https://www.sqlite.org/lockingv3.html), and the read is repeated.
    package static func rollingBack<T>(_ path: String, _ read: () throws -> T) throws -> T {
        do {
            return try read()
        } catch let error as DatabaseError where error.extendedResultCode == .SQLITE_READONLY_ROLLBACK {
            let uri = PlainFile.uri(try StorePath.resolve(path), mayMake: false)
            try DatabaseQueue.open(uri, Configuration()) { db in
                try ConnectionHardening.apply(db, .isLeftAlone)
            } first: { queue in
                try queue.read { db in _ = try Int.fetchOne(db, sql: "PRAGMA schema_version") }
            }
            .end()
            return try read()
        }
    }
}

extension Configuration {
    /// For a connection to a store, or to a copy of its rows.
    static var ofStore: Configuration {
        var configuration = Configuration()
        // The store enforces its foreign keys only where its application wants that.
        configuration.foreignKeysEnabled = false
        // As in SQLite's default: a schema may use them, and it is copied in its own words.
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.label = "historyd"
        // The accesses end open transactions themselves, where GRDB would trap: see
        // `TransactionEnd.swift`.
        configuration.allowsUnsafeTransactions = true
        return configuration
    }
}

extension DatabaseQueue {
    /// As `read`, on a connection that can only read. It prepares neither statements nor the connection,
    /// because it runs for every commit of any process.
    package func readInTransaction<T>(_ body: (Database) throws -> T) throws -> T {
        assertMayWait()
        return try readEndingTransactions { db in try db.inReadTransaction { try body(db) } }
    }

    /// The same for a transaction that writes.
    package func writeInTransaction<T>(_ body: (Database) throws -> T) throws -> T {
        assertMayWait()
        return try writeEndingTransactions { db in try db.inTransaction("BEGIN IMMEDIATE") { try body(db) } }
    }
}

extension Database {
    /// Runs a body in a transaction of a connection that only reads.
    func inReadTransaction<T>(_ body: () throws -> T) throws -> T { try inTransaction("BEGIN", body) }

    /// The enclosing access ends the transaction where even ROLLBACK fails: see `readEndingTransactions`.
    fileprivate func inTransaction<T>(_ begin: String, _ body: () throws -> T) throws -> T {
        do {
            // Within the `do`: a progress handler can end the statement after the transaction has begun.
            try step(begin)
            let result = try body()
            try step("COMMIT")
            return result
        } catch {
            rollBackTransaction()
            throw error
        }
    }

    private func step(_ sql: String) throws {
        let statement = try cachedStatement(sql: sql).sqliteStatement
        defer { sqlite3_reset(statement) }
        // SQLite calls a progress handler by the instructions of all runs of a statement. Resetting the
        // counter keeps the few instructions of this statement from ever reaching the handler.
        sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1)
        let result = sqlite3_step(statement)
        guard result == SQLITE_DONE else {
            throw DatabaseError(resultCode: ResultCode(rawValue: result), message: lastErrorMessage, sql: sql)
        }
    }

    /// Registers `history_author` and `history_token` on this connection, without loading a file.
    ///
    /// - Throws: `HistoryError` with `.sqlite`.
    public func installHistory() throws {
        let result = sqlite3_history_init(sqliteConnection, nil, nil)
        if result != SQLITE_OK {
            throw HistoryError(
                .sqlite, "The history functions could not be installed (SQLite result \(result)).")
        }
    }

    /// Declares the author of this connection's next transactions; nil for none.
    ///
    /// - Throws: `DatabaseError` if the name is empty, longer than 255 bytes or has control characters, or if
    ///   the current transaction has recorded changes of another author.
    public func declareAuthor(_ author: String?, context: String? = nil) throws {
        _ = try Row.fetchOne(self, sql: "SELECT history_author(?, ?)", arguments: [author, context])
    }
}

extension HistoryError {
    static func ledElsewhere(_ path: String) -> HistoryError {
        HistoryError(
            .storeBusy, "The path \"\(path)\" led to another file while the store was opened.",
            hint: "Try again.")
    }

    /// Runs a body and explains its SQLite errors for the store at a path.
    ///
    /// - Parameters:
    ///   - remedy: How to repair a damaged history.
    ///   - isUntouched: Whether no file beside the store may be created or changed.
    package static func translating<T>(
        _ path: String, remedy: String = "Restore the store, or untrack and track it.",
        isUntouched: Bool = false, _ body: () throws -> T
    ) throws -> T {
        do {
            return try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_CORRUPT {
            throw SuspectedDamage(error, of: path, isUntouched: isUntouched).error(path)
        } catch let error as DatabaseError {
            throw HistoryError(error, path: path)
        } catch let error as UnexpectedValue {
            throw damaged(path, error.message, remedy, error)
        } catch let error as RowDecodingError {
            throw damaged(path, "a value has a wrong type", remedy, error)
        }
    }

    private static func damaged(_ path: String, _ what: String, _ remedy: String, _ cause: any Error)
        -> HistoryError
    {
        HistoryError(
            .storeCorrupt, "The history of the store \"\(path)\" is damaged: \(what).", hint: remedy,
            cause: cause)
    }

    init(_ error: DatabaseError, path: String) {
        let said = error.message ?? "SQLite result \(error.extendedResultCode.rawValue)"
        switch error.resultCode {
        case _ where error.extendedResultCode.rawValue == HISTORY_IOERR_MAPPING_LOST:
            self.init(
                .storeInterrupted,
                "The file \"\(path)-shm\" was made shorter by another process while the store was in use.",
                hint: "The store is opened again. Only SQLite may write that file.", cause: error)
        case _ where error.extendedResultCode == .SQLITE_READONLY_DBMOVED:
            self.init(
                .storeInterrupted,
                "The store \"\(path)\" was replaced, moved or removed while it was in use.",
                hint: "It is opened again.", cause: error)
        case .SQLITE_NOTADB:
            self.init(
                .storeCorrupt, "\"\(path)\" is not an SQLite database.", hint: "Check the path.", cause: error)
        case .SQLITE_CORRUPT:
            self = SuspectedDamage(error).error(path)
        case .SQLITE_TOOBIG:
            self.init(
                .storeCorrupt, "The store \"\(path)\" holds a value that is too large to be read: \(said).",
                hint: "Restore the store, or untrack and track it.", cause: error)
        case .SQLITE_FULL:
            self.init(
                .storeFull, "The store \"\(path)\" cannot be written: its file system is full.",
                hint: "Free space, and try again.", cause: error)
        case .SQLITE_BUSY, .SQLITE_LOCKED:
            self.init(
                .storeBusy, "The store \"\(path)\" is locked by another process.",
                hint: "Try again.", cause: error)
        case .SQLITE_CANTOPEN where DescriptorLimit.isReached:
            self = .tooManyFiles("The store \"\(path)\" cannot be used", cause: error)
        case _ where error.extendedResultCode == .SQLITE_READONLY && Self.mayBeWritten(path):
            self.init(
                .storeInterrupted,
                "The store \"\(path)\" could be opened for reading alone, although it may be written.",
                hint: "It is opened again. Mostly descriptors were lacking for a moment.", cause: error)
        case _ where error.extendedResultCode == .SQLITE_CANTOPEN && Self.mayBeOpened(path):
            self.init(
                .storeInterrupted,
                "The store \"\(path)\" could not be opened for a moment, although it may be used: \(said).",
                hint: "It is opened again. Mostly descriptors or memory were lacking.", cause: error)
        case .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_READONLY, .SQLITE_AUTH:
            self.init(
                .storeUnreadable, "The store \"\(path)\" cannot be used: \(said).",
                hint: AccessAdvice(path)?.text()
                    ?? "Check the permissions of the file, its -wal and -shm, and its folder.", cause: error)
        default:
            self.init(.sqlite, "SQLite reports for \"\(path)\": \(said).", cause: error)
        }
    }

    /// Whether this process may write a store's files. SQLite opens a file for reading alone where it cannot be
    /// opened for writing (https://www.sqlite.org/c3ref/open.html), for whatever reason, and the connection
    /// stays so; all of a process share the `-shm`. Its extended results have other reasons, such as a folder
    /// in which no journal can be made.
    private static func mayBeWritten(_ path: String) -> Bool {
        guard access(path, W_OK) == 0 else { return false }
        return ["-wal", "-shm"].allSatisfy { mayBeUsed(path + $0) }
    }

    private static func mayBeUsed(_ path: String) -> Bool {
        !FileRights.isSomethingElse(path) && (access(path, W_OK) == 0 || errno == ENOENT)
    }

    /// Whether no right is missing to open a store, and to make the files beside it.
    private static func mayBeOpened(_ path: String) -> Bool {
        mayBeWritten(path) && access(PathNames.parent(of: path), W_OK | X_OK) == 0
            && mayBeUsed(path + "-journal")
    }
}

extension DatabaseQueue {
    /// A transaction that returns the body's result.
    func inTransaction<T>(_ kind: Database.TransactionKind, _ body: (Database) throws -> T) throws -> T {
        var result: T?
        try writeEndingTransactions { db in
            try db.inTransaction(kind) {
                result = try body(db)
                return .commit
            }
        }
        guard let result else { throw HistoryError(.sqlite, "A transaction ended without a result.") }
        return result
    }
}
