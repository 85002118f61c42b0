/// The default merge of one replica, as a separate part.
///
/// A merge hook may use it for its own merging, in addition to the daemon's or the tracker's.
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

    /// The last merged transaction.
    ///
    /// Opens the replica, and fills it from a snapshot of the store if it is new, belongs to another
    /// store, or its position has expired.
    public func checkpoint() throws -> HistoryToken? {
        try replica.prepare()
        return replica.token
    }

    /// Copies the rows of changed objects to the replica, in one transaction with its position.
    ///
    /// The replica shows the rows when the store has nothing newer than the token. Before that, some of them might
    /// already belong to a later transaction.
    public func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) throws {
        try replica.prepare()
        let fingerprint = try replica.snapshots.read { store in
            let header = try HistoryHeader(store, fingerprintAt: token.number)
            if header.newest == token.number {
                try replica.stage(transactions, of: transactions, through: token.number, from: store)
            }
            return header.fingerprint
        }
        try replica.merge(transactions, through: token.number, fingerprint)
    }

    /// Fills the replica again from a snapshot of the store.
    public func refill(from store: StoreSnapshot) throws {
        if try !replica.prepare() { _ = try replica.fill() }
    }

    /// Closes the connections. The next use opens them again.
    public func close() {
        replica.close()
        replica.snapshots.close()
    }
}
