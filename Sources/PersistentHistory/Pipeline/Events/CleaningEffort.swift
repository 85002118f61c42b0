/// A cleanup's transactions, and how they avoided others.
public struct CleaningEffort: Sendable, Hashable {
    /// Transactions that were committed.
    public private(set) var steps = 0
    /// How often a step was put off because another connection was in a transaction.
    public private(set) var refusals = 0
    /// The number of steps that were taken although other connections were in a transaction.
    public private(set) var atRisk = 0
    /// The longest time for which a step was put off.
    public private(set) var longestWait: Duration = .zero

    package init() {}

    package mutating func countStep() { steps += 1 }

    mutating func countRisk() { atRisk += 1 }

    mutating func refused(for time: Duration) {
        refusals += 1
        waited(for: time)
    }

    mutating func waited(for time: Duration) { longestWait = max(longestWait, time) }

    /// Adds another report.
    package mutating func add(_ other: CleaningEffort) {
        steps += other.steps
        refusals += other.refusals
        atRisk += other.atRisk
        waited(for: other.longestWait)
    }
}
