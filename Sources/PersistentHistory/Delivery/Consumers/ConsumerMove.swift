/// Where an operator wants a consumer to continue.
package enum MoveTarget: Sendable, Hashable {
    /// After a transaction.
    case token(HistoryToken)
    /// After what was deleted of the history.
    case oldest
    /// After everything.
    case newest
    /// Before the first transaction that was made at a time, or later.
    case time(HistoryTimestamp)
}

/// A move of a consumer, as it would be, or was, made.
package struct ConsumerMove: Sendable, Equatable {
    package let from: HistoryToken
    package let to: HistoryToken
    /// The transactions in between that are for the consumer.
    package var transactions = 0
    /// The calls of hooks that they make: those that come again, or those that are not made.
    package var calls = 0
    /// Whether there are more: what takes long to count is not counted to its end.
    package var isAtLeast = false

    package var isForward: Bool { to.number > from.number }
}

/// What a move does to a consumer: a pure value.
struct MovePlan: Sendable, Equatable {
    let from: Int64
    let to: Int64
    /// What is repeated afterwards; nil where the consumer was never moved back.
    let replay: Replay?

    /// - Parameters:
    ///   - last: The consumer's last replay, which may be over.
    ///   - batchEnd: Where the batch ends that is in progress.
    init(from: Int64, to: Int64, last: Replay?, batchEnd: Int64) {
        (self.from, self.to) = (from, to)
        guard to < from else {
            replay = last
            return
        }
        let current = last.flatMap { $0.through > from ? $0 : nil }
        replay = Replay(
            number: (last?.number ?? 0) + 1, through: current?.through ?? from,
            batchEnd: current?.batchEnd ?? (batchEnd > from ? batchEnd : 0))
    }

    /// Whether there is nothing to do.
    var isNothing: Bool { from == to }

    /// Hooks are never called for what is left out: that must be meant.
    ///
    /// - Throws: `MoveRefused` if it goes forward and may not.
    func check(skips: Bool, of consumer: String, in store: StoreID) throws(MoveRefused) {
        guard to > from, !skips else { return }
        throw MoveRefused(
            "\"\(consumer)\" is at \(HistoryToken(store: store, number: from)), before \(HistoryToken(store: store, number: to)). To move it forward leaves out transactions that its hooks then never receive: say so with --skip (\"skip\")."
        )
    }
}

/// A move that was not made, and why.
package struct MoveRefused: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

/// A wish of an operator to move a consumer, until it is granted, refused or withdrawn.
final class MoveRequest: Sendable {
    let to: Int64
    let skips: Bool
    /// Who asks.
    let peer: String
    private let answer: @Sendable (Result<ConsumerMove, any Error>) -> Void

    private enum State { case waiting, begun, withdrawn }
    private let state = Locked(State.waiting)

    init(
        to: Int64, skips: Bool, by peer: String,
        answer: @escaping @Sendable (Result<ConsumerMove, any Error>) -> Void
    ) {
        (self.to, self.skips, self.peer, self.answer) = (to, skips, peer, answer)
    }

    /// - Returns: False if it was withdrawn.
    func begin() -> Bool {
        state.withLock { state in
            if state == .withdrawn { return false }
            state = .begun
            return true
        }
    }

    func end(_ result: Result<ConsumerMove, any Error>) { answer(result) }

    /// - Returns: False if it has begun: then the answer comes.
    func withdraw() -> Bool {
        state.withLock { state in
            if state == .begun { return false }
            state = .withdrawn
            return true
        }
    }
}
