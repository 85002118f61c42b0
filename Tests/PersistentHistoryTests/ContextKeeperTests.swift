import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What a consumer's contexts have taken in, where the store fails while they catch up.
@Suite(.timeLimit(.minutes(60))) struct ContextKeeperTests {
    private actor Model: HistoryContext {
        nonisolated let name = "model"
        private var token: HistoryToken?
        private var afterMerge: (@Sendable () throws -> Void)?
        private(set) var changes = 0

        func afterNextMerge(_ body: @escaping @Sendable () throws -> Void) { afterMerge = body }

        func checkpoint() -> HistoryToken? { token }
        func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) throws {
            changes += transactions.map(\.changes.count).reduce(0, +)
            self.token = token
            try afterMerge?()
            afterMerge = nil
        }
        func refill(from store: StoreSnapshot) throws { token = try store.read { $1 } }
    }

    /// Of `MainApp`, which its own transactions do not concern.
    private static func keeper(
        _ store: GatekeeperStore, _ reader: HistoryReader, contexts: [ReplicaContext] = [],
        programContexts: [any HistoryContext] = [], reporter: any PipelineReporter = SilentReporter()
    ) throws -> ContextKeeper {
        ContextKeeper(
            Consumer(
                store: "s", author: "MainApp", rule: DeliveryRule(authors: ["A", "MainApp"]),
                contexts: contexts, programContexts: programContexts),
            source: reader, state: try StateDatabase(folder: store.folder.path, store: reader.storeID),
            reporter: reporter)
    }

    /// Does something at each fill.
    private struct AtFill: PipelineReporter {
        let body: @Sendable () -> Void
        func report(_ event: PipelineEvent) {
            if case .replicaFilled = event { body() }
        }
    }

    @Test("A replica that has been filled when the store fails is not filled once more")
    func failsAfterFill() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        let reader = try HistoryReader(path: store.path)
        let context = store.replica()
        let fills = Locked(0)
        let keeper = try Self.keeper(
            store, reader, contexts: [context],
            reporter: AtFill {
                let count = fills.withLock { fills in
                    fills += 1
                    return fills
                }
                guard count == 2 else { return }
                #expect(throws: Never.self) {
                    try store.write(nil, "UPDATE historyd_store SET value = 'x' || value WHERE key = 'id'")
                }
            })
        try await keeper.tend(cursor: 1)
        await #expect(throws: HistoryError.self) { try await keeper.resync(context.name, cursor: 1) }
        try store.write(nil, "UPDATE historyd_store SET value = substr(value, 2) WHERE key = 'id'")
        await keeper.tryNow()
        try await keeper.tend(cursor: 1)
        #expect(fills.withLock(\.self) == 2)
        #expect(try store.rows(of: context.path) == store.rows())
        await keeper.close()
    }

    @Test("A context that has yet to catch up when the store fails goes on there, and misses nothing")
    func storeFails() async throws {
        let store = try GatekeeperStore()
        let reader = try HistoryReader(path: store.path, partSize: 3)
        let model = Model()
        let keeper = try Self.keeper(store, reader, programContexts: [model])
        try await keeper.tend(cursor: 0)
        await keeper.startOver(isRestored: false)
        // The second one is large, and in a batch of its own.
        let rows = (2...20).map { "(\($0), 0)" }.joined(separator: ", ")
        try store.write("A", "INSERT INTO t VALUES (1, 0)", "INSERT INTO t VALUES \(rows)")
        let end = try reader.newestToken().number
        await model.afterNextMerge {
            try store.write(nil, "UPDATE historyd_change SET kind = kind + 96 WHERE id > 1")
        }
        await #expect(throws: HistoryError.self) { try await keeper.tend(cursor: end) }
        let first = await model.changes
        #expect(first == 1)
        try store.write(nil, "UPDATE historyd_change SET kind = kind - 96 WHERE id > 1")
        try await keeper.tend(cursor: end)
        let all = await model.changes
        #expect(all == 20)
        #expect(await keeper.retryDelay == nil)
        await keeper.close()
    }

    @Test("A replica shows a batch that was cut short, also where only what is of no concern follows")
    func tailOfNoConcern() async throws {
        let store = try GatekeeperStore()
        let reader = try HistoryReader(path: store.path)
        let context = store.replica()
        let keeper = try Self.keeper(store, reader, contexts: [context])
        try await keeper.tend(cursor: 0)
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        let batch = try reader.outlinedBatch(after: 0)
        try store.write("MainApp", "INSERT INTO t VALUES (2, 0)")
        let merge = PendingMerge(batch.transactions, after: 0, end: batch.end)
        #expect(try await keeper.merge(merge, cursor: 0, waits: false) == nil)
        try await keeper.bringUpToDate(cursor: batch.end)
        #expect(try store.rows(of: context.path).isEmpty, "Something newer is in the store.")
        try await keeper.bringUpToDate(cursor: 2)
        #expect(try store.rows(of: context.path) == Array(store.rows().prefix(1)))

        // So does it follow the schema.
        try store.write("MainApp", "INSERT INTO t VALUES (3, 0)", "ALTER TABLE t ADD COLUMN x DEFAULT 7")
        await keeper.followSchema()
        try await keeper.bringUpToDate(cursor: 3)
        let columns = try GatekeeperStore.read(context.path) {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM pragma_table_info('t')")
        }
        #expect(columns == 3)
        await keeper.close()
    }

    @Test("A replica in whose place an older copy of it was put goes on where that copy is, and misses nothing")
    func olderCopy() async throws {
        let store = try GatekeeperStore()
        let reader = try HistoryReader(path: store.path)
        let context = store.replica()
        let keeper = try Self.keeper(store, reader, contexts: [context])
        var cursor: Int64 = 0
        /// Commits, and takes that through all that a consumer does with its contexts.
        func commit(_ script: String) async throws {
            try store.write("A", script)
            let batch = try await keeper.stage(
                try reader.outlinedBatch(after: cursor), cursor: cursor, takesOwn: false)
            let merge = PendingMerge(batch.transactions, after: cursor, end: batch.end)
            #expect(try await keeper.merge(merge, cursor: cursor, waits: false) == nil)
            cursor = batch.end
            try await keeper.bringUpToDate(cursor: cursor)
        }
        try await commit("INSERT INTO t VALUES (1, 0)")
        let copy = store.folder.file("copy.sqlite")
        let replica = try DatabaseQueue(path: context.path)
        try await replica.writeWithoutTransaction { try $0.execute(sql: "VACUUM INTO ?", arguments: [copy]) }
        try replica.close()
        try await commit("INSERT INTO t VALUES (2, 0)")
        for suffix in ["", "-wal", "-shm"] { unlink(context.path + suffix) }
        #expect(rename(copy, context.path) == 0)
        try await commit("INSERT INTO t VALUES (3, 0)")
        #expect(try store.rows(of: context.path) == store.rows())
        await keeper.close()
    }
}
