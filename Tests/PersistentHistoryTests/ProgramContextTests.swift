import Foundation
import GRDB
import PersistentHistory
import TestSupport
import Testing

/// Contexts of the program's own: in memory, and in its own database.
@Suite(.timeLimit(.minutes(60))) struct ProgramContextTests {
    struct NotNow: Error {}

    /// What others wrote to `person`, in memory.
    actor Model: HistoryContext {
        nonisolated let name: String
        private let path: String
        private(set) var rows: [Int64: String] = [:]
        private(set) var calls: [String] = []
        private var token: HistoryToken?
        private var failing: Int

        init(_ store: TrackedStore, name: String = "model", failing: Int = 0) {
            self.name = name
            path = store.path
            self.failing = failing
        }

        func fail(_ times: Int) { failing = times }
        func checkpoint() -> HistoryToken? { token }

        func merge(_ transactions: [HistoryTransaction], through token: HistoryToken) throws {
            calls.append("merge \(transactions.map { $0.author ?? "-" }.joined(separator: ","))")
            if failing > 0 {
                failing -= 1
                throw NotNow()
            }
            try StoreSnapshot(path: path).read { db, _ in
                for change in transactions.flatMap(\.changes) where change.entity.name == "person" {
                    guard case .integer(let id)? = change.objectID.values.first else { continue }
                    rows[id] = try String.fetchOne(
                        db, sql: "SELECT coalesce(name, '') FROM person WHERE id = ?", arguments: [id])
                }
            }
            self.token = token
        }

        func refill(from store: StoreSnapshot) throws {
            calls.append("refill")
            (rows, token) = try store.read { db, token in
                let rows = try Row.fetchAll(db, sql: "SELECT id, coalesce(name, '') AS name FROM person")
                return (Dictionary(uniqueKeysWithValues: rows.map { ($0["id"], $0["name"]) }), token)
            }
        }

        func expired(_ expiry: Expiry) { calls.append("expired \(expiry.reason)") }
    }

    private func tracker(
        _ store: TrackedStore, _ contexts: [any HistoryContext], replicas: [ReplicaContext] = []
    ) -> PersistentHistoryTracker {
        var configuration = PersistentHistoryTracker.Configuration(
            store: store.path, currentAuthor: "MainApp", allAuthors: ["MainApp", "Widget"],
            stateFolder: store.stateFolder)
        configuration.contexts = replicas
        configuration.programContexts = contexts
        configuration.reporter = SilentReporter()
        return PersistentHistoryTracker(configuration)
    }

    @Test("A model is filled at the start, and then gets what others commit, in order")
    func model() async throws {
        let store = try TrackedStore()
        try store.write("INSERT INTO person (id, name) VALUES (1, 'Ada')", as: "MainApp")
        let model = Model(store)
        let tracker = self.tracker(store, [model], replicas: [store.replica])
        try await tracker.runOnce()
        try store.write("INSERT INTO person (id, name) VALUES (2, 'Bob')")
        try store.write("INSERT INTO person (id, name) VALUES (3, 'Own')", as: "MainApp")
        try store.write("DELETE FROM person WHERE id = 1", as: "Importer")
        try await tracker.runOnce()
        #expect(await model.rows == [2: "Bob"])
        #expect(await model.calls == ["refill", "merge Widget,Importer"])
        #expect(try store.replicaRows("SELECT id FROM person ORDER BY 1") == ["2"])
        // Nothing new is nothing to merge.
        try await tracker.runOnce()
        #expect(await model.calls.count == 2)
        // A new program has a new model.
        let another = Model(store)
        try await self.tracker(store, [another]).runOnce()
        #expect(await another.rows == [2: "Bob", 3: "Own"])
    }

    @Test("A context that fails is tried again where it was; hooks and other contexts go on meanwhile")
    func failure() async throws {
        let store = try TrackedStore()
        let (failing, other) = (Model(store, name: "failing"), Model(store, name: "other"))
        let tracker = self.tracker(store, [failing, other])
        let notes = Notes()
        await tracker.registerObserver(entityName: "person", operation: .insert) { _ in await notes.add("call")
        }
        try await tracker.runOnce()
        await failing.fail(2)
        try store.write("INSERT INTO person (id, name) VALUES (1, 'Ada')")
        try await tracker.runOnce()
        #expect(await notes.all == ["call"])
        #expect(await other.calls == ["refill", "merge Widget"])
        #expect(await failing.calls == ["refill", "merge Widget", "merge Widget", "merge Widget"])
        #expect(await failing.rows == [1: "Ada"])
        #expect(tracker.state.contextErrors.isEmpty)
    }

    @Test("Where merge hooks decide, the consumer waits for a context that fails, and no decision is lost")
    func mergeHooksDecide() async throws {
        let store = try TrackedStore()
        let model = Model(store)
        let tracker = self.tracker(store, [model])
        let names = Notes()
        await tracker.registerMergeHook { input in
            await names.add(input.contexts.map(\.name).joined())
            return .rejecting(input.transactions.filter { $0.author == "Banned" }.map(\.token))
        }
        try await tracker.runOnce()
        await model.fail(1)
        try store.write("INSERT INTO person (id, name) VALUES (1, 'Ada')")
        try store.write("INSERT INTO person (id, name) VALUES (2, 'Bad')", as: "Banned")
        try await tracker.runOnce()
        #expect(await model.rows == [1: "Ada"])
        #expect(await model.calls == ["refill", "merge Widget", "merge Widget"])
        #expect(await names.all == ["model"])
    }

    @Test("A context whose history was deleted is told, and filled again")
    func expiry() async throws {
        let store = try TrackedStore()
        let model = Model(store)
        try await self.tracker(store, [model]).runOnce()
        let last = try #require(try store.write("INSERT INTO person (id, name) VALUES (1, 'Ada')"))
        _ = try await HistoryCleaner(path: store.path, rule: DeliveryRule(authors: [])).clean(
            through: last.number)
        try await self.tracker(store, [model]).runOnce()
        #expect(await model.calls == ["refill", "expired expired", "refill"])
        #expect(await model.rows == [1: "Ada"])
    }

    @Test("When the store was restored from a backup, a context is told and filled again once")
    func restored() async throws {
        let store = try TrackedStore()
        let model = Model(store)
        let backup = store.path + "-backup"
        try store.write("INSERT INTO person (id, name) VALUES (1, 'Ada')")
        try DatabaseQueue(path: store.path).backup(to: try DatabaseQueue(path: backup))
        try store.write("INSERT INTO person (id, name) VALUES (2, 'Bob')")
        try await tracker(store, [model]).runOnce()
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: store.path + suffix) }
        try FileManager.default.removeItem(atPath: store.path)
        try FileManager.default.moveItem(atPath: backup, toPath: store.path)
        try store.write("INSERT INTO person (id, name) VALUES (3, 'Cleo')")
        let before = await model.calls.count
        try await tracker(store, [model]).runOnce()
        #expect(await model.calls.dropFirst(before) == ["expired restored", "refill"])
        #expect(await model.rows == [1: "Ada", 3: "Cleo"])
    }

    @Test("A replica's merger is a context like any other")
    func replicaMerger() async throws {
        let store = try TrackedStore()
        let merger = ReplicaMerger(store.replica, storePath: store.path)
        let tracker = self.tracker(store, [merger])
        try store.write("INSERT INTO person (id, name) VALUES (1, 'Ada')")
        try await tracker.runOnce()
        try store.write("UPDATE person SET name = 'Grace'")
        try await tracker.runOnce()
        #expect(try store.replicaRows("SELECT name FROM person") == ["Grace"])
        #expect(merger.name == "view")
        await merger.close()
    }

    // MARK: A database of the program's own

    private func index(_ store: TrackedStore, _ database: any DatabaseWriter, failing: FailureCount)
        throws -> DatabaseContext
    {
        try database.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE IF NOT EXISTS call (what TEXT)
                    """)
        }
        return DatabaseContext(
            name: "index", database: database, store: store.path,
            merge: { index, transactions, store in
                for change in transactions.flatMap(\.changes) {
                    try index.execute(
                        sql: "INSERT INTO call VALUES (?)", arguments: [change.operation.rawValue])
                    guard case .integer(let id)? = change.objectID.values.first else { continue }
                    try index.execute(sql: "DELETE FROM entry WHERE id = ?", arguments: [id])
                    if try failing.isDue() { throw NotNow() }
                    let row = try Row.fetchOne(
                        store, sql: "SELECT name FROM person WHERE id = ?", arguments: [id])
                    guard let row else { continue }
                    try index.execute(
                        sql: "INSERT INTO entry VALUES (?, ?)", arguments: [id, row["name"] as String?])
                }
            },
            refill: { index, store in
                try index.execute(sql: "DELETE FROM entry; INSERT INTO call VALUES ('refill')")
                let rows = try Row.fetchCursor(store, sql: "SELECT id, name FROM person")
                while let row = try rows.next() {
                    try index.execute(sql: "INSERT INTO entry VALUES (?, ?)", arguments: [row[0], row[1]])
                }
            })
    }

    /// Fails now and then, by a seed, but never more than three times in a row: a single run gives a context up
    /// that fails five times.
    final class FailureCount: @unchecked Sendable {
        private let lock = NSLock()
        private var seed: Seed
        private var failures = 0
        private var rest = 0
        init(_ seed: UInt64) { self.seed = Seed(seed) }

        func isDue() throws -> Bool {
            lock.withLock {
                rest -= 1
                guard rest < 0, Int.random(in: 0..<20, using: &seed) == 0 else { return false }
                failures += 1
                if failures % 3 == 0 { rest = 20 }
                return true
            }
        }
    }

    @Test("Each change counts exactly once, whatever fails, and over new starts")
    func exactlyOnce() async throws {
        let store = try TrackedStore()
        let database = try DatabaseQueue(path: store.stateFolder + "/index.sqlite")
        var random = Seed(.random(in: 0...UInt64.max))
        let failing = FailureCount(random.next())
        var expected = 0
        for round in 0..<12 {
            // Each round is a new program.
            let context = try index(store, database, failing: failing)
            let tracker = self.tracker(store, [context])
            if round == 0 { try await tracker.runOnce() }
            for _ in 0..<3 {
                let id = Int.random(in: 1...4, using: &random)
                try store.write("INSERT OR REPLACE INTO person (id, name) VALUES (\(id), 'n\(round)')")
                if Bool.random(using: &random) { try store.write("DELETE FROM person WHERE id = \(5 - id)") }
            }
            try await tracker.runOnce()
            let reader = try HistoryReader(path: store.path)
            expected = try reader.batch(after: 0).transactions.flatMap(\.changes).count
            try reader.close()
            let rows = try await database.read { db in
                try Row.fetchAll(db, sql: "SELECT id, name FROM entry ORDER BY id").map {
                    "\($0[0] as Int64) \($0[1] as String? ?? "-")"
                }
            }
            #expect(try rows == store.rows("SELECT id, name FROM person ORDER BY id"), "seed \(random)")
        }
        let calls = try await database.read {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM call WHERE what <> 'refill'")
        }
        #expect(calls == expected, "seed \(random)")
        #expect(
            try await database.read {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM call WHERE what = 'refill'")
            } == 1)
    }

    // MARK: What merge hooks write

    @Test(
        "What a merge hook writes under its own author reaches the replica and the contexts, and not the hooks")
    func ownChangesOfHooks() async throws {
        let store = try TrackedStore()
        let app = try DatabasePool(path: store.path, author: "MainApp")
        let model = Model(store)
        let tracker = self.tracker(store, [model], replicas: [store.replica])
        try await tracker.runOnce()
        let calls = Notes()
        await tracker.registerMergeHook { input in
            await calls.add(input.transactions.map { $0.author ?? "-" }.joined(separator: ","))
            try await app.write { db in
                try db.execute(
                    sql: "DELETE FROM person WHERE id NOT IN (SELECT min(id) FROM person GROUP BY name)")
            }
            return .goOn
        }
        try store.write("INSERT INTO person (id, name) VALUES (1, 'Ada'), (2, 'Ada'), (3, 'Bob')")
        try await tracker.runOnce()
        #expect(try store.replicaRows("SELECT id FROM person ORDER BY 1") == ["1", "3"])
        #expect(await model.rows == [1: "Ada", 3: "Bob"])
        #expect(await calls.all == ["Widget"])
        // The same where the hook does the merging itself.
        await tracker.removeAllMergeHooks()
        await tracker.registerMergeHook { input in
            for context in input.contexts {
                try await context.merge(input.transactions, through: input.transactions[0].token)
            }
            try await app.write { try $0.execute(sql: "UPDATE person SET name = 'Own' WHERE id = 3") }
            return .finish
        }
        try store.write("INSERT INTO person (id, name) VALUES (4, 'Eve')")
        try await tracker.runOnce()
        #expect(
            try store.replicaRows("SELECT id, name FROM person ORDER BY 1") == ["1 Ada", "3 Own", "4 Eve"])
        #expect(await model.rows[3] == "Own")
        try app.close()
    }
}
