public import GRDB

/// A destination into which a tracker merges changes: a replica, the program's own database, a model in
/// memory.
///
/// A context itself knows its position. If it saves that in the same transaction as the results of the
/// changes, each change counts exactly once, whatever crashes. If it saves it afterwards, each counts at
/// least once. A context that keeps its position in memory is filled again after each start.
///
/// The tracker makes one call at a time to a context, in order. After a `merge` that throws, it asks for
/// the checkpoint and continues there. The consumer's other contexts and its hooks do not wait for it,
/// unless merge hooks decide what is merged.
public protocol HistoryContext: Sendable {
    /// Unique among the contexts of a tracker.
    var name: String { get }

    /// The last merged transaction; nil to be filled from the store.
    func checkpoint() async throws -> HistoryToken?

    /// Merges changes. A change states which row it concerns. The row itself is read from the store,
    /// where it is as new as the change, or newer, or deleted.
    ///
    /// - Parameters:
    ///   - transactions: In commit order, without those that are not for the consumer or that merge hooks
    ///     have rejected; may be empty.
    ///   - token: The new checkpoint.
    func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) async throws

    /// Rebuilds everything from the present store. The checkpoint is then the token at which the store
    /// was read.
    func refill(from store: StoreSnapshot) async throws

    /// Reports why it is about to be filled again: the history after its checkpoint was deleted, or the
    /// store was restored.
    func expired(_ expiry: Expiry) async throws
}

extension HistoryContext {
    /// Does nothing: `refill` follows.
    public func expired(_ expiry: Expiry) async throws {}
}

/// Reads a store's state at one moment.
public struct StoreSnapshot: Sendable {
    /// The store's file.
    public let path: String

    /// A snapshot reader of a store.
    public init(path: String) { self.path = path }

    /// Reads in one transaction.
    ///
    /// - Parameter body: Receives a read-only connection, and the token of the newest transaction that
    ///   its rows show.
    /// - Throws: `HistoryError`, and what the body throws.
    public func read<T>(_ body: (Database, HistoryToken) throws -> T) throws -> T {
        let snapshots = StoreSnapshots(path)
        defer { snapshots.close() }
        return try snapshots.read { db in
            try body(db, HistoryHeader(db).bounds.newest)
        }
    }
}

/// A connection for reading the store's rows, separate from the one that reads its history: a large copy
/// delays no other consumer.
final class StoreSnapshots {
    private let path: String
    private var queue: DatabaseQueue?
    private var tables = CheckedTables()

    init(_ path: String) { self.path = path }

    /// Runs a body in one read transaction.
    func read<T>(_ body: (Database) throws -> T) throws -> T {
        let queue = try self.queue ?? StoreConnection.open(path, .read, timeout: .seconds(1), work: WorkLimit())
        self.queue = queue
        return try HistoryError.translating(path) {
            try StoreConnection.rollingBack(path) {
                try queue.read { db in
                    try tables.check(db)
                    return try body(db)
                }
            }
        }
    }

    func close() {
        // Nothing is written here, so a failure to close loses nothing.
        try? queue?.end()
        queue = nil
        tables = CheckedTables()
    }
}
