import GRDB
internal import Glibc

/// A SQLite file with copies of a consumer's entities, kept by the default merge.
///
/// The rows and the place in the history that they show are written in one transaction: a kill at
/// any instant neither loses nor repeats a merge.
public actor ReplicaContext {
    public nonisolated let name: String
    public nonisolated let path: String
    private let storePath: String
    /// Nil is every tracked entity.
    private let entities: Set<String>?
    private var opened: Opened?

    private struct Opened {
        let store: DatabaseQueue
        let replica: DatabaseQueue
        let storeID: StoreID
        var number: Int64
        /// The entities' tables as of `schemaVersion`.
        var tables: [String: ReplicaTable] = [:]
        var schemaVersion: Int64 = -1
    }

    public init(name: String, path: String, storePath: String, entities: Set<String>?) {
        self.name = name
        self.path = path
        self.storePath = storePath
        self.entities = entities
    }

    public nonisolated var description: ContextDescription {
        ContextDescription(name: name, kind: "replica", path: path)
    }

    /// Opens the replica, and fills it from one snapshot of the store where it is new, another
    /// store's, ahead of its store, or its place in the history has expired.
    ///
    /// - Returns: The place in the history that the replica shows, and whether it was just filled.
    /// - Throws: `HistoryError`.
    public func prepare() throws -> (number: Int64, filled: Bool) {
        if let opened { return (opened.number, false) }
        let store = try StoreConnection.open(storePath, .read, patience: 1)
        let replica = try openReplica()
        let header = try HistoryError.translating(storePath) { try store.read { db in try HistoryHeader(db) } }
        let place = try HistoryError.translating(path) { try replica.read { db in try Self.place(db) } }
        var opened = Opened(store: store, replica: replica, storeID: header.storeID, number: place?.number ?? 0)
        if let place, place.store == header.storeID, place.number >= header.floor,
            place.number <= max(header.newest, header.floor)
        {
            self.opened = opened
            return (place.number, false)
        }
        opened.number = try fill(opened)
        self.opened = opened
        return (opened.number, true)
    }

    /// Ends the connections; the next call opens them anew.
    public func close() {
        guard let opened else { return }
        self.opened = nil
        // Nothing is written here: a failure to close loses nothing, and the next opening tells.
        try? opened.replica.close()
        try? opened.store.close()
    }

    /// Forgets the replica's place, so that it is filled anew.
    public func resync() throws {
        close()
        let replica = try openReplica()
        try HistoryError.translating(path) {
            try replica.write { db in try db.execute(sql: "DELETE FROM historyd_replica") }
            try replica.close()
        }
    }

    private func openReplica() throws -> DatabaseQueue {
        do {
            var configuration = Configuration()
            configuration.busyMode = .timeout(1)
            configuration.foreignKeysEnabled = false
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            try queue.writeWithoutTransaction { db in
                // Readers go on with what they see while a merge is written.
                try db.execute(sql: "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
                try db.execute(
                    sql:
                        "CREATE TABLE IF NOT EXISTS historyd_replica (store TEXT NOT NULL, number INTEGER NOT NULL)"
                )
            }
            return queue
        } catch let error as DatabaseError {
            throw HistoryError(
                .replicaUnwritable,
                "The replica \"\(path)\" can not be written: \(error.message ?? "SQLite result \(error.resultCode.rawValue)").",
                hint:
                    "Check the permissions and space of its folder; a damaged replica may be deleted, it is made anew.",
                cause: error)
        }
    }

    private static func place(_ replica: Database) throws -> (store: StoreID, number: Int64)? {
        let row = try Row.fetchOne(replica, sql: "SELECT store, number FROM historyd_replica")
        return row.map { (StoreID($0["store"]), $0["number"]) }
    }

    private static func setPlace(_ replica: Database, _ store: StoreID, _ number: Int64) throws {
        try replica.cachedStatement(
            sql: "INSERT OR REPLACE INTO historyd_replica (rowid, store, number) VALUES (1, ?, ?)"
        )
        .execute(arguments: [store.text, number])
    }

    private func fill(_ opened: Opened) throws -> Int64 {
        try both(opened) { store, replica in
            let header = try HistoryHeader(store)
            for name in try wantedEntities(store) {
                try ReplicaTable(name, in: store).fill(replica, from: store)
            }
            try Self.setPlace(replica, header.storeID, header.newest)
            return header.newest
        }
    }

    private func wantedEntities(_ store: Database) throws -> [String] {
        try EntityCatalog(store).tracked.keys.filter { entities?.contains($0) ?? true }.sorted()
    }

    /// One read transaction of the store inside one write transaction of the replica.
    private func both<T>(_ opened: Opened, _ body: (Database, Database) throws -> T) throws -> T {
        try HistoryError.translating(storePath) {
            try opened.store.read { store in
                try HistoryError.translating(path) {
                    try opened.replica.inTransaction(.immediate) { replica in
                        try HistoryError.translating(storePath) { try body(store, replica) }
                    }
                }
            }
        }
    }

    /// Puts the rows of the changed objects, as the store has them now, into the replica.
    ///
    /// - Parameter end: The place that the replica shows afterwards.
    /// - Returns: The transactions that were not merged before.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func merge(_ transactions: [HistoryTransaction], through end: Int64) throws -> Int {
        _ = try prepare()
        guard var opened, end > opened.number else { return 0 }
        let new = transactions.filter { $0.token.number > opened.number }
        let changed = changedObjects(new)
        try both(opened) { store, replica in
            try refreshTables(&opened, store)
            for (name, objects) in changed {
                guard let table = opened.tables[name] else { continue }
                if try table.isCurrent(in: replica), objects.allSatisfy(table.knows) {
                    try table.merge(objects, replica, from: store)
                } else {
                    try table.fill(replica, from: store)
                }
            }
            try Self.setPlace(replica, opened.storeID, end)
        }
        opened.number = end
        self.opened = opened
        return new.count
    }

    /// Each changed object once, by entity.
    private func changedObjects(_ transactions: [HistoryTransaction]) -> [(String, [ObjectID])] {
        var objects: [String: Set<ObjectID>] = [:]
        for transaction in transactions {
            for change in transaction.changes where entities?.contains(change.entity.name) ?? true {
                objects[change.entity.name, default: []].insert(change.objectID)
            }
        }
        return objects.sorted { $0.key < $1.key }.map { ($0.key, Array($0.value)) }
    }

    private func refreshTables(_ opened: inout Opened, _ store: Database) throws {
        let version = try Int64.fetchOne(try store.cachedStatement(sql: "PRAGMA schema_version")) ?? 0
        guard version != opened.schemaVersion else { return }
        opened.tables = [:]
        for name in try wantedEntities(store) where try store.tableExists(name) {
            opened.tables[name] = try ReplicaTable(name, in: store)
        }
        opened.schemaVersion = version
    }
}
