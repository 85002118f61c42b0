/// Idle consumers: they have caught up, and are not woken by commits that do not concern them.
///
/// A consumer that has reached the end of the history, and whose hooks name their entities, is idle. A commit
/// without any of these entities moves all idle consumers past it. They share one checkpoint, so the cost of a commit
/// depends on the consumers that it wakes up, not on the number of idle ones.
final class IdleConsumers: Sendable {
    fileprivate struct State {
        /// The end of the history at the last look: the checkpoint of all idle consumers.
        var checkpoint: Checkpoint
        /// The version of the hooks when they were last read.
        var hooks: Int?
        /// The idle consumers.
        var idle: Set<String> = []
        /// What wakes each consumer, as of its last idle time. The consumers are also indexed by entity
        /// and by filter: many have the same, and each is checked once.
        var interests: [String: HookInterests] = [:]
        var interested: [BinaryText: Set<String>] = [:]
        var filters: [BinaryText: [ChangeFilter: Set<String>]] = [:]
        /// The consumers that every commit wakes up.
        var awake: Set<String>
        /// The checkpoints of consumers that were woken up and have not continued yet.
        var woken: [String: Checkpoint] = [:]
    }

    private let state: Locked<State>

    /// - Parameter checkpoint: The end of the history.
    init(_ consumers: [String], at checkpoint: Checkpoint) {
        state = Locked(State(checkpoint: checkpoint, awake: Set(consumers)))
    }

    /// The checkpoints of consumers that are idle, or that were woken up and have not continued yet.
    var checkpoints: [BinaryText: Checkpoint] {
        state.withLock { state in
            var checkpoints: [BinaryText: Checkpoint] = [:]
            for (consumer, checkpoint) in state.woken { checkpoints[consumer] = checkpoint }
            for consumer in state.idle { checkpoints[consumer] = state.checkpoint }
            return checkpoints
        }
    }

    /// The checkpoint of such a consumer; nil for other consumers.
    func checkpoint(of consumer: String) -> Checkpoint? {
        state.withLock { $0.idle.contains(consumer) ? $0.checkpoint : $0.woken[consumer] }
    }

    /// Whether a consumer is idle now.
    func contains(_ consumer: String) -> Bool { state.withLock { $0.idle.contains(consumer) } }

    /// The end of the history at the last look, if that is after a position.
    func position(ifAfter position: Int64) -> Int64? {
        state.withLock { $0.checkpoint.position > position ? $0.checkpoint.position : nil }
    }

    /// Makes a consumer idle, unless there has been a commit that it has not seen.
    ///
    /// - Parameters:
    ///   - number: Its position.
    ///   - interests: What wakes it up.
    ///   - hooks: The version of the hooks that the interests belong to.
    func add(_ consumer: String, at number: Int64, until interests: HookInterests, hooks: Int) {
        state.withLock { state in
            guard number == state.checkpoint.position, state.hooks == nil || state.hooks == hooks else {
                return
            }
            state.hooks = hooks
            state.awake.remove(consumer)
            state.idle.insert(consumer)
            if state.interests[consumer] != interests { state.register(consumer, for: interests) }
        }
    }

    /// Wakes up one consumer.
    ///
    /// - Returns: Its checkpoint, if it was idle.
    func wake(_ consumer: String) -> Checkpoint? {
        state.withLock { state in
            state.wake(consumer)
            return state.woken.removeValue(forKey: consumer)
        }
    }

    /// Processes what was committed since the last look.
    ///
    /// - Parameters:
    ///   - checkpoint: The end of the batch.
    ///   - hooks: The version of the hooks; nil if no consumer may be moved.
    /// - Returns: The consumers that have to continue, and the number of idle ones that were moved past the batch.
    func pass(_ batch: HistoryBatch, to checkpoint: Checkpoint, hooks: Int?) -> (woken: Set<String>, moved: Int)
    {
        state.withLock { state in
            if hooks == nil || state.hooks != hooks || !batch.isLast {
                for consumer in state.idle { state.wake(consumer) }
            } else if !state.idle.isEmpty {
                batch.forEachEntity { entity in
                    for consumer in state.interested[entity] ?? [] { state.wake(consumer) }
                }
                state.wakeFiltered(by: batch)
            }
            state.hooks = hooks
            state.checkpoint = checkpoint
            return (state.awake, state.idle.count)
        }
    }
}

extension IdleConsumers.State {
    fileprivate mutating func wake(_ consumer: String) {
        guard idle.remove(consumer) != nil else { return }
        awake.insert(consumer)
        woken[consumer] = checkpoint
    }

    fileprivate mutating func register(_ consumer: String, for interests: HookInterests) {
        let before = self.interests.updateValue(interests, forKey: consumer)
        for entity in before?.entities ?? [] {
            interested[entity]?.remove(consumer)
            if interested[entity]?.isEmpty ?? false { interested[entity] = nil }
        }
        for entity in interests.entities { interested[entity, default: []].insert(consumer) }
        for filter in before?.filters ?? [] {
            for entity in filter.entities ?? [] {
                filters[entity]?[filter]?.remove(consumer)
                if filters[entity]?[filter]?.isEmpty ?? false { filters[entity]?[filter] = nil }
                if filters[entity]?.isEmpty ?? false { filters[entity] = nil }
            }
        }
        for filter in interests.filters {
            for entity in filter.entities ?? [] {
                filters[entity, default: [:]][filter, default: []].insert(consumer)
            }
        }
    }

    /// Wakes consumers whose filters match something in a batch. For a large transaction, a match is
    /// known only when it is read.
    fileprivate mutating func wakeFiltered(by batch: HistoryBatch) {
        if filters.isEmpty { return }
        var open = filters
        func wakeAll(_ entity: BinaryText, where isFor: (ChangeFilter) -> Bool) {
            for (filter, consumers) in open[entity] ?? [:] where isFor(filter) {
                open[entity]?[filter] = nil
                for consumer in consumers { wake(consumer) }
            }
        }
        for transaction in batch.transactions {
            for name in transaction.recreated { wakeAll(BinaryText(name)) { _ in true } }
            for group in transaction.outline?.groups ?? [] {
                wakeAll(BinaryText(group.entity.name)) { $0.operations.contains(group.operation) }
            }
            for change in transaction.changes {
                let entity = BinaryText(change.entity.name)
                guard open[entity] != nil else { continue }
                wakeAll(entity) { $0.verdict(on: change, batch.values) != .unwanted }
            }
        }
    }
}

extension HistoryBatch {
    /// Visits the names of all entities in it. A name may be repeated.
    fileprivate func forEachEntity(_ body: (String) -> Void) {
        var last: Entity?
        for transaction in transactions {
            for group in transaction.outline?.groups ?? [] { body(group.entity.name) }
            for change in transaction.changes where change.entity !== last {
                last = change.entity
                body(change.entity.name)
            }
        }
    }
}
