/// The calls for a batch of transactions, in order: by transaction; within it by group (an entity and
/// operation, in order of first occurrence); within a group by hook, in order of registration.
///
/// A pure function of the batch, the hooks and what is already done.
struct DeliveryPlan: Sendable {
    /// Consecutive calls to one endpoint, which may be handed to it together.
    struct Run: Sendable {
        let endpoint: any HookEndpoint
        let loopEndpoint: (any LoopEndpoint)?
        var calls: [ObserverCall] = []
        /// The changes of a large transaction that its only call still needs.
        var unread: UnreadChanges?
        /// Which of these changes the call is for.
        var filter = ChangeFilter()
        /// Why its first call cannot be made: a condition could not be evaluated.
        var failure: HookFailure?

        /// The same run with the changes that were read, and their rows if the hook wants them.
        func with(_ changes: [HistoryChange], _ rows: RowValues?) -> Run {
            let wanted = unread?.values
            let values = CallValues(rows, wanted?.includesRows ?? false ? wanted?.maximumBytes : nil)
            let (selected, verdict) =
                filter.looksAtChanges ? filter.select(changes[...], rows) : (changes, nil)
            var run = Run(
                endpoint: endpoint, loopEndpoint: loopEndpoint, calls: calls.map { $0.with(selected, values) })
            run.failure = verdict.flatMap { HookFailure($0) }
            return run
        }
    }

    private(set) var runs: [Run] = []

    /// - Parameters:
    ///   - routes: The route to each hook, if known.
    ///   - values: The rows of the objects, if a hook wants them.
    init(
        _ transactions: some Collection<HistoryTransaction>, hooks: [Hook], routes: [HookRoute]? = nil,
        store: String, consumer: String, done: Set<BinaryText> = [], givenUp: GivenUpCalls = GivenUpCalls(),
        maximumObjects: Int = ObserverCall.maximumObjects, values: RowValues? = nil
    ) {
        guard !hooks.isEmpty else { return }
        let routes = routes ?? hooks.map { HookRoute(store: store, consumer: consumer, hook: $0) }
        for transaction in transactions {
            if transaction.outline != nil { addOutlined(transaction, hooks, routes, done, givenUp) }
            ChangeGroup.forEach(in: transaction) { index, group in
                for place in hooks.indices {
                    let hook = hooks[place]
                    guard hook.matches(entity: group.entity.name, operation: group.operation),
                        let (group, failure) = group.filtered(for: hook, in: transaction, values)
                    else { continue }
                    let most =
                        hook.maximumValueBytes == nil
                        ? maximumObjects : TransactionOutline.pieceSize(of: maximumObjects)
                    group.forEachPart(in: transaction, of: most) { changes, part in
                        let call = ObserverCall(
                            routes[place], transaction, group: index, changes: changes, part: part,
                            values: CallValues(values, hook.maximumValueBytes))
                        if !done.isEmpty, done.contains(call.header.delivery) { return }
                        if givenUp.contains(call.header, call.parameters) { return }
                        add(call, to: hook, failure)
                    }
                }
            }
        }
    }

    /// The same for a large transaction: one call at a time, whose changes are read when it is made.
    private mutating func addOutlined(
        _ transaction: HistoryTransaction, _ hooks: [Hook], _ routes: [HookRoute], _ done: Set<BinaryText>,
        _ givenUp: GivenUpCalls
    ) {
        guard let outline = transaction.outline else { return }
        for (index, group) in outline.groups.enumerated() {
            for (hook, route) in zip(hooks, routes)
            where hook.matches(entity: group.entity.name, operation: group.operation) {
                for unread in UnreadChanges.parts(of: transaction, in: group, values: hook.wantedRows) {
                    let header = HookCallHeader(
                        route, transaction.token, group: index, part: unread.part?.index)
                    if done.contains(header.delivery) { continue }
                    let call = ObserverCall(
                        header: header, transaction: transaction, changes: [], part: unread.part)
                    if givenUp.contains(header, call.parameters) { continue }
                    runs.append(
                        Run(
                            endpoint: hook.endpoint, loopEndpoint: hook.loopEndpoint, calls: [call],
                            unread: unread, filter: hook.filter))
                }
            }
        }
    }

