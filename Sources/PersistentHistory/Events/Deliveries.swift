/// Calls of one hook that succeeded, one after the other.
public struct Deliveries: Sendable, Equatable {
    /// The number of calls.
    public internal(set) var calls = 0
    /// The number of transactions that the calls delivered.
    public internal(set) var transactions = 0
    /// The token of the last call.
    public internal(set) var token: HistoryToken
    /// The author of the last transaction.
    public internal(set) var author: String?
    /// How long its calls took, where the endpoint measures that.
    package internal(set) var callTimes = DurationHistogram()
    /// How long after its commit each transaction was delivered.
    package internal(set) var delays = DurationHistogram()
    /// Nil for a merge hook, whose calls have all entities.
    public internal(set) var entity: String?

    init(_ first: HistoryTransaction, entity: String? = nil) {
        token = first.token
        author = first.author
        self.entity = entity
    }

    /// Calls of observers.
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

    /// What a log says of calls, of one consumer or of several.
    package static func sentence(
        _ calls: Int, _ transactions: Int, _ hook: String, _ receiver: String
    ) -> String {
        "Delivered \(transactions, "transaction") to \"\(hook)\" for \(receiver) in \(calls, "call")."
    }

    mutating func countDelay(of transaction: HistoryTransaction, at now: HistoryTimestamp) {
        // A binding that declares itself wrongly may write no time.
        guard transaction.timestamp.milliseconds > 0 else { return }
        delays.record(microseconds: (now.milliseconds - transaction.timestamp.milliseconds) * 1000)
    }
}
