import GRDB

/// A consumer's context for its `ContextKeeper`: a replica, a plugin's context, or one of the program's
/// own.
///
/// It belongs to the keeper, and runs on its thread. What it throws is the context's failure. A context
/// that copies rows distinguishes the store's errors itself.
protocol MergeContext: AnyObject {
    /// Unique among the consumer's contexts.
    var name: String { get }
    /// Its key in the state, which stores when it was filled; nil if the state does not record it.
    var stateKey: String? { get }
    /// Whether it copies the store's rows itself. It then copies recreated tables as they are, and only a
    /// write shows that it can be written.
    var copiesRows: Bool { get }
    /// Whether it accepts a large transaction without its changes, and reads these itself.
    var takesParts: Bool { get }
    /// Whether what was opened still exists.
    var isOpen: Bool { get }

    /// Opens it.
    ///
    /// - Parameter isKnown: Whether the state says that it existed before.
    /// - Returns: The last merged transaction; nil if it must be filled.
    func open(isKnown: Bool) async throws -> HistoryToken?
    /// Rebuilds everything from the present store.
    ///
    /// - Parameter expiry: The reason; nil if it is new, or filled at an operator's request.
    /// - Returns: Its position afterwards.
    func refill(_ expiry: Expiry?) async throws -> HistoryToken?
    /// Proof of the position at which it was opened; see `HistoryBatch.fingerprint`. Nil if it keeps
    /// none: the state then records how far it was given changes (`GivenStore`).
    var fingerprint: String? { get }
    /// Merges changes.
    ///
    /// - Parameter fingerprint: The fingerprint of the token's transaction, if known.
    /// - Returns: How many of the transactions were new to it.
    func merge(
        _ transactions: [HistoryTransaction], through token: HistoryToken, _ fingerprint: String?
    ) async throws -> Int
    /// Closes its connections. It may be opened again.
    func close()

    /// Reads the rows of a batch from a snapshot of the store, before the hooks decide.
    ///
    /// - Parameter wanted: What it will merge if they agree.
    func stage(_ wanted: [HistoryTransaction], of batch: HistoryBatch, from store: Database) throws
    /// The position up to which it shows the history; nil if it shows everything that it has merged.
    var shownPosition: Int64? { get }
    /// Whether it has merged more than it shows, or the store's schema may have changed.
    var isOutdated: Bool { get }
    func schemaChanged()
    /// Shows everything that it has merged, and follows the store's schema.
    ///
    /// - Returns: Whether it succeeded. It does not if the store has newer history.
    func bringUpToDate() throws -> Bool
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
    var isOutdated: Bool { false }
    func schemaChanged() {}
    func bringUpToDate() -> Bool { true }
}

/// A context of the program that runs the tracker.
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
