public import GRDB

/// A context in the program's own database, such as an index or another schema of the same data.
///
/// The results of the changes and the checkpoint are saved in one transaction: each change counts exactly
/// once. The checkpoint is in the table `historyd_checkpoint`.
///
/// ```swift
/// let index = DatabaseContext(name: "search", database: pool, store: "contacts.sqlite") {
///     index, transactions, store in
///     for change in transactions.flatMap(\.changes) where change.entity.name == "person" {
///         try reindex(change.objectID, from: store, in: index)
///     }
/// } refill: { index, store in
///     try index.execute(sql: "DELETE FROM entry")
///     try reindexAll(from: store, in: index)
/// }
/// ```
public actor DatabaseContext: HistoryContext {
    /// Merges changes: receives the program's database, the transactions, and the store to read rows
    /// from.
    public typealias Merge =
        @Sendable (_ database: Database, _ transactions: [HistoryTransaction], _ store: Database) throws -> Void
    /// Rebuilds everything: receives the program's database, and the present store.
    public typealias Refill = @Sendable (_ database: Database, _ store: Database) throws -> Void

    /// Unique among the contexts of a tracker, and in the database.
    public nonisolated let name: String
    private let database: any DatabaseWriter
    private let snapshots: StoreSnapshots
    private let takeIn: Merge
    private let makeAgain: Refill

    /// A context in a database.
    ///
    /// - Parameters:
    ///   - name: Unique among the contexts of a tracker, and in the database.
    ///   - database: The program's own queue or pool. Nothing else writes to it while a merge runs.
    ///   - store: The store's file.
    ///   - merge: Merges changes. If it throws, they are delivered again.
    ///   - refill: Rebuilds everything.
    public init(
        name: String, database: any DatabaseWriter, store: String, merge: @escaping Merge,
        refill: @escaping Refill
    ) {
        self.name = name
        self.database = database
        takeIn = merge
        makeAgain = refill
        snapshots = StoreSnapshots(store)
    }

    /// The last transaction that the database contains.
    public func checkpoint() throws -> HistoryToken? {
        try write { db in
            try db.execute(
                sql:
                    "CREATE TABLE IF NOT EXISTS historyd_checkpoint (context TEXT PRIMARY KEY, token TEXT NOT NULL)"
            )
            return try String.fetchOne(
                db, sql: "SELECT token FROM historyd_checkpoint WHERE context = ?", arguments: [name]
            ).flatMap { HistoryToken($0) }
        }
    }

    /// Merges changes, in one transaction with the checkpoint.
    public func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) throws {
        try snapshots.read { store in
            try write { db in
                if !transactions.isEmpty { try takeIn(db, transactions, store) }
                try save(token, db)
            }
        }
    }

    /// Rebuilds everything, in one transaction with the checkpoint.
    public func refill(from store: StoreSnapshot) throws {
        try store.read { store, token in
            try write { db in
                try makeAgain(db, store)
                try save(token, db)
            }
        }
    }

    private func save(_ token: HistoryToken, _ db: Database) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO historyd_checkpoint VALUES (?, ?)",
            arguments: [name, token.description])
    }

    /// Not GRDB's asynchronous write, because the store's transaction is open on this thread meanwhile.
    private nonisolated func write<T>(_ body: (Database) throws -> T) throws -> T { try database.write(body) }
}
