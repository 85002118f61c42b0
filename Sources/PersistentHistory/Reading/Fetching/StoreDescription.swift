import GRDB
import GRDBSQLite

/// The content of `historyctl describe` for a tracked store.
public struct StoreDescription: Sendable, Equatable, Codable {
    /// A table whose changes are recorded.
    public struct TrackedEntity: Sendable, Equatable, Codable {
        /// The table's name.
        public let name: String
        /// The columns whose values are kept when a row is deleted.
        public let preserved: [String]
        /// The number of the entity's changes in the history, in all its shapes.
        public let changes: Int64
    }

    /// The store's id.
    public let storeID: StoreID
    /// The tables whose changes are recorded.
    public let entities: [TrackedEntity]
    /// The oldest token after which the history can be read; nil if nothing was ever recorded.
    public let firstToken: HistoryToken?
    /// The token of the newest transaction.
    public let lastToken: HistoryToken?
    /// The number of changes in the history.
    public let changes: Int64
    /// The size of the history in the file, in bytes; nil if SQLite was built without `dbstat`.
    public let bytes: Int64?

    /// - Throws: `HistoryError`.
    public init(path: String) throws {
        self = try StoreConnection.withConnection(to: path, .read) { queue in
            try queue.read { db in
                guard try StoreRecorder.hasRecordedHistory(db) else { throw HistoryError.notTracked(db) }
                try RecordingTables.check(db)
                return try StoreDescription(db)
            }
        }
    }

    private init(_ db: Database) throws {
        let header = try HistoryHeader(db)
        let catalog = try EntityCatalog(db)
        var counts: [BinaryText: Int64] = [:]
        var total: Int64 = 0
        // Counted here, because SQLite would sort all changes.
        var shapes: [Int64: Int64] = [:]
        try db.rows("SELECT kind FROM historyd_change") { row in
            while try row.step(db) {
                let kind = sqlite3_column_int64(row, 0)
                if kind & 3 != 3 { shapes[kind >> 2, default: 0] += 1 }
            }
        }
        for (shape, count) in shapes {
            total += count
            if let entity = catalog.shapes[shape] { counts[entity.name, default: 0] += count }
        }
        storeID = header.storeID
        entities = catalog.tracked.values.sorted { $0.name.precedes($1.name) }.map {
            TrackedEntity(name: $0.name, preserved: $0.preserved.map(\.name), changes: counts[$0.name] ?? 0)
        }
        firstToken = header.newest > 0 ? HistoryToken(store: header.storeID, number: header.floor) : nil
        lastToken = header.newest > 0 ? HistoryToken(store: header.storeID, number: header.newest) : nil
        changes = total
        do {
            bytes = try Int64.fetchOne(
                db, sql: "SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'historyd\\_%' ESCAPE '\\'")
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            bytes = nil
        }
    }
}

/// How a store's commits are made atomic (https://www.sqlite.org/pragma.html#pragma_journal_mode).
package enum JournalMode {
    /// Why a store's journal mode matters to its writers; nil for WAL mode, where it does not.
    package static func note(on path: String) throws -> String? {
        let mode = try StoreConnection.withConnection(to: path, .read) { queue in
            try queue.read { db in try String.fetchOne(db, sql: "PRAGMA journal_mode") }
        }
        guard let mode, mode != "wal" else { return nil }
        return
            "The store \"\(path)\" is in journal mode \(mode): a commit fails while the daemon reads, unless the writer waits for that. Use WAL mode (PRAGMA journal_mode = WAL), or a busy timeout in every writer (PRAGMA busy_timeout = 5000)."
    }
}
