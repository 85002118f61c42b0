/// The calls that a batch of transactions makes, in order: transaction by transaction; in each one
/// group by group (an entity and operation, in the order in which they first occur); in each group
/// hook by hook, in the order of registration.
///
/// A pure function of the batch, the hooks and what is already done.
struct DeliveryPlan: Sendable {
    struct Delivery: Sendable {
        let hook: Hook
        /// The transaction's place in the batch.
        let transaction: Int
        let call: ObserverCall
    }

    let deliveries: [Delivery]

    init(
        _ transactions: some Collection<HistoryTransaction>, hooks: [Hook], store: String, consumer: String,
        done: Set<String> = [], maximumObjects: Int = ObserverCall.maximumObjects
    ) {
        var deliveries: [Delivery] = []
        guard !hooks.isEmpty else {
            self.deliveries = []
            return
        }
        for (place, transaction) in transactions.enumerated() {
            for (index, group) in Group.of(transaction).enumerated() {
                let parts = Self.parts(group.changes, maximumObjects)
                for hook in hooks where hook.matches(entity: group.entity, operation: group.operation) {
                    for (number, changes) in parts.enumerated() {
                        let part =
                            parts.count == 1
                            ? nil : ObserverCall.Part(index: number, isLast: number == parts.count - 1)
                        let suffix = part.map { ".\($0.index)" } ?? ""
                        let id = "\(transaction.token)/\(consumer)/\(hook.name)/\(index)\(suffix)"
                        if done.contains(id) { continue }
                        let header = HookCallHeader(
                            store: store, consumer: consumer, hook: hook.name, hookID: hook.id, delivery: id)
                        deliveries.append(
                            Delivery(
                                hook: hook, transaction: place,
                                call: ObserverCall(
                                    header: header, transaction: transaction, changes: changes, part: part)))
                    }
                }
            }
        }
        self.deliveries = deliveries
    }

    private static func parts(_ changes: [HistoryChange], _ size: Int) -> [ArraySlice<HistoryChange>] {
        if changes.count <= size { return [changes[...]] }
        return stride(from: 0, to: changes.count, by: size).map { changes[$0..<min($0 + size, changes.count)] }
    }

    /// A transaction's changes of one entity and operation.
    private struct Group {
        let entity: String
        let operation: ChangeOperation
        var changes: [HistoryChange]

        private struct Pair: Hashable {
            let entity: String
            let operation: ChangeOperation
        }

        static func of(_ transaction: HistoryTransaction) -> [Group] {
            if transaction.changes.count == 1 {
                let only = transaction.changes[0]
                return [Group(entity: only.entity.name, operation: only.operation, changes: [only])]
            }
            var places: [Pair: Int] = [:]
            var groups: [Group] = []
            for change in transaction.changes {
                let pair = Pair(entity: change.entity.name, operation: change.operation)
                if let place = places[pair] {
                    groups[place].changes.append(change)
                } else {
                    places[pair] = groups.count
                    groups.append(Group(entity: pair.entity, operation: pair.operation, changes: [change]))
                }
            }
            return groups
        }
    }
}
