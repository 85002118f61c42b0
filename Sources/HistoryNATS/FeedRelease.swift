/// Which transactions may be acknowledged to the daemon's feed: those that the server received long enough ago to
/// have written them to disk.
package struct FeedRelease: Sendable {
    private let hold: Duration
    private var waiting: [(number: Int64, first: ContinuousClock.Instant, last: ContinuousClock.Instant)] = []
    private var released: Int64?

    package init(hold: Duration) { self.hold = hold }

    /// Notes the position that the server has acknowledged.
    package mutating func acknowledged(through number: Int64, at now: ContinuousClock.Instant) {
        // A server that was restored to an older state has lost these transactions.
        waiting.removeAll { $0.number > number }
        released = released.map { min($0, number) }
        // A hundred steps are fine enough for a hold of minutes.
        if waiting.count > 1, let last = waiting.last, now - last.first < hold / 100 {
            waiting[waiting.count - 1] = (number, last.first, now)
        } else {
            waiting.append((number, now, now))
        }
    }

    /// The position up to which the feed may be acknowledged now.
    package mutating func through(at now: ContinuousClock.Instant) -> Int64? {
        while let first = waiting.first, now - first.last >= hold {
            released = first.number
            waiting.removeFirst()
        }
        return released
    }

    /// When the position may advance.
    package var next: ContinuousClock.Instant? { waiting.first.map { $0.last + hold } }
}
