import PersistentHistory

/// What a consumer, a replica or a feed has not received of a history.
struct Lag: Sendable, Equatable {
    /// The number of transactions for it; a lower bound if `isAtLeast`.
    var transactions = 0
    var isAtLeast = false
    /// When the oldest of them was committed.
    var oldest: HistoryTimestamp?

    /// How old that transaction is: the age grows as long as nothing is delivered.
    func age(at now: HistoryTimestamp) -> Duration {
        oldest.map { .milliseconds(max(0, now.milliseconds - $0.milliseconds)) } ?? .zero
    }
}

extension Lag {
    /// A consumer's lag, from what follows its position.
    init(_ backlog: Backlog, of consumer: String, under rule: DeliveryRule) {
        for entry in backlog.entries where rule.delivers(entry.author, to: consumer) {
            transactions += 1
            if oldest == nil { oldest = entry.timestamp }
        }
        isAtLeast = !backlog.isWhole
        // Transactions for it may follow beyond what was read.
        if oldest == nil, isAtLeast { oldest = backlog.entries.first?.timestamp }
    }
}

extension Lag {
    /// Accounts for missing transactions that are no longer in the history.
    ///
    /// - Parameters:
    ///   - before: The lag as measured before.
    ///   - now: The current time.
    mutating func includeDeletedHistory(before: Lag, now: HistoryTimestamp) {
        transactions = max(transactions, before.transactions, 1)
        isAtLeast = true
        oldest = before.oldest ?? oldest ?? now
    }
}

extension Lag {
    /// A feed's lag, from the transactions for it.
    init(_ backlog: Backlog) {
        transactions = backlog.entries.count
        isAtLeast = !backlog.isWhole
        oldest = backlog.entries.first?.timestamp
    }
}

extension RuntimeStatus.Consumer {
    func isLagging(beyond limit: Duration, at now: HistoryTimestamp = .now) -> Bool {
        ([lag] + contexts.values.map(\.lag)).contains { $0.age(at: now) > limit + batchWindow }
    }
}
