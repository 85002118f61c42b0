/// A consumer that was moved, or would be.
package struct MoveReport: Codable, Sendable, Hashable {
    package var store: String
    package var consumer: String
    package var from: String
    package var to: String
    /// The number of transactions for the consumer in between, and of the calls that they make. They are
    /// repeated, or skipped.
    package var transactions: Int
    package var calls: Int
    /// Whether there are more: a long count is not completed. Absent otherwise.
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
