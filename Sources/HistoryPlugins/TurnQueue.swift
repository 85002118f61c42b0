/// Who may speak with a coprocess: one at a time, in the order in which they came.
///
/// A value inside an actor; who waits does so on a stream, which also ends when its task is
/// cancelled.
struct TurnQueue: Sendable {
    struct Ticket: Sendable, Hashable {
        fileprivate let number: Int
    }

    private var isTaken = false
    private var lastNumber = 0
    private var waiting: [(ticket: Ticket, continuation: AsyncStream<Never>.Continuation)] = []

    /// Whether anybody waits for the turn.
    var areAwaited: Bool { !waiting.isEmpty }

    /// - Returns: nil where the turn was free and is taken now; else a place in the queue, and a
    ///   stream that ends when the turn has come.
    mutating func take() -> (Ticket, AsyncStream<Never>)? {
        guard isTaken else {
            isTaken = true
            return nil
        }
        lastNumber += 1
        let ticket = Ticket(number: lastNumber)
        let (stream, continuation) = AsyncStream<Never>.makeStream()
        waiting.append((ticket, continuation))
        return (ticket, stream)
    }

    /// Leaves the queue.
    ///
    /// - Returns: false where the turn had come already, so that it has to be passed on.
    mutating func leave(_ ticket: Ticket) -> Bool {
        guard let place = waiting.firstIndex(where: { $0.ticket == ticket }) else { return false }
        waiting.remove(at: place)
        return true
    }

    /// The turn goes to the next in the queue, if there is one.
    mutating func pass() {
        guard !waiting.isEmpty else {
            isTaken = false
            return
        }
        waiting.removeFirst().continuation.finish()
    }
}
