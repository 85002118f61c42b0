public import GRDB

/// What a tracker merges changes into: a replica, a database of the program's own, a model in memory.
///
/// A context knows by itself how far it is. Where it saves that in the same transaction as what it makes of the
/// changes, each change counts exactly once, whatever crashes; where it saves it afterwards, at least once; and one
/// that keeps it in memory is filled again after each start.
///
/// The tracker calls one context at a time, in order: after a `merge` that throws it is asked where it is, and
/// continues there. The consumer's other contexts, and its hooks, do not wait for it, unless merge hooks decide what
/// is merged.
public protocol HistoryContext: Sendable {
    /// Unique among the contexts of a tracker.
    var name: String { get }

    /// The last transaction that it has taken in; nil where it is to be filled from the store.
    func checkpoint() async throws -> HistoryToken?

    /// Takes in changes. A change says which row it concerns: the row itself is read from the store, where it is as
    /// new as the change, or newer, or gone.
    ///
    /// - Parameters:
    ///   - transactions: In the order of their commits, without those that are not for the consumer or that merge
    ///     hooks have rejected; perhaps none.
    ///   - token: Its checkpoint from now on.
    func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) async throws

    /// Makes everything again from the store as it is. Its checkpoint is then the token that the store was read at.
    func refill(from store: StoreSnapshot) async throws

    /// Says why it is about to be filled again: the history after its checkpoint is gone, or the store was restored.
    func expired(_ expiry: Expiry) async throws
}

extension HistoryContext {
    /// Ignores it: `refill` follows.
    public func expired(_ expiry: Expiry) async throws {}
}

/// A store, to be read as it is at one moment.
public struct StoreSnapshot: Sendable {
    /// The store's file.
    public let path: String

    /// A store to be read.
    public init(path: String) { self.path = path }

    /// Reads in one transaction.
    ///
    /// - Parameter body: Is given a connection that can only read, and the token of the newest transaction that its
    ///   rows show.
    /// - Throws: `HistoryError`, and what the body throws.
    public func read<T>(_ body: (Database, HistoryToken) throws -> T) throws -> T {
        let snapshots = StoreSnapshots(path)
        defer { snapshots.close() }
        return try snapshots.read { db in
            try body(db, HistoryHeader(db).bounds.newest)
        }
    }
}

/// A connection to the store for reading its rows, beside the one that reads its history: a large
/// copy keeps no other consumer waiting.
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
        // Nothing is written here: a failure to close loses nothing.
        try? queue?.end()
        queue = nil
        tables = CheckedTables()
    }
}
