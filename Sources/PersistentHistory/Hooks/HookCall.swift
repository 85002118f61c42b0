/// Which part it is of something that is too large for one call.
package struct CallPart: Sendable, Hashable {
    package let index: Int
    package let isLast: Bool

    package init(index: Int, isLast: Bool) {
        self.index = index
        self.isLast = isLast
    }
}

/// One transaction's changes of one entity and operation, for an observer.
package struct ObserverCall: Sendable {
    /// The most objects that one call carries (a larger group comes in parts).
    package static let maximumObjects = TransactionOutline.partSize

    /// A call is handed on many times: as one reference.
    private final class Content: Sendable {
        let header: HookCallHeader
        let transaction: HistoryTransaction
        let changes: ArraySlice<HistoryChange>
        let part: CallPart?
        let values: CallValues?
        let kept: [UInt8]?

        init(
            _ header: HookCallHeader, _ transaction: HistoryTransaction, _ changes: ArraySlice<HistoryChange>,
            _ part: CallPart?, _ values: CallValues? = nil, kept: [UInt8]? = nil
        ) {
            self.header = header
            self.transaction = transaction
            self.changes = changes
            self.part = part
            self.values = values
            self.kept = kept
        }
    }

    private let content: Content

    package var header: HookCallHeader { content.header }
    package var transaction: HistoryTransaction { content.transaction }
    /// All of the same entity name and operation, in the order in which they were made.
    package var changes: ArraySlice<HistoryChange> { content.changes }
    package var part: CallPart? { content.part }
    /// The rows of the objects, where the hook wants them.
    var values: CallValues? { content.values }
    /// The parameters of a call that was kept: it goes out as it was, whatever the rest says.
    var kept: [UInt8]? { content.kept }

    /// A call that was kept as a dead letter, to be made again.
    package init(header: HookCallHeader, kept: String) {
        let nothing = HistoryTransaction(
            token: HistoryToken(store: StoreID.none, number: 0), author: nil, context: nil, processID: nil,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: [])
        content = Content(header, nothing, [], nil, kept: Array(kept.utf8))
    }

    package init(
        header: HookCallHeader, transaction: HistoryTransaction,
        changes: ArraySlice<HistoryChange>, part: CallPart? = nil, values: CallValues? = nil
    ) {
        content = Content(header, transaction, changes, part, values)
    }

    /// The same call with the changes that were read for it, and their rows where these are wanted.
    func with(_ changes: [HistoryChange], _ values: CallValues?) -> ObserverCall {
        ObserverCall(
            header: header, transaction: transaction, changes: changes[...], part: part, values: values)
    }
}

/// A context of the consumer, as a merge hook receives it.
package struct ContextDescription: Sendable, Hashable {
    package let name: String
    /// `replica` or `feed`.
    package let kind: String
    package let path: String?

    package init(name: String, kind: String, path: String?) {
        self.name = name
        self.kind = kind
        self.path = path
    }
}

/// A fetched batch, for a merge hook.
package struct MergeCall: Sendable {
    package let header: HookCallHeader
    /// Without those that an earlier hook rejected.
    package let transactions: [HistoryTransaction]
    /// Which part of a large transaction it is, that is alone in its batch.
    package let part: CallPart?
    package let contexts: [ContextDescription]
    /// The rows of the objects, where the hook wants them.
    let values: CallValues?
    /// As for an observer's call.
    let kept: [UInt8]?

    /// A call that was kept as a dead letter, to be made again.
    package init(header: HookCallHeader, kept: String) {
        self.header = header
        transactions = []
        part = nil
        contexts = []
        values = nil
        self.kept = Array(kept.utf8)
    }

    package init(
        header: HookCallHeader, transactions: [HistoryTransaction], part: CallPart? = nil,
        contexts: [ContextDescription], values: CallValues? = nil
    ) {
        self.header = header
        self.transactions = transactions
        self.part = part
        self.contexts = contexts
        self.values = values
        kept = nil
    }
}

/// A merge hook's answer.
public struct MergeResult: Sendable, Hashable, Codable {
    /// What follows after the hook.
    public enum Verdict: String, Sendable, Codable {
        /// On to the next hook, and after the last to the default merge.
        case goOn
        /// Call no further hook and skip the default merge; the cursor moves past the batch.
        case finish
    }

    /// What follows after the hook.
    public let verdict: Verdict
    /// Transactions of the batch that later hooks and the default merge do not see.
    public let rejected: Set<HistoryToken>

    /// An answer; prefer `.goOn`, `.finish` and `.rejecting(_:)`.
    public init(_ verdict: Verdict, rejecting rejected: Set<HistoryToken> = []) {
        self.verdict = verdict
        self.rejected = rejected
    }
}
