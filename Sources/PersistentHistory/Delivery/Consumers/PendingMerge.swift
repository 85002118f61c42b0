/// A batch on its way through the merge hooks.
///
/// Kept while a hook is retried, so that those that have succeeded are not called again.
struct PendingMerge: Sendable {
    let transactions: [HistoryTransaction]
    /// The consumer's own transactions, which the contexts merge and the hooks do not see. This is how a
    /// merge hook's writes under its consumer's name reach the consumer's contexts.
    private let own: [HistoryTransaction]
    /// The cursor until the batch is merged.
    private let start: Int64
    /// Where the cursor moves when the batch is merged.
    let end: Int64
    /// The fingerprint of the end, once known; see `HistoryBatch.fingerprint`.
    var fingerprint: String?
    /// The rows of the objects, if a hook wants them.
    private let values: RowValues?
    /// What the contexts receive instead if changes may have gone unrecorded.
    var recreation: Expiry?
    private(set) var called: Set<String> = []
    private(set) var rejected: Set<HistoryToken> = []
    private(set) var isFinished = false
    /// The part of a large transaction that the next hook gets.
    private var part = 0
    /// Whether the next hook has received an earlier part.
    private(set) var hasMadePart = false

    init(
        _ transactions: [HistoryTransaction], own: [HistoryTransaction] = [], after start: Int64, end: Int64,
        values: RowValues? = nil
    ) {
        self.transactions = transactions
        self.own = own.filter { $0.number <= end }
        self.start = start
        self.end = end
        self.values = values
    }

    /// What later hooks and the default merge see.
    var remaining: [HistoryTransaction] {
        rejected.isEmpty ? transactions : transactions.filter { !rejected.contains($0.token) }
    }

    /// What the default merge merges.
    var toMerge: [HistoryTransaction] {
        let others = isFinished ? [] : remaining
        return own.isEmpty ? others : (own + others).sorted { $0.number < $1.number }
    }

    /// The ranges that the hooks have withheld from the contexts. Each starts after the previous
    /// transaction and ends at the token's number, because changes without an author may be grouped
    /// differently when they are read again.
    var unmerged: [ClosedRange<Int64>] {
        if isFinished { return transactions.isEmpty ? [] : [start + 1...end] }
        if rejected.isEmpty { return [] }
        var ranges: [ClosedRange<Int64>] = []
        var isRun = false
        var last = start
        for token in transactions.map(\.token) {
            defer { last = token.number }
            guard rejected.contains(token) else {
                isRun = false
                continue
            }
            let first = isRun ? ranges.removeLast().lowerBound : last + 1
            ranges.append(first...token.number)
            isRun = true
        }
        return ranges
    }

    /// The hook to call next, if any.
    func next(_ hooks: [Hook]) -> Hook? {
        isFinished || remaining.isEmpty ? nil : hooks.first { !called.contains($0.name) }
    }

    /// The changes to read for the next call of a hook; nil if it needs none. A large transaction is
    /// alone in its batch.
    func unread(for hook: Hook) -> UnreadChanges? {
        guard let large = remaining.first(where: { $0.outline != nil }) else { return nil }
        guard hook.endpoint.takesParts else { return UnreadChanges.whole(large, values: hook.wantedRows) }
        let parts = UnreadChanges.parts(of: large, values: hook.wantedRows)
        return parts[min(part, parts.count - 1)]
    }

    /// Processes a hook's answer. A hook that has decided on a large transaction gets no further part of
    /// it.
    mutating func answer(_ hook: Hook, _ result: MergeResult, to part: CallPart? = nil) {
        rejected.formUnion(result.rejected)
        isFinished = result.verdict == .finish
        hasMadePart = true
        goOn(hook, after: isFinished || remaining.isEmpty ? nil : part)
    }

    /// Continues without a hook's answer.
    mutating func skip(_ hook: Hook, _ part: CallPart? = nil) { goOn(hook, after: part) }

    private mutating func goOn(_ hook: Hook, after part: CallPart?) {
        if let part, !part.isLast {
            self.part = part.index + 1
        } else {
            self.part = 0
            hasMadePart = false
            called.insert(hook.name)
        }
    }

    /// Continues where the merge of the same batch was left.
    mutating func resume(_ left: PendingMerge) {
        func ends(_ merge: PendingMerge) -> [HistoryToken?] {
            [merge.transactions.first?.token, merge.transactions.last?.token]
        }
        guard ends(left) == ends(self) else { return }
        (called, rejected, isFinished) = (left.called, left.rejected, left.isFinished)
        (part, hasMadePart) = (left.part, left.hasMadePart)
    }

    // MARK: Calls

    /// The groups of the batch for an observer that is called once for all of it.
    ///
    /// - Parameters:
    ///   - changes: The changes that were read of a large transaction.
    ///   - part: Which part they are.
    ///   - read: Their rows.
    /// - Returns: The groups, with a failure if a condition could not be evaluated.
    func groups(for hook: Hook, changes: [HistoryChange]?, part: CallPart?, values read: RowValues?) -> (
        [CallGroup], HookFailure?
    ) {
        let rows = changes == nil ? values : read
        var groups: [CallGroup] = []
        var failure: HookFailure?
        for transaction in changes.map({ read in remaining.map { $0.with(read) } }) ?? remaining {
            CallGroup.forEach(in: transaction, for: hook, rows) { group, problem in
                groups.append(group)
                failure = failure ?? problem
            }
        }
        return (groups, failure)
    }

    /// The call of an observer of batches.
    func call(
        _ hook: Hook, store: String, consumer: String, groups: [CallGroup], part: CallPart?,
        values read: RowValues?, replay: Int64? = nil
    ) -> MergeCall {
        MergeCall(
            header: header(hook, store: store, consumer: consumer, part, replay), groups: groups, part: part,
            values: CallValues(read ?? values, hook.wantedValues?.maximumBytes))
    }

    private func header(
        _ hook: Hook, store: String, consumer: String, _ part: CallPart?, _ replay: Int64?
    ) -> HookCallHeader {
        let first = transactions.first?.token.number ?? end
        let last = transactions.last?.token.number ?? end
        let range = transactions.first.map { "\($0.token.store):\(first)-\(last)" } ?? "\(end)"
        let suffix = part.map { "/\($0.index)" } ?? ""
        return HookCallHeader(
            HookRoute(store: store, consumer: consumer, hook: hook, replay: replay),
            delivery: "\(range)/\(consumer)/\(hook.name)\(suffix)")
    }

    /// The call of a merge hook.
    ///
    /// - Parameters:
    ///   - changes: The changes that were read for it.
    ///   - part: Which part they are.
    ///   - read: Their rows.
    func call(
        _ hook: Hook, store: String, consumer: String, contexts: [ContextDescription],
        changes: [HistoryChange]? = nil, part: CallPart? = nil, values read: RowValues? = nil,
        replay: Int64? = nil
    ) -> MergeCall {
        MergeCall(
            header: header(hook, store: store, consumer: consumer, part, replay),
            transactions: changes.map { read in remaining.map { $0.with(read) } } ?? remaining,
            part: part, contexts: contexts,
            values: CallValues(changes == nil ? values : read, hook.wantedValues?.maximumBytes))
    }
}
