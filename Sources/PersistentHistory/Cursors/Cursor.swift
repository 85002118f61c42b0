/// How far a consumer got.
public struct Cursor: Sendable, Equatable {
    /// The number of the last transaction that the consumer is done with.
    public let number: Int64
    public let movedAt: HistoryTimestamp
    /// In served time (how long its store had been served in all), when it moved, or was last seen to
    /// have everything.
    public let movedAtServed: Duration
    /// What the store says of the change there: a store that was restored from a backup, and has been
    /// written to, says something else. Nil where nothing is known.
    public let mark: String?

    /// - Parameter movedAtServed: Does not matter where the cursor is to be saved.
    public init(
        number: Int64, movedAt: HistoryTimestamp, movedAtServed: Duration = .zero, mark: String? = nil
    ) {
        self.number = number
        self.movedAt = movedAt
        self.movedAtServed = movedAtServed
        self.mark = mark
    }
}
