/// Consecutive successful calls of one hook.
public struct Deliveries: Sendable, Equatable {
    /// The number of calls.
    public internal(set) var calls = 0
    /// The number of transactions that the calls delivered.
    public internal(set) var transactions = 0
    /// The token of the last call.
    public internal(set) var token: HistoryToken
    /// The author of the last transaction. For deliveries of several consumers, the author that they have
    /// in common.
    public internal(set) var author: String?
    /// How long its calls took, if the endpoint measures that.
    package internal(set) var callTimes = DurationHistogram()
    /// How long after its commit each transaction was delivered.
    package internal(set) var delays = DurationHistogram()
    /// Nil for a merge hook, whose calls have all entities. For deliveries of several consumers, the
    /// entity that they have in common.
    public internal(set) var entity: String?

    init(_ first: HistoryTransaction, entity: String? = nil) {
        token = first.token
        author = first.author
        self.entity = entity
    }

    /// Counts calls of observers.
    ///
    /// - Parameter now: When they were answered.
    mutating func count(_ calls: ArraySlice<ObserverCall>, last: ObserverCall, at now: HistoryTimestamp) {
        var number = transactions == 0 ? -1 : token.number
        for index in calls.indices where calls[index].transaction.number != number {
            transactions += 1
            number = calls[index].transaction.number
            countDelay(of: calls[index].transaction, at: now)
        }
        self.calls += calls.count
        token = last.transaction.token
        author = last.transaction.author
        entity = last.changes.first?.entity.name
    }

    /// Adds later deliveries of any consumer. An author or an entity that is not the same for all becomes
    /// nil.
    package mutating func add(_ later: Deliveries) {
        calls += later.calls
        transactions += later.transactions
        token = later.token
        callTimes.add(later.callTimes)
        delays.add(later.delays)
        if author != later.author { author = nil }
        if entity != later.entity { entity = nil }
    }

    /// A sentence for a log.
    package func sentence(of hook: String, to receiver: String) -> String {
        "Delivered \(transactions, "transaction") to \"\(hook)\" for \(receiver) in \(calls, "call")."
    }

    mutating func countDelay(of transaction: HistoryTransaction, at now: HistoryTimestamp) {
        // A binding that declares its author incorrectly may write no time.
        guard transaction.timestamp.milliseconds > 0 else { return }
        delays.record(microseconds: (now.milliseconds - transaction.timestamp.milliseconds) * 1000)
    }
}
