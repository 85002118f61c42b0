import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What a context has taken in is of the store as it is, also where the store was restored and gave the same numbers
/// again: a context may be ahead of its consumer's checkpoint, which then shows nothing.
@Suite(.timeLimit(.minutes(60))) struct RestoredContextTests {
    /// Keeps the objects that it was given, as a program's own model does.
    private actor Model: HistoryContext {
        nonisolated let name = "model"
        private var token: HistoryToken?
        private(set) var objects: Set<Int64> = []
        private(set) var expiries: [Expiry.Reason] = []

        func checkpoint() -> HistoryToken? { token }
        func expired(_ expiry: Expiry) { expiries.append(expiry.reason) }
        func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) {
            for change in transactions.flatMap(\.changes) {
                if case .integer(let id) = change.objectID.values[0] { objects.insert(id) }
            }
            self.token = token
        }
        func refill(from store: StoreSnapshot) throws {
            (objects, token) = try store.read { db, token in
                (Set(try Int64.fetchAll(db, sql: "SELECT id FROM t")), token)
            }
        }
    }

    private let store: GatekeeperStore
    private let backup: String
    private let model = Model()
    private let replica: ReplicaContext

    init() throws {
        store = try GatekeeperStore(pragmas: "PRAGMA journal_mode = DELETE")
        backup = store.folder.file("backup.sqlite")
        replica = store.replica()
    }

    private func withKeeper(_ body: (ContextKeeper, HistoryReader) async throws -> Void) async throws {
        let reader = try HistoryReader(path: store.path)
        let state = try StateDatabase(folder: store.folder.path, store: reader.storeID)
        let keeper = ContextKeeper(
            Consumer(
                store: "s", author: "Main", rule: DeliveryRule(authors: ["A", "Main"]), contexts: [replica],
                programContexts: [model]), source: reader, state: state, reporter: SilentReporter())
        try await body(keeper, reader)
        await keeper.close()
        try state.close()
        try reader.close()
    }

    private func insert(_ ids: Int64...) throws {
        for id in ids { try store.write("A", "INSERT INTO t VALUES (\(id), 0)") }
    }

    /// How far the store has got by the time that it is served again: at the number of the lost transaction, or beyond.
    @Test("A row of the lost time is in no context", arguments: [1, 2, 5])
    func lostRow(_ commits: Int64) async throws {
        try insert(1)
        try await withKeeper { keeper, _ in try await keeper.tend(cursor: 0) }
        try FileManager.default.copyItem(atPath: store.path, toPath: backup)
        try insert(2)
        // Merged, and killed before the consumer's checkpoint was saved.
        try await withKeeper { keeper, reader in
            try await keeper.tend(cursor: 1)
            let batch = try await keeper.stage(try reader.outlinedBatch(after: 1), cursor: 1, takesOwn: false)
            var merge = PendingMerge(batch.transactions, after: 1, end: batch.end)
            merge.fingerprint = batch.fingerprint
            _ = try await keeper.merge(merge, cursor: 1, waits: false)
        }
        #expect(try store.rows(of: replica.path).count == 2)
        #expect(rename(backup, store.path) == 0)
        for commit in 1...commits { try insert(100 + commit) }
        try await withKeeper { keeper, _ in
            try await keeper.tend(cursor: 1)
            try await keeper.tend(cursor: 1 + commits)
            try await keeper.bringUpToDate(cursor: 1 + commits)
        }
        #expect(try store.rows(of: replica.path) == store.rows())
        let (objects, expiries) = await (model.objects, model.expiries)
        #expect(
            objects
                == Set(try GatekeeperStore.read(store.path) { try Int64.fetchAll($0, sql: "SELECT id FROM t") })
        )
        #expect(expiries == [.restored])
    }

    @Test("A replica of another history is not made equal to a store that has come to its number")
    func settlesNothing() async throws {
        try insert(1)
        try FileManager.default.copyItem(atPath: store.path, toPath: backup)
        try insert(2)
        try await withKeeper { keeper, _ in try await keeper.tend(cursor: 0) }
        let lost = Replica(replica, storePath: store.path)
        #expect(try lost.open(isKnown: true)?.number == 2)
        #expect(rename(backup, store.path) == 0)
        try insert(3)
        lost.snapshots.close()
        #expect(try !lost.bringUpToDate())
        #expect(try lost.prepare() == false)
        lost.close()
        #expect(try lost.prepare(), "It is filled again.")
        #expect(try store.rows(of: replica.path) == store.rows())
    }

    @Test("A replica of an earlier version has no proof yet, and goes on")
    func earlierVersion() async throws {
        try insert(1)
        try await withKeeper { keeper, _ in try await keeper.tend(cursor: 0) }
        let file = try DatabaseQueue(path: replica.path)
        try await file.writeWithoutTransaction {
            try $0.execute(sql: "ALTER TABLE historyd_replica DROP COLUMN fingerprint")
        }
        try file.close()
        let old = Replica(replica, storePath: store.path)
        #expect(try !old.prepare())
        try old.merge([], through: 1)
        old.close()
    }
}
