/// A consumer that was moved, or would be.
package struct MoveReport: Codable, Sendable, Hashable {
    package var store: String
    package var consumer: String
    package var from: String
    package var to: String
    /// The transactions in between that are for the consumer, and the calls that they make: those that come again, or
    /// those that are left out.
    package var transactions: Int
    package var calls: Int
    /// Whether there are more: what takes long to count is not counted to its end. Not there otherwise.
    package var isAtLeast: Bool?
    package var isForward: Bool
    package var isDryRun: Bool

    package init(
        store: String, consumer: String, from: String, to: String, transactions: Int, calls: Int,
        isForward: Bool, isDryRun: Bool
    ) {
        self.store = store
        self.consumer = consumer
        self.from = from
        self.to = to
        self.transactions = transactions
        self.calls = calls
        self.isForward = isForward
        self.isDryRun = isDryRun
    }
}
