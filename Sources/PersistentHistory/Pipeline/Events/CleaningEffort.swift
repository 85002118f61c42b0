/// Transactions of a cleanup, and how they kept out of the way of others.
public struct CleaningEffort: Sendable, Hashable {
    /// Transactions that were committed.
    public private(set) var steps = 0
    /// How often one was put off because another connection was in a transaction.
    public private(set) var refusals = 0
    /// Of the steps, those that were taken although other connections were in a transaction.
    public private(set) var atRisk = 0
    /// For how long a step was put off at most.
    public private(set) var longestWait: Duration = .zero

    package init() {}

    package mutating func countStep() { steps += 1 }

    mutating func countRisk() { atRisk += 1 }

    mutating func refused(for time: Duration) {
        refusals += 1
        waited(for: time)
    }

    mutating func waited(for time: Duration) { longestWait = max(longestWait, time) }

    /// Counts another report.
    package mutating func add(_ other: CleaningEffort) {
        steps += other.steps
        refusals += other.refusals
        atRisk += other.atRisk
        waited(for: other.longestWait)
    }
}
