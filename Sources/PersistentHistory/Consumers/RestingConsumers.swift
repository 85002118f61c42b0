/// Consumers that have everything, and are not woken by what is of no concern to them.
///
/// A consumer that has come to the end of the history, and whose hooks ask for entities by name, rests
/// here. A commit without any of these entities moves all who rest past it: one place is theirs together, and
/// its price is that of those who are woken, however many the others are.
final class RestingConsumers: Sendable {
    fileprivate struct State {
        /// The end of the history at the last look: where everybody is who rests.
        var place: Checkpoint
        /// Of the hooks, when they were last asked for.
        var hooks: Int?
        /// Who rests, and for which entities each is woken.
        var resting: [String: Set<String>] = [:]
        var interested: [String: Set<String>] = [:]
        /// Who is woken by everything.
        var awake: Set<String>
        /// Where those were, who were woken and have not gone on yet.
        var woken: [String: Checkpoint] = [:]
    }

    private let state: Locked<State>

    /// - Parameter place: The end of the history.
    init(_ consumers: [String], at place: Checkpoint) {
        state = Locked(State(place: place, awake: Set(consumers)))
    }

    /// Where those are who rest, or have been woken and not gone on yet.
    var checkpoints: [String: Checkpoint] {
        state.withLock { state in
            state.woken.merging(state.resting.mapValues { _ in state.place }) { $1 }
        }
    }

    /// Where one of those is; nil where it is none of them.
    func checkpoint(of consumer: String) -> Checkpoint? {
        state.withLock { state in state.resting[consumer].map { _ in state.place } ?? state.woken[consumer] }
    }

    /// Whether a consumer rests now.
    func contains(_ consumer: String) -> Bool { state.withLock { $0.resting[consumer] != nil } }

    /// The end of the history at the last look, where that is after a place.
    func position(ifAfter position: Int64) -> Int64? {
        state.withLock { $0.place.position > position ? $0.place.position : nil }
    }

    /// Lets a consumer rest, unless there has been a commit that it has not seen.
    ///
    /// - Parameters:
    ///   - number: Where it is.
    ///   - hooks: The version of the hooks that the entities are of.
    func rest(_ consumer: String, at number: Int64, until entities: Set<String>, hooks: Int) {
        state.withLock { state in
            guard number == state.place.position, state.hooks == nil || state.hooks == hooks else { return }
            state.hooks = hooks
            state.awake.remove(consumer)
            state.resting[consumer] = entities
            for entity in entities { state.interested[entity, default: []].insert(consumer) }
        }
    }

    /// A consumer goes on by itself.
    ///
    /// - Returns: Where it is, if it has rested.
    func wake(_ consumer: String) -> Checkpoint? {
        state.withLock { state in
            state.wake(consumer)
            return state.woken.removeValue(forKey: consumer)
        }
    }

    /// Takes in what was committed since the last look.
    ///
    /// - Parameters:
    ///   - place: The end of the batch.
    ///   - hooks: The version of the hooks; nil where nobody is to be moved.
    /// - Returns: Who has to go on, and how many were moved past it where they rest.
    func pass(_ batch: HistoryBatch, to place: Checkpoint, hooks: Int?) -> (woken: Set<String>, moved: Int) {
        state.withLock { state in
            if hooks == nil || state.hooks != hooks || !batch.isLast {
                for consumer in Array(state.resting.keys) { state.wake(consumer) }
            } else if !state.resting.isEmpty {
                for entity in batch.entities {
                    for consumer in state.interested[entity] ?? [] { state.wake(consumer) }
                }
            }
            state.hooks = hooks
            state.place = place
            return (state.awake, state.resting.count)
        }
    }
}

extension RestingConsumers.State {
    fileprivate mutating func wake(_ consumer: String) {
        guard let entities = resting.removeValue(forKey: consumer) else { return }
        for entity in entities {
            interested[entity]?.remove(consumer)
            if interested[entity]?.isEmpty ?? false { interested[entity] = nil }
        }
        awake.insert(consumer)
        woken[consumer] = place
    }
}

extension HistoryBatch {
    /// The names of all entities in it.
    fileprivate var entities: Set<String> {
        var last: Entity?
        var names: Set<String> = []
        for transaction in transactions {
            for change in transaction.changes where change.entity !== last {
                last = change.entity
                names.insert(change.entity.name)
            }
        }
        return names
    }
}
