/// One transaction's changes of one entity and operation, for an observer.
public struct ObserverCall: Sendable {
    /// Which part of a group that is too large for one call.
    public struct Part: Sendable, Hashable {
        public let index: Int
        public let isLast: Bool

        public init(index: Int, isLast: Bool) {
            self.index = index
            self.isLast = isLast
        }
    }

    /// The most objects that one call carries (a larger group comes in parts).
    public static let maximumObjects = 10_000

    /// A call is handed on many times: as one reference.
    private final class Content: Sendable {
        let header: HookCallHeader
        let transaction: HistoryTransaction
        let changes: ArraySlice<HistoryChange>
        let part: Part?
        let kept: [UInt8]?

        init(
            _ header: HookCallHeader, _ transaction: HistoryTransaction, _ changes: ArraySlice<HistoryChange>,
            _ part: Part?, kept: [UInt8]? = nil
        ) {
            self.header = header
            self.transaction = transaction
            self.changes = changes
            self.part = part
            self.kept = kept
        }
    }

    private let content: Content

    public var header: HookCallHeader { content.header }
    public var transaction: HistoryTransaction { content.transaction }
    /// All of the same entity name and operation, in the order in which they were made.
    public var changes: ArraySlice<HistoryChange> { content.changes }
    public var part: Part? { content.part }
    /// The parameters of a call that was kept: it goes out as it was, whatever the rest says.
    var kept: [UInt8]? { content.kept }

    /// A call that was kept as a dead letter, to be made again.
    public init(header: HookCallHeader, kept: String) {
        let nothing = HistoryTransaction(
            token: HistoryToken(store: StoreID.none, number: 0), author: nil, context: nil, processID: nil,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: [])
        content = Content(header, nothing, [], nil, kept: Array(kept.utf8))
    }

    public init(
        header: HookCallHeader, transaction: HistoryTransaction,
        changes: ArraySlice<HistoryChange>, part: Part? = nil
    ) {
        content = Content(header, transaction, changes, part)
    }
}

/// What changes are merged into, as a merge hook is told of it.
public struct ContextDescription: Sendable, Hashable {
    public let name: String
    /// `replica` or `feed`.
    public let kind: String
    public let path: String?

    public init(name: String, kind: String, path: String?) {
        self.name = name
        self.kind = kind
        self.path = path
    }
}

/// A fetched batch, for a merge hook.
public struct MergeCall: Sendable {
    public let header: HookCallHeader
    /// Without those that an earlier hook rejected.
    public let transactions: [HistoryTransaction]
    public let contexts: [ContextDescription]
    /// As for an observer's call.
    let kept: [UInt8]?

    /// A call that was kept as a dead letter, to be made again.
    public init(header: HookCallHeader, kept: String) {
        self.header = header
        transactions = []
        contexts = []
        self.kept = Array(kept.utf8)
    }

    public init(header: HookCallHeader, transactions: [HistoryTransaction], contexts: [ContextDescription]) {
        self.header = header
        self.transactions = transactions
        self.contexts = contexts
        kept = nil
    }
}

/// A merge hook's answer.
public struct MergeResult: Sendable, Hashable {
    public enum Verdict: String, Sendable {
        /// On to the next hook, and after the last to the default merge.
        case goOn
        /// No further hook, no default merge; the cursor moves on.
        case finish
    }

    public let verdict: Verdict
    /// Transactions of the batch that later hooks and the default merge do not see.
    public let rejected: Set<HistoryToken>

    public init(_ verdict: Verdict, rejecting rejected: Set<HistoryToken> = []) {
        self.verdict = verdict
        self.rejected = rejected
    }
}
