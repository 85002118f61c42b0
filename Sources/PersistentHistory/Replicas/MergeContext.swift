import GRDB

/// One context of a consumer as its `ContextKeeper` keeps it: a replica, one that a plugin keeps, or one of the program's own.
///
/// It belongs to the keeper, and runs on its thread. What it throws is the context's failure, unless it copies rows:
/// then it tells apart what is wrong with the store.
protocol MergeContext: AnyObject {
    /// Unique among the consumer's contexts.
    var name: String { get }
    /// By what the state knows it, and when it was filled; nil where the state knows nothing of it.
    var stateKey: String? { get }
    /// Whether it copies the store's rows by itself. Then tables that were made again are copied as they are, and only a
    /// write shows that it can be written.
    var copiesRows: Bool { get }
    /// Whether it takes in a large transaction without its changes, and reads these by itself.
    var takesParts: Bool { get }
    /// Whether what was opened is still there.
    var isOpen: Bool { get }

    /// Opens it.
    ///
    /// - Parameter isKnown: Whether the state knows that it has been here before.
    /// - Returns: How far it has taken in changes; nil where it is to be filled.
    func open(isKnown: Bool) async throws -> HistoryToken?
    /// Makes everything again from the store as it is.
    ///
    /// - Parameter expiry: Why; nil where it is new, or filled by an operator's order.
    /// - Returns: How far it is then.
    func refill(_ expiry: Expiry?) async throws -> HistoryToken?
    /// Proof of the position to which it was opened; see `HistoryBatch.fingerprint`. Nil where it keeps none: then the
    /// state knows how far it was given changes (`GivenStore`).
    var fingerprint: String? { get }
    /// Takes in changes.
    ///
    /// - Parameter fingerprint: Of the token's transaction, where it is known.
    /// - Returns: How many of the transactions were new to it.
    func merge(
        _ transactions: [HistoryTransaction], through token: HistoryToken, _ fingerprint: String?
    ) async throws -> Int
    /// Ends its connections; it may be opened again.
    func close()

    /// Reads the rows of a batch from a snapshot of the store, before the hooks have their say.
    ///
    /// - Parameter wanted: What it is to take in if they agree.
    func stage(_ wanted: [HistoryTransaction], of batch: HistoryBatch, from store: Database) throws
    /// Up to where it shows the history; nil where it shows all that it has taken in.
    var shownPosition: Int64? { get }
    /// Whether it has taken in more than it shows, or the store's schema may have changed.
    var isUnsettled: Bool { get }
    func schemaChanged()
    /// Shows all that it has taken in, and follows the store's schema.
    ///
    /// - Returns: Whether it does now; it does not where the store has gone on.
    func settle() throws -> Bool
}

extension MergeContext {
    var stateKey: String? { nil }
    var copiesRows: Bool { false }
    var takesParts: Bool { true }
    var isOpen: Bool { true }
    var fingerprint: String? { nil }
    func close() {}
    func stage(_ wanted: [HistoryTransaction], of batch: HistoryBatch, from store: Database) {}
    var shownPosition: Int64? { nil }
    var isUnsettled: Bool { false }
    func schemaChanged() {}
    func settle() -> Bool { true }
}

/// A context of the program in which a tracker runs.
final class ProgramContext: MergeContext {
    private let context: any HistoryContext
    private let store: StoreSnapshot

    init(_ context: any HistoryContext, storePath: String) {
        self.context = context
        store = StoreSnapshot(path: storePath)
    }

    var name: String { context.name }
    var takesParts: Bool { false }

    func open(isKnown: Bool) async throws -> HistoryToken? { try await context.checkpoint() }

    func refill(_ expiry: Expiry?) async throws -> HistoryToken? {
        if let expiry { try await context.expired(expiry) }
        try await context.refill(from: store)
        return try await context.checkpoint()
    }

    func merge(
        _ transactions: [HistoryTransaction], through token: HistoryToken, _ fingerprint: String?
    ) async throws -> Int {
        try await context.merge(transactions, through: token)
        return transactions.count
    }
}