    private mutating func add(_ call: consuming ObserverCall, to hook: Hook, _ failure: HookFailure?) {
        let last = runs.endIndex - 1
        if runs.isEmpty || runs[last].endpoint !== hook.endpoint || runs[last].unread != nil || failure != nil {
            runs.append(Run(endpoint: hook.endpoint, loopEndpoint: hook.loopEndpoint, failure: failure))
        }
        runs[runs.endIndex - 1].calls.append(call)
    }
}

extension CallGroup {
    /// Visits the groups of a transaction that are for a hook, each of which makes a call.
    ///
    /// - Parameters:
    ///   - rows: The rows that were read with the changes.
    ///   - body: Receives a failure if a condition could not be evaluated.
    static func forEach(
        in transaction: HistoryTransaction, for hook: Hook, _ rows: RowValues?,
        _ body: (CallGroup, HookFailure?) -> Void
    ) {
        ChangeGroup.forEach(in: transaction) { _, group in
            guard hook.matches(entity: group.entity.name, operation: group.operation),
                let (group, failure) = group.filtered(for: hook, in: transaction, rows)
            else { return }
            let changes = group.changes ?? transaction.changes[...]
            body(CallGroup(transaction: transaction, changes: changes), failure)
        }
    }
}

/// A transaction's changes of one entity and operation.
private struct ChangeGroup {
    let entity: Entity
    let operation: ChangeOperation
    /// Nil means all changes of the transaction.
    var changes: ArraySlice<HistoryChange>?
    var count = 1

    /// The group of the same kind as one of some changes.
    init(_ changes: [HistoryChange], _ index: Int) {
        entity = changes[index].entity
        operation = changes[index].operation
    }

    /// The part of the group that is for a hook.
    ///
    /// - Returns: Nil if there is none. With a failure if a condition could not be evaluated.
    func filtered(for hook: Hook, in transaction: HistoryTransaction, _ rows: RowValues?) -> (
        ChangeGroup, HookFailure?
    )? {
        guard hook.looksAtChanges else { return (self, nil) }
        let (selected, verdict) = hook.filter.select(changes ?? transaction.changes[...], rows)
        if selected.isEmpty { return nil }
        var group = self
        (group.changes, group.count) = (selected[...], selected.count)
        return (group, verdict.flatMap { HookFailure($0) })
    }

    private struct Kind: Hashable {
        let entity: BinaryText
        let operation: ChangeOperation
    }

    private func has(_ changes: [HistoryChange], _ index: Int) -> Bool {
        guard operation == changes[index].operation else { return false }
        let other = changes[index].entity
        return entity === other || entity.name.hasSameBytes(as: other.name)
    }

    static func forEach(in transaction: HistoryTransaction, _ body: (Int, ChangeGroup) -> Void) {
        let changes = transaction.changes
        if changes.isEmpty { return }
        // Most transactions have changes of one kind, and need no sorting.
        var whole = ChangeGroup(changes, 0)
        if changes.count == 1 || changes.indices.allSatisfy({ whole.has(changes, $0) }) {
            whole.count = changes.count
            return body(0, whole)
        }

        var indices: [Kind: Int] = [:]
        var groups: [(group: ChangeGroup, changes: [HistoryChange])] = []
        for (index, change) in changes.enumerated() {
            let kind = Kind(entity: BinaryText(change.entity.name), operation: change.operation)
            if let group = indices[kind] {
                groups[group].changes.append(change)
            } else {
                indices[kind] = groups.count
                groups.append((ChangeGroup(changes, index), [change]))
            }
        }
        for (index, found) in groups.enumerated() {
            var group = found.group
            (group.changes, group.count) = (found.changes[...], found.changes.count)
            body(index, group)
        }
    }

    /// Visits the changes in portions of a given size, numbered if there is more than one; nil stands for
    /// all changes of the transaction.
    func forEachPart(
        in transaction: HistoryTransaction, of size: Int,
        _ body: (ArraySlice<HistoryChange>?, CallPart?) -> Void
    ) {
        if count <= size { return body(changes, nil) }
        let changes = changes ?? transaction.changes[...]
        let starts = stride(from: changes.startIndex, to: changes.endIndex, by: size)
        for (index, start) in starts.enumerated() {
            let end = min(start + size, changes.endIndex)
            body(changes[start..<end], CallPart(index: index, isLast: end == changes.endIndex))
        }
    }
}
