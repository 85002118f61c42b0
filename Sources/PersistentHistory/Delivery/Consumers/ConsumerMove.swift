/// Where an operator wants a consumer to continue.
package enum MoveTarget: Sendable, Hashable {
    /// After a transaction.
    case token(HistoryToken)
    /// After the deleted part of the history.
    case oldest
    /// At the end of the history.
    case newest
    /// Before the first transaction made at this time or later.
    case time(HistoryTimestamp)
}

/// A planned or completed move of a consumer.
package struct ConsumerMove: Sendable, Equatable {
    package let from: HistoryToken
    package let to: HistoryToken
    /// The transactions in between that are for the consumer.
    package var transactions = 0
    /// The number of hook calls that will be repeated or skipped.
    package var calls = 0
    /// Whether the counts are lower bounds, because counting took too long.
    package var isAtLeast = false

    package var isForward: Bool { to.number > from.number }
}

/// The effect of a move on a consumer: a pure value.
struct MovePlan: Sendable, Equatable {
    let from: Int64
    let to: Int64
    /// What is repeated afterwards; nil if the consumer was never moved back.
    let replay: Replay?

    /// - Parameters:
    ///   - last: The consumer's last replay, which may be over.
    ///   - batchEnd: The end of the batch in progress.
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

    /// Checks that skipping is intended, because hooks are never called for what is skipped.
    ///
    /// - Throws: `MoveRefused` if the move goes forward without permission to skip.
    func check(skips: Bool, of consumer: String, in store: StoreID) throws(MoveRefused) {
        guard to > from, !skips else { return }
        throw MoveRefused(
            "\"\(consumer)\" is at \(HistoryToken(store: store, number: from)), before \(HistoryToken(store: store, number: to)). To move it forward leaves out transactions that its hooks then never receive: say so with --skip (\"skip\")."
        )
    }
}

/// Says why a move was not made.
package struct MoveRefused: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

/// An operator's request to move a consumer, until it is granted, refused or withdrawn.
final class MoveRequest: Sendable {
    let to: Int64
    let skips: Bool
    /// The process that asks.
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

    /// - Returns: False if the move has begun; its answer then follows.
    func withdraw() -> Bool {
        state.withLock { state in
            if state == .begun { return false }
            state = .withdrawn
            return true
        }
    }
}
