internal import DequeModule

/// How far a feed may be ahead of its program: so many transactions that are sent and not acknowledged.
struct FeedWindow: Sendable {
    var size: Int
    private var sent: Deque<Int64> = []

    init(size: Int) { self.size = size }

    var hasRoom: Bool { sent.count < size }
    /// Sent, and not acknowledged.
    var count: Int { sent.count }

    mutating func send(_ number: Int64) { sent.append(number) }

    /// All up to a position is acknowledged, whatever was sent of it.
    mutating func acknowledge(through number: Int64) {
        while let first = sent.first, first <= number { sent.removeFirst() }
    }
}
