/// When a mirror may be filled again because a group could not be applied: pauses grow until one is applied.
package struct RepairPause: Sendable {
    private static let first: Duration = .seconds(1)
    private static let longest: Duration = .seconds(300)

    private var pause: Duration?
    private var earliest: ContinuousClock.Instant?

    package init() {}

    /// - Returns: How long to wait before the repair; the first one need not wait.
    package mutating func take(at now: ContinuousClock.Instant) -> Duration {
        let wait = max(.zero, earliest.map { $0 - now } ?? .zero)
        pause = min(pause.map { $0 * 2 } ?? Self.first, Self.longest)
        earliest = now + wait + (pause ?? .zero)
        return wait
    }

    /// A group was applied.
    package mutating func applied() { self = RepairPause() }
}
