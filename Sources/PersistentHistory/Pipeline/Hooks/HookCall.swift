/// One transaction's changes of one entity and operation, for an observer.
package struct ObserverCall: Sendable {
    /// The maximum number of objects in one call. A larger group comes in parts.
    package static let maximumObjects = TransactionOutline.partSize

    let route: HookRoute
    package let transaction: HistoryTransaction
    /// The index of the group in the transaction.
    private let group: Int
    /// Nil for most calls, which are many and should be small.
    private let more: More?

    /// What only few calls have.
    private final class More: Sendable {
        /// Set if it cannot be derived.
        let header: HookCallHeader?
        /// Set if they are not all changes of the transaction.
        let changes: ArraySlice<HistoryChange>?
        let part: CallPart?
        let values: CallValues?
        let kept: [UInt8]?

        init(
            header: HookCallHeader? = nil, changes: ArraySlice<HistoryChange>? = nil, part: CallPart? = nil,
            values: CallValues? = nil, kept: [UInt8]? = nil
        ) {
            self.header = header
            self.changes = changes
            self.part = part
            self.values = values
            self.kept = kept
        }
    }

    package var header: HookCallHeader {
        more?.header ?? HookCallHeader(route, transaction.token, group: group, part: part?.index)
    }
    /// The delivery id of another part of the same group.
    func delivery(ofPart index: Int) -> String { header.delivery(ofPart: index) }

    /// Appends the members of its header.
    func writeHeader(to json: inout JSONBytes) {
        if let header = more?.header { return header.write(to: &json) }
        route.write(transaction.token, group: group, part: part?.index, to: &json)
    }

    /// The changes in order, all of the same entity and operation.
    package var changes: ArraySlice<HistoryChange> { more?.changes ?? transaction.changes[...] }
    package var part: CallPart? { more?.part }
    /// The rows of the objects, if the hook wants them.
    var values: CallValues? { more?.values }
    /// The parameters of a call from a dead letter. They are sent unchanged, and replace everything else.
    var kept: [UInt8]? { more?.kept }

    /// A call from a dead letter, to repeat.
    package init(header: HookCallHeader, kept: String) {
        route = header.route
        transaction = HistoryTransaction(
            token: HistoryToken(store: StoreID.none, number: 0), author: nil, context: nil, processID: nil,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: [])
        group = 0
        more = More(header: header, kept: Array(kept.utf8))
    }

    package init(
        header: HookCallHeader, transaction: HistoryTransaction, changes: ArraySlice<HistoryChange>,
        part: CallPart? = nil, values: CallValues? = nil
    ) {
        route = header.route
        self.transaction = transaction
        group = 0
        more = More(header: header, changes: changes, part: part, values: values)
    }

    /// - Parameter changes: Nil for all changes of the transaction.
    init(
        _ route: HookRoute, _ transaction: HistoryTransaction, group: Int, changes: ArraySlice<HistoryChange>?,
        part: CallPart?, values: CallValues?
    ) {
        self.route = route
        self.transaction = transaction
        self.group = group
        more =
            changes == nil && values == nil
            ? nil : More(changes: changes, part: part, values: values)
    }

    /// The same call with the changes that were read for it, and their rows if wanted.
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
}

/// A transaction's changes of one entity and operation, in a call for a whole batch.
package struct CallGroup: Sendable {
    package let transaction: HistoryTransaction
    package let changes: ArraySlice<HistoryChange>
}

/// A fetched batch for a merge hook, or for an observer that is called once for each batch.
package struct MergeCall: Sendable {
    package let header: HookCallHeader
    /// The transactions, without those that an earlier hook rejected.
    package let transactions: [HistoryTransaction]
    /// The part of a large transaction, which is alone in its batch.
    package let part: CallPart?
    package let contexts: [ContextDescription]
    /// The groups of the batch for an observer; nil for a merge hook, which receives the whole batch.
    package private(set) var groups: [CallGroup]?
    /// The rows of the objects, if the hook wants them.
    let values: CallValues?
    /// As for an observer's call.
    let kept: [UInt8]?

    /// A call from a dead letter, to repeat.
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

    /// A call of an observer.
    init(header: HookCallHeader, groups: [CallGroup], part: CallPart?, values: CallValues?) {
        var transactions: [HistoryTransaction] = []
        for group in groups where transactions.last?.number != group.transaction.number {
            transactions.append(group.transaction)
        }
        self.init(header: header, transactions: transactions, part: part, contexts: [], values: values)
        self.groups = groups
    }
}

extension MergeCall {
    /// Checks an answer. One that rejects transactions outside the call is invalid: the hook means other
    /// transactions than it received, and those that it wants withheld would be merged.
    func checked(_ result: Result<MergeResult, HookFailure>) -> Result<MergeResult, HookFailure> {
        guard case .success(let answer) = result, !answer.rejected.isEmpty else { return result }
        let foreign = answer.rejected.subtracting(transactions.map(\.token))
        guard let token = foreign.min(by: { $0.number < $1.number }) else { return result }
        return .failure(
            HookFailure(
                .badAnswer,
                "Hook \"\(header.hook)\" rejected \(token), which is not a transaction of its call."))
    }
}

/// A merge hook's answer.
public struct MergeResult: Sendable, Hashable, Codable {
    /// What follows after the hook.
    public enum Verdict: String, Sendable, Codable {
        /// Continue with the next hook, and after the last one with the default merge.
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

extension MergeResult {
    /// Continue with the next hook, and after the last one with the default merge.
    public static let goOn = MergeResult(.goOn)
    /// Call no further hook and skip the default merge; the cursor moves past the batch.
    public static let finish = MergeResult(.finish)

    /// Continue without these transactions: later hooks and the default merge do not see them.
    public static func rejecting(_ tokens: some Sequence<HistoryToken>) -> MergeResult {
        MergeResult(.goOn, rejecting: Set(tokens))
    }
}
