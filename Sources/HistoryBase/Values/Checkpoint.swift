/// The saved progress of a consumer, a feed, or a replica in a store's history.
package struct Checkpoint: Sendable, Equatable {
    /// The position of the last processed transaction.
    package let position: Int64
    /// Proof that the transaction at the position is still the same; see `HistoryBatch.fingerprint`. Nil
    /// if unknown.
    package var fingerprint: String?
    package let movedAt: HistoryTimestamp
    /// When it last moved, as the total time for which the store had been served. Being caught up counts
    /// as moving. Ignored when the checkpoint is saved.
    package var movedAtServed: Duration = .zero

    package init(
        position: Int64, fingerprint: String? = nil, movedAt: HistoryTimestamp, movedAtServed: Duration = .zero
    ) {
        self.position = position
        self.fingerprint = fingerprint
        self.movedAt = movedAt
        self.movedAtServed = movedAtServed
    }
}
