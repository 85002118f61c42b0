/// The default merge of one replica, as a separate part.
///
/// A merge hook may use it to merge in its own way, in addition to the merge of the daemon or the tracker.
public actor ReplicaMerger {
    /// The replica into which it merges.
    public nonisolated let context: ReplicaContext
    /// The replica's name.
    public nonisolated var name: String { context.name }
    private let replica: Replica
    private let snapshots: StoreSnapshots

    /// A merger of one replica.
    ///
    /// - Parameters:
    ///   - context: The replica.
    ///   - storePath: The store from which the rows are read.
    public init(_ context: ReplicaContext, storePath: String) {
        self.context = context
        replica = Replica(context, storePath: storePath)
        snapshots = StoreSnapshots(storePath)
    }

    /// Opens the replica, and fills it from a snapshot of the store if it is new, belongs to another store, or has
    /// an expired position.
    ///
    /// - Returns: The replica's position in the history, and whether it was just filled.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func prepare() throws -> (number: Int64, isFilled: Bool) {
        let preparation = try replica.prepare(snapshots)
        return (preparation.number, preparation.isFilled)
    }

    /// Copies the rows of changed objects to the replica, in one transaction with its position.
    ///
    /// The replica shows the rows when the store has nothing newer than `end`. Before that, some of them might
    /// already belong to a later transaction.
    ///
    /// - Parameters:
    ///   - transactions: The fetched transactions, in order.
    ///   - end: The replica's position afterwards.
    /// - Returns: How many of the transactions it had not merged before.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func merge(_ transactions: [HistoryTransaction], through end: Int64) throws -> Int {
        try prepare()
        try snapshots.read { store in
            guard try HistoryHeader(store).newest == end else { return }
            try replica.stage(transactions, of: transactions, through: end, from: store)
        }
        return try replica.merge(transactions, through: end).transactions
    }

    /// Closes the connections; the next use opens them again.
    public func close() {
        replica.close()
        snapshots.close()
    }
}
