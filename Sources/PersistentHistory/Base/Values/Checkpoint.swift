/// How far a consumer, a feed, or a replica has got in a store's history, as saved.
package struct Checkpoint: Sendable, Equatable {
    /// The position of the last transaction that is done.
    package let position: Int64
    /// Proof that the transaction at the position is still the same; see `HistoryBatch.fingerprint`. Nil if it
    /// is not known.
    package var fingerprint: String?
    package let movedAt: HistoryTimestamp
    /// When it moved in served time: how long the store had been served in all. Being caught up counts as moving.
    /// Ignored where the checkpoint is saved.
    package var movedAtServed: Duration = .zero
}
