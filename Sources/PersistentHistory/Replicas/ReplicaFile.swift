package import GRDB
import GRDBSQLite
internal import Glibc

/// A replica's file: its connection, and its content besides the rows.
///
/// - `historyd_replica`: the position that the rows show (`number`), and the position up to which changes
///   have been merged (`taken`), which is further while the consumer catches up, with its fingerprint.
/// - `historyd_pending_run`, `historyd_pending_object`: the objects of the changes between the two.
/// - `historyd_object`: the created tables and indexes, with the store's SQL for them.
package struct ReplicaFile {
    let path: String
    let queue: DatabaseQueue
    private let file: FileID?
    private let sideFiles: SideFileIDs

    struct Position: Equatable {
        let store: StoreID
        var number: Int64
        var taken: Int64
        /// Proof that the transaction at `taken` is still the same; see `HistoryBatch.fingerprint`. Its
        /// consumer's checkpoint is not enough: after a kill it may be older. Nil if unknown.
        var fingerprint: String?
    }

    /// Opens a replica, or creates it if it does not exist.
    ///
    /// - Parameter encoding: The store's encoding, for a new replica. In another encoding, the bytes of a
    ///   blob are another text, so an index or a generated column would have other values.
    /// - Throws: `HistoryError` with `.replicaUnwritable` or `.replicaDamaged`.
    init(_ path: String, _ access: ReplicaAccess?, encoding: StoreEncoding) throws {
        self.path = path
        if let problem = PlainFile.problem(at: path) {
            throw HistoryError(
                .replicaUnwritable, "The replica cannot be created at \"\(path)\": \(problem).",
                hint: AccessAdvice(replica: path, access)?.text()
                    ?? "Remove what is there, or configure another path.")
        }
        if let access { try access.apply(to: path) } else { ReplicaAccess.makePrivate(path) }
        let sideFiles = access == nil ? nil : SideFiles(of: path)
        // The hold is not kept: no other process may remove the side files, and the switch to WAL mode
        // needs the file unlocked.
        _ = try sideFiles?.prepare(for: .read, timeout: .seconds(1))
        queue = try Self.translating(path, access) {
            try DatabaseQueue.open(
                PlainFile.uri(path, mayMake: true), CopyConnection.configuration(timeout: .seconds(1))
            ) { db in
                try ConnectionHardening.apply(db, .isLeftAlone)
                // Copying a large store takes minutes, which is too long for a stop.
                sqlite3_progress_handler(db.sqliteConnection, 10_000, { _ in Task.isCancelled ? 1 : 0 }, nil)
            } first: { queue in
                try queue.writeWithoutTransaction { db in
                    // An existing file keeps its encoding.
                    try db.execute(sql: "PRAGMA encoding = '\(encoding.rawValue)'")
                    try Self.begin(db, path)
                    if access != nil { try Self.keepReadable(db) }
                }
            }
        }
        try sideFiles?.check()
        file = queue.unsafeRead(\.openedFile)
        self.sideFiles = SideFileIDs(beside: path)
    }

    /// Makes the replica's own tables where they are missing.
    private static func begin(_ db: Database, _ path: String) throws {
        try CopyConnection.refuseOthers(
            db, than: "historyd_replica",
            "The replica cannot be created at \"\(path)\": that is a database, but not a replica.",
            hint: "Configure another path.")
        try CopyConnection.begin(db)
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS historyd_replica (
                    store TEXT NOT NULL, number INTEGER NOT NULL, taken INTEGER NOT NULL, fingerprint TEXT);
                CREATE TABLE IF NOT EXISTS historyd_object (
                    name TEXT PRIMARY KEY, type TEXT NOT NULL, entity TEXT NOT NULL, sql TEXT NOT NULL) WITHOUT ROWID;
                """)
        try PendingObjects.make(db)
        try addFingerprint(db)
        try checkTables(db)
    }

    /// Keeps the replica usable for users that may only read. They cannot create a `-wal` and a `-shm`,
    /// so these stay when the last connection is closed. Nor can they set a read mark, which reading
    /// requires (`walTryBeginRead` in wal.c). After a recovery the first reader that may write sets one.
    private static func keepReadable(_ db: Database) throws {
        var isOn: CInt = 1
        sqlite3_file_control(db.sqliteConnection, "main", SQLITE_FCNTL_PERSIST_WAL, &isOn)
        try db.execute(
            sql: "BEGIN IMMEDIATE; UPDATE historyd_replica SET number = number; PRAGMA user_version = 1; COMMIT"
        )
        _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM historyd_replica")
    }

    /// A replica of an earlier version has no fingerprint.
    private static func addFingerprint(_ db: Database) throws {
        let columns = try String.fetchAll(db, sql: "SELECT name FROM pragma_table_info('historyd_replica')")
        guard columns == ["store", "number", "taken"] else { return }
        try db.execute(sql: "ALTER TABLE historyd_replica ADD COLUMN fingerprint TEXT")
    }

    /// Checks the replica's content besides the rows. Any user that can write to its folder may have
    /// replaced it.
    private static func checkTables(_ db: Database) throws {
        let tables = [
            "historyd_replica": ["store", "number", "taken", "fingerprint"],
            "historyd_object": ["name", "type", "entity", "sql"],
            "historyd_pending_run": ["entity", "place", "first", "last"],
            "historyd_pending_object": ["entity", "place", "object"],
        ]
        for (table, columns) in tables {
            let type = try String.fetchOne(
                db, sql: "SELECT type FROM pragma_table_list WHERE schema = 'main' AND name = ?",
                arguments: [table])
            let found = try String.fetchAll(
                db, sql: "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0", arguments: [table])
            guard type == "table", found == columns else {
                throw UnexpectedValue("\"\(table)\" in it is not the table that historyd created")
            }
        }
    }

    /// Whether the path still leads to this file, and others find the same `-wal`. Otherwise a deleted
    /// file could be written forever.
    var isThere: Bool { file != nil && FileID(of: path) == file && !sideFiles.isOutdated(beside: path) }

    /// The size of the write-ahead log in bytes. It cannot shrink while a reader uses it.
    var logSize: Int64 {
        var status = stat()
        return stat(path + "-wal", &status) == 0 ? Int64(status.st_size) : 0
    }

    /// Moves a damaged file aside.
    ///
    /// - Returns: The new path.
    /// - Throws: `HistoryError` with `.replicaDamaged`.
    package static func moveAside(_ path: String) throws -> String {
        let newPath = path + ".damaged"
        for suffix in ["", "-wal", "-shm"] where rename(path + suffix, newPath + suffix) != 0 && errno != ENOENT
        {
            throw HistoryError(
                .replicaDamaged,
                "The replica \"\(path)\" is damaged, and cannot be moved away: \(String(cString: strerror(errno))).",
                hint: "Delete it; it is created again.")
        }
        return newPath
    }

    // MARK: Access

    /// Runs a body outside a transaction.
    ///
    /// - Throws: `HistoryError` with `.replicaUnwritable` or `.replicaDamaged`; what else the body throws.
    func access<T>(_ body: (Database) throws -> T) throws -> T {
        try Self.translating(path) { try queue.writeEndingTransactions(body) }
    }

    /// Runs a body in one transaction, which takes the replica's write lock.
    func write<T>(_ body: (Database) throws -> T) throws -> T {
        try Self.translating(path) { try queue.inTransaction(.immediate, body) }
    }

    func close() throws { try queue.end() }

    /// - Parameter access: The requested access, while the file is being opened.
    static func translating<T>(
        _ path: String, _ access: ReplicaAccess? = nil, _ body: () throws -> T
    ) throws -> T {
        func damaged(_ what: String, _ cause: any Error) -> HistoryError {
            HistoryError(
                .replicaDamaged, "The replica \"\(path)\" is damaged: \(what).",
                hint: "Delete it; it is created again.", cause: cause)
        }
        func unwritable(_ what: String, hint: String, _ cause: any Error) -> HistoryError {
            HistoryError(.replicaUnwritable, "The replica \"\(path)\" \(what).", hint: hint, cause: cause)
        }
        do {
            return try body()
        } catch let error as UnexpectedValue {
            throw damaged(error.message, error)
        } catch let error as RowDecodingError {
            throw damaged("a value has a wrong type", error)
        } catch let error as DatabaseError {
            let said = error.message ?? "SQLite result \(error.resultCode.rawValue)"
            switch error.resultCode {
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: throw damaged(said, error)
            case .SQLITE_BUSY, .SQLITE_LOCKED:
                throw unwritable(
                    "is locked by another process", hint: "Programs should only read a replica.", error)
            case .SQLITE_CONSTRAINT:
                throw unwritable(
                    "cannot hold a row of its store: \(said)",
                    hint:
                        "`PRAGMA integrity_check` of the store names rows that its own schema does not allow: mend them.",
                    error)
            default:
                throw unwritable(
                    "cannot be written: \(said)",
                    hint: AccessAdvice(replica: path, access)?.text()
                        ?? "Check the permissions and space of its folder.", error)
            }
        }
    }

    // MARK: Position

    func position(_ db: Database) throws -> Position? {
        let row = try Row.fetchOne(
            try db.cachedStatement(
                sql: "SELECT store, number, taken, fingerprint FROM historyd_replica WHERE rowid = 1"))
        return try row.map { row in
            guard let store = StoreID(try row.text("store")) else {
                throw UnexpectedValue("its store's id is not a UUID")
            }
            let taken = try row.integer("taken", in: HistoryPosition.range)
            return Position(
                store: store, number: try row.integer("number", in: 0...taken), taken: taken,
                fingerprint: try row.optionalText("fingerprint"))
        }
    }

    func setPosition(_ position: Position, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO historyd_replica (rowid, store, number, taken, fingerprint)
                VALUES (1, ?, ?, ?, ?)
                """
        )
        .execute(arguments: [position.store.text, position.number, position.taken, position.fingerprint])
    }
}

/// How to write a file that holds a copy of a store's rows, a replica or a mirror.
package enum CopyConnection {
    package static func configuration(timeout: Duration) -> Configuration {
        var configuration = Configuration.ofStore
        configuration.busyMode = .timeout(timeout / .seconds(1))
        return configuration
    }

    /// Prevents a mistyped path from deleting another program's table.
    ///
    /// - Parameter table: A table that every copy of this kind has.
    package static func refuseOthers(_ db: Database, than table: String, _ message: String, hint: String) throws
    {
        let names = Set(try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'"))
        if !names.isEmpty, !names.contains(table) {
            throw HistoryError(.replicaUnwritable, message, hint: hint)
        }
    }

    package static func begin(_ db: Database) throws {
        try db.execute(
            sql: """
                PRAGMA journal_mode = WAL; -- Readers go on with what they see while it is written.
                PRAGMA synchronous = NORMAL;
                PRAGMA journal_size_limit = 67108864;
                PRAGMA ignore_check_constraints = ON; -- What the store holds is right.
                """)
    }
}
