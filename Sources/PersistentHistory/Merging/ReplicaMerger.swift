/// The default merge of one replica, as a separate part.
///
/// A merge hook may merge with it in its own way, beside the daemon's or the tracker's own merging.
public actor ReplicaMerger: HistoryContext {
    /// The replica that is merged into.
    public nonisolated let context: ReplicaContext
    /// The replica's name.
    public nonisolated var name: String { context.name }
    private let replica: Replica

    /// A merger of one replica.
    ///
    /// - Parameters:
    ///   - context: The replica.
    ///   - storePath: The store from which the rows are read.
    public init(_ context: ReplicaContext, storePath: String) {
        self.context = context
        replica = Replica(context, storePath: storePath)
    }

    /// Opens the replica, and fills it from a snapshot of the store if it is new, belongs to another store, or has
    /// an expired position.
    ///
    /// - Returns: The replica's position in the history, and whether it was just filled.
    /// - Throws: `HistoryError`.
    @discardableResult
    public func prepare() throws -> (number: Int64, isFilled: Bool) {
        let preparation = try replica.prepare()
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
        try replica.snapshots.read { store in
            guard try HistoryHeader(store).newest == end else { return }
            try replica.stage(transactions, of: transactions, through: end, from: store)
        }
        return try replica.merge(transactions, through: end).transactions
    }

    /// How far in the history it has taken in changes.
    public func checkpoint() throws -> HistoryToken? {
        try prepare()
        return replica.token
    }

    /// As `merge(_:through:)` with the token's number.
    public func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) throws {
        try merge(transactions, through: token.number)
    }

    /// Fills it again from a snapshot of the store.
    public func refill(from store: StoreSnapshot) throws {
        if try !prepare().isFilled { _ = try replica.fill() }
    }

    /// Ends the connections; the next use opens them again.
    public func close() {
        replica.close()
        replica.snapshots.close()
    }
}
