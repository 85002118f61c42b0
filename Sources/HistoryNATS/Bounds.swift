import PersistentHistory

/// The maximum size of a group: a publisher makes a snapshot instead of a larger one.
package enum GroupLimit {
    /// In bytes.
    package static let most = 4 << 30
    /// The largest group that is published.
    package static let published = 2 << 30
}

/// The minimum pace of a snapshot that is applied while it arrives, because the mirror is locked for other
/// writers then. A slower one is applied once it is complete.
package enum SnapshotPace {
    package static let grace: Duration = .seconds(30)
    /// In bytes per second.
    package static let slowest = 64 << 10

    /// The sample that measures the pace, and its time limit.
    package static let sample = 256 << 10
    package static let timeOfSample: Duration = .seconds(5)

    /// Whether the sample arrived fast enough.
    package static func isFast(_ bytes: Int, in waited: Duration) -> Bool {
        Double(bytes) >= waited / .seconds(1) * Double(4 * slowest)
    }

    /// - Parameter waited: The time spent only on waiting for the bytes.
    package static func isEnough(_ bytes: Int, in waited: Duration) -> Bool {
        waited <= grace || Double(bytes) >= waited / .seconds(1) * Double(slowest)
    }
}

/// Paces the refills of a mirror to which a group could not be applied: pauses grow until one is applied.
package struct RepairPause: Sendable {
    private var pauses = GrowingPause(first: .seconds(1), longest: .seconds(300))
    private var earliest: ContinuousClock.Instant?

    package init() {}

    /// - Returns: How long to wait before the repair; the first is immediate.
    package mutating func take(at now: ContinuousClock.Instant) -> Duration {
        let wait = max(.zero, earliest.map { $0 - now } ?? .zero)
        earliest = now + wait + pauses.next()
        return wait
    }

    /// Resets the pauses: a group was applied.
    package mutating func applied() { self = RepairPause() }
}
