/// A batch on its way through the merge hooks.
///
/// Kept while a hook is retried, so that those that have succeeded are not called again.
struct PendingMerge: Sendable {
    let transactions: [HistoryTransaction]
    /// The consumer's own transactions, which the contexts take in and the hooks do not see: what a merge hook writes
    /// under its consumer's name reaches the consumer's contexts so.
    private let own: [HistoryTransaction]
    /// Where the cursor is until then.
    private let start: Int64
    /// Where the cursor moves when the batch is merged.
    let end: Int64
    /// What the contexts are told instead, where changes may have gone unrecorded.
    var recreation: Expiry?
    private(set) var called: Set<String> = []
    private(set) var rejected: Set<HistoryToken> = []
    private(set) var isFinished = false

    init(
        _ transactions: [HistoryTransaction], own: [HistoryTransaction] = [], after start: Int64, end: Int64
    ) {
        self.transactions = transactions
        self.own = own.filter { $0.number <= end }
        self.start = start
        self.end = end
    }

    /// What later hooks and the default merge see.
    var remaining: [HistoryTransaction] {
        rejected.isEmpty ? transactions : transactions.filter { !rejected.contains($0.token) }
    }

    /// What the default merge has to do.
    var toMerge: [HistoryTransaction] {
        let others = isFinished ? [] : remaining
        return own.isEmpty ? others : (own + others).sorted { $0.number < $1.number }
    }

    /// What the hooks have kept from the contexts: from after the transaction before to the token's number,
    /// because changes without an author may be grouped differently when they are read again.
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

    /// The hook to call next, if there is one.
    func next(_ hooks: [Hook]) -> Hook? {
        isFinished || remaining.isEmpty ? nil : hooks.first { !called.contains($0.name) }
    }

    /// Takes a hook's answer.
    mutating func answer(_ hook: Hook, _ result: MergeResult) {
        called.insert(hook.name)
        rejected.formUnion(result.rejected)
        isFinished = result.verdict == .finish
    }

    /// Continues without a hook's answer.
    mutating func skip(_ hook: Hook) { called.insert(hook.name) }

    func call(_ hook: Hook, store: String, consumer: String, contexts: [ContextDescription]) -> MergeCall {
        let first = transactions.first?.token.number ?? end
        let last = transactions.last?.token.number ?? end
        let place = transactions.first.map { "\($0.token.store):\(first)-\(last)" } ?? "\(end)"
        let header = HookCallHeader(
            store: store, consumer: consumer, hook: hook.name, hookID: hook.id,
            delivery: "\(place)/\(consumer)/\(hook.name)")
        return MergeCall(header: header, transactions: remaining, contexts: contexts)
    }
}
