import PersistentHistory

/// How large a group may be: a publisher makes a snapshot instead of a larger one.
package enum GroupLimit {
    /// In bytes.
    package static let most = 4 << 30
    /// What is published as a group.
    package static let published = 2 << 30
}

/// How slowly a snapshot may come while it is applied: the mirror is locked for other writers then. A slower one is applied
/// when all of it is there.
package enum SnapshotPace {
    package static let grace: Duration = .seconds(30)
    /// In bytes a second.
    package static let slowest = 64 << 10

    /// What is fetched to see how fast it comes, and for how long.
    package static let sample = 256 << 10
    package static let timeOfSample: Duration = .seconds(5)

    /// Whether the sample came fast enough.
    package static func isFast(_ bytes: Int, in waited: Duration) -> Bool {
        Double(bytes) >= waited / .seconds(1) * Double(4 * slowest)
    }

    /// - Parameter waited: In which nothing else was done than waiting for it.
    package static func isEnough(_ bytes: Int, in waited: Duration) -> Bool {
        waited <= grace || Double(bytes) >= waited / .seconds(1) * Double(slowest)
    }
}

/// When a mirror may be filled again because a group could not be applied: pauses grow until one is applied.
package struct RepairPause: Sendable {
    private var pauses = GrowingPause(first: .seconds(1), longest: .seconds(300))
    private var earliest: ContinuousClock.Instant?

    package init() {}

    /// - Returns: How long to wait before the repair; the first one need not wait.
    package mutating func take(at now: ContinuousClock.Instant) -> Duration {
        let wait = max(.zero, earliest.map { $0 - now } ?? .zero)
        earliest = now + wait + pauses.next()
        return wait
    }

    /// A group was applied.
    package mutating func applied() { self = RepairPause() }
}
