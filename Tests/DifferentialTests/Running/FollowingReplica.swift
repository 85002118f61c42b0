@testable import PersistentHistory

/// A replica that takes in a store's history as the daemon has it do.
final class FollowingReplica {
    let path: String
    private let replica: Replica
    private let snapshots: StoreSnapshots
    private let reader: HistoryReader?
    private var place: Int64 = 0

    init(of store: String) {
        path = store + "-replica"
        replica = Replica(ReplicaContext(name: "copy", path: path, entities: nil), storePath: store)
        snapshots = StoreSnapshots(store)
        reader = try? HistoryReader(path: store, timeout: .zero)
    }

    /// Takes in what has come.
    func follow() throws {
        try replica.prepare()
        guard let reader else { return }
        var transactions: [HistoryTransaction] = []
        var batch: HistoryBatch
        repeat {
            batch = try reader.batch(after: place, changes: .max)
            transactions += batch.transactions
            place = batch.end
        } while !batch.isLast
        let end = batch.end
        try snapshots.read { store in
            try replica.stage(transactions, of: transactions, through: end, from: store)
            _ = try replica.merge(transactions, through: end)
            _ = try replica.refresh(from: store)
        }
    }

    func close() throws {
        try reader?.close()
        replica.close()
        snapshots.close()
    }
}
