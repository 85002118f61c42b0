import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What a reader of a replica sees, and what a replica survives.
@Suite(.timeLimit(.minutes(60))) struct ReplicaContextTests {
    /// Each transaction moves something from one account to another, so that all accounts are zero
    /// together; whoever sees half a transaction sees another sum.
    private static let move = """
        UPDATE t SET n = n + 1 WHERE id = (SELECT abs(random()) % 3); UPDATE u SET n = n - 1 WHERE id = (SELECT abs(random()) % 3)
        """

    @Test(
        "A reader never sees half a transaction: a busy writer, and then a backlog",
        arguments: ["WAL", "DELETE"])
    func neverHalf(_ journal: String) async throws {
        let store = try GatekeeperStore(pragmas: "PRAGMA journal_mode = \(journal)")
        try store.write(
            nil, "INSERT INTO t VALUES (0, 0), (1, 0), (2, 0); INSERT INTO u VALUES (0, 0), (1, 0), (2, 0)")
        let replica = store.folder.file("view.sqlite")
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        try await store.serve(served)
        let listener = Listener()

        for isLive in [true, false] {
            let stop = OneShotEvent()
            let isWritten = Locked(false)
            let states = Locked(0)
            if !isLive { try await onThread { try Self.write(store, 3000, every: 0) } }
            try await withThrowingTaskGroup(of: Void.self) { group in
                if isLive {
                    group.addTask {
                        // However busy the writer is, the replica moves.
                        try await onThread {
                            try Self.write(store, 20_000, every: 1) { states.withLock { $0 } >= 10 }
                        }
                        isWritten.withLock { $0 = true }
                    }
                }
                group.addTask {
                    let events = EventLog()
                    let observer = try StoreObserver()
                    try await withThrowingTaskGroup(of: Void.self) { inner in
                        inner.addTask { try await observer.run() }
                        try await store.runner(served, [listener.observer()], events, stop: stop)
                            .run(watching: observer.watch(store.path))
                        observer.stop()
                        try await inner.waitForAll()
                    }
                }
                group.addTask {
                    defer { stop.signal() }
                    let seen = try await onThread {
                        var seen: Set<Int64> = []
                        var newest: Int64?
                        let queue = try DatabaseQueue(path: replica)
                        while true {
                            let (sum, number) = try queue.read { db in
                                (
                                    try Int.fetchOne(
                                        db, sql: "SELECT (SELECT sum(n) FROM t) + (SELECT sum(n) FROM u)"),
                                    try Int64.fetchOne(db, sql: "SELECT number FROM historyd_replica") ?? 0
                                )
                            }
                            #expect(sum == 0)
                            seen.insert(number)
                            states.withLock { $0 = seen.count }
                            if newest == nil, !isLive || isWritten.withLock({ $0 }) {
                                newest = try store.history().last
                            }
                            if sum != 0 || number == newest { return seen.count }
                            usleep(200)
                        }
                    }
                    #expect(!isLive || seen > 1)
                    print("\(journal), \(isLive ? "live" : "backlog"): \(seen) states seen")
                }
                try await group.waitForAll()
            }
            #expect(try store.rows(of: replica) == store.rows())
        }
    }

    private static func write(
        _ store: GatekeeperStore, _ count: Int, every milliseconds: UInt32,
        until isEnough: () -> Bool = { false }
    ) throws {
        let queue = try store.writer("Writer")
        for _ in 0..<count where !isEnough() {
            try queue.write { db in try db.execute(sql: move) }
            if milliseconds > 0 { usleep(milliseconds * 1000) }
        }
        try queue.close()
    }

    @Test("Who is told to stop does not copy a large store to its end; it is copied the next time")
    func stopsFilling() async throws {
        let store = try GatekeeperStore()
        try store.write(
            nil,
            "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i, 0 FROM n"
        )
        let context = store.replica()
        await #expect(throws: HistoryError.self) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    withUnsafeCurrentTask { $0?.cancel() }
                    try Replica(context, storePath: store.path).prepare()
                }
                try await group.waitForAll()
            }
        }
        #expect(try Replica(context, storePath: store.path).prepare())
    }

    @Test("While it has to catch up, a replica shows the state before, and then all at once")
    func catchesUpAtOnce() throws {
        let store = try GatekeeperStore()
        let replica = OpenReplica(store)
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        #expect(try replica.prepare())
        try store.write(
            "A", "UPDATE t SET n = 1; INSERT INTO u VALUES (1, 1)", "UPDATE t SET n = 2; UPDATE u SET n = 2")
        let reader = try HistoryReader(path: store.path)
        let transactions = try reader.batch(after: 1).transactions
        // The first alone: the store is ahead of it, and nothing was read.
        #expect(try !replica.merge([transactions[0]], through: 3).isShown)
        #expect(try store.rows(of: replica.path) == ["t [id:1 n:0]"])
        // A kill in between loses nothing.
        let again = OpenReplica(store)
        #expect(try !again.prepare() && again.taken == 3)
        try again.stage([transactions[1]], through: 5)
        // What is committed meanwhile does not show.
        try store.write("A", "UPDATE t SET n = 3; UPDATE u SET n = 3")
        #expect(try again.merge([transactions[1]], through: 5).isShown)
        #expect(try store.rows(of: replica.path) == ["t [id:1 n:2]", "u [id:1 n:2]"])
    }

    @Test("A batch that is cut short is shown where nothing was changed again behind the cut")
    func cutShort() throws {
        let store = try GatekeeperStore()
        let replica = OpenReplica(store)
        try replica.prepare()
        try store.write(
            "A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)", "UPDATE t SET n = 9 WHERE id = 2"
        )
        let batch = try HistoryReader(path: store.path).batch(after: 0)
        try replica.stage(batch.transactions, through: 3)
        #expect(try replica.merge(Array(batch.transactions[..<1]), through: 1).isShown)
        #expect(try store.rows(of: replica.path) == ["t [id:1 n:1]"])
        #expect(try !replica.merge(Array(batch.transactions[1..<2]), through: 2).isShown)
        #expect(try store.rows(of: replica.path) == ["t [id:1 n:1]"])
        #expect(try replica.merge(Array(batch.transactions[2...]), through: 3).isShown)
        #expect(try store.rows(of: replica.path) == store.rows())
    }

    /// A replica without a consumer.
    private struct OpenReplica {
        let path: String
        private let replica: Replica
        private let snapshots: StoreSnapshots

        init(_ store: GatekeeperStore) {
            replica = Replica(store.replica(), storePath: store.path)
            path = replica.context.path
            snapshots = StoreSnapshots(store.path)
        }

        var taken: Int64 { replica.position.taken }
        @discardableResult func prepare() throws -> Bool { try replica.prepare() }
        func stage(_ transactions: [HistoryTransaction], through end: Int64) throws {
            try snapshots.read { try replica.stage(transactions, of: transactions, through: end, from: $0) }
        }
        func merge(_ transactions: [HistoryTransaction], through end: Int64) throws -> Replica.Merged {
            try replica.merge(transactions, through: end)
        }
    }

    @Test("Tables and indexes come and go with the store's, also where no row is changed")
    func followsSchema() async throws {
        let store = try GatekeeperStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); CREATE INDEX t_n ON t (n)")
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try await store.serve(served)
        func objects() throws -> [String] {
            try GatekeeperStore.read(store.folder.file("view.sqlite")) {
                try String.fetchAll(
                    $0,
                    sql:
                        "SELECT sql FROM sqlite_schema WHERE name NOT LIKE 'historyd%' AND sql IS NOT NULL ORDER BY name"
                )
            }
        }
        #expect(
            try objects() == [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", "CREATE INDEX t_n ON t (n)",
            ])
        try store.write(
            nil, "DROP INDEX t_n; CREATE INDEX t_id_n ON t (id, n); CREATE TABLE u (id INTEGER PRIMARY KEY)")
        try Tracking.track(store.path, ["t": nil, "u": nil])
        try await store.serve(served)
        #expect(
            try objects() == [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", "CREATE INDEX t_id_n ON t (id, n)",
                "CREATE TABLE u (id INTEGER PRIMARY KEY)",
            ])
        try store.write("A", "DROP TABLE u; ALTER TABLE t ADD COLUMN more TEXT; UPDATE t SET more = 'x'")
        try await store.serve(served)
        #expect(
            try objects() == [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, more TEXT)",
                "CREATE INDEX t_id_n ON t (id, n)",
            ])
        #expect(try store.rows(of: store.folder.file("view.sqlite"), ["t"]) == ["t [id:1 n:1 more:\"x\"]"])
    }

    @Test("An index that needs an application's function is left out, and all else goes on")
    func indexLeftOut() async throws {
        let store = try GatekeeperStore("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)")
        let queue = try DatabaseQueue(path: store.path)
        try await queue.write { db in
            db.add(function: DatabaseFunction("twice", argumentCount: 1, pure: true) { $0.first })
            try db.execute(sql: "CREATE INDEX t_twice ON t (twice(n))")
            try db.execute(sql: "INSERT INTO t VALUES (1, 1)")
        }
        try queue.close()
        let events = try await store.serve(store.served(["Mirror"], contexts: ["Mirror": [store.replica()]]))
        #expect(events.count("replicaIndexLeftOut") == 1)
        #expect(try store.rows(of: store.folder.file("view.sqlite"), ["t"]) == ["t [id:1 n:1]"])
    }

    @Test("A database of something else is not touched")
    func refusesOthers() async throws {
        let store = try GatekeeperStore()
        let other = store.folder.file("view.sqlite")
        let queue = try DatabaseQueue(path: other)
        try await queue.write { try $0.execute(sql: "CREATE TABLE t (dear); INSERT INTO t VALUES (1)") }
        try queue.close()
        #expect(throws: HistoryError.self) { try OpenReplica(store).prepare() }
        #expect(try store.rows(of: other, ["t"]) == ["t [dear:1]"])
        // Nor the store itself.
        let itself = ReplicaContext(name: "view", path: store.path, entities: nil)
        #expect(throws: HistoryError.self) {
            try Replica(itself, storePath: store.path).prepare()
        }
    }

    enum Harm: CaseIterable { case deleted, header, pages }

    @Test("Deleted or damaged, a replica is created again; the damaged file is kept", arguments: Harm.allCases)
    func heals(_ harm: Harm) async throws {
        let store = try GatekeeperStore()
        let path = store.folder.file("view.sqlite")
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        try store.write(
            "A",
            "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2000) INSERT INTO t SELECT i, i FROM c"
        )
        try await store.serve(served)
        switch harm {
        case .deleted: for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
        case .header, .pages:
            let file = try FileHandle(forUpdating: URL(filePath: path))
            let size = try file.seekToEnd()
            try file.seek(toOffset: harm == .header ? 0 : 4096)
            try file.write(contentsOf: Data(repeating: 0x5A, count: harm == .header ? 4096 : Int(size) - 4096))
            try file.close()
        }
        try store.write("A", "UPDATE t SET n = -n")
        let listener = Listener()
        let events = try await store.serve(served, [listener.observer()])
        #expect(try store.rows(of: path) == store.rows())
        #expect(listener.all().count == 1)
        #expect(events.count("replicaFilled") == 1)
        #expect(FileManager.default.fileExists(atPath: path + ".damaged") == (harm != .deleted))
    }

    @Test("A replica that is locked is left behind, its consumer and other replicas go on; then it catches up")
    func locked() async throws {
        let store = try GatekeeperStore()
        let served = store.served(
            ["Mirror", "Other"],
            contexts: [
                "Mirror": [store.replica("one"), store.replica("two")], "Other": [store.replica("three")],
            ])
        try await store.serve(served)
        let lock = try Self.unguarded(store.folder.file("one.sqlite"))
        try await lock.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let listener = Listener()
        let told = Locked(false)
        let events = EventLog { event in
            // When it has failed several times, the others have everything, and the lock goes.
            guard case .contextFailed(_, _, _, attempt: 3) = event,
                told.withLock({ isTold in
                    defer { isTold = true }; return !isTold
                })
            else { return }
            #expect(listener.all() == ["insert t 1"])
            #expect((try? store.rows(of: store.folder.file("two.sqlite"))) == ["t [id:1 n:1]"])
            try? lock.writeWithoutTransaction { try $0.execute(sql: "ROLLBACK") }
        }
        try await store.runner(served, [listener.observer(for: "Mirror")], events).runOnce()
        #expect(events.count("contextFailed") >= 3)
        #expect(events.count("contextRecovered") == 1)
        for name in ["one", "two", "three"] {
            #expect(try store.rows(of: store.folder.file("\(name).sqlite")) == store.rows())
        }
        #expect(try store.cursor("Mirror") == 1)
    }

    /// A connection whose transactions may outlast an access.
    private static func unguarded(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    @Test("A reader that stays for long holds up nothing, and goes on seeing its state")
    func longReader() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        try await store.serve(served)
        let path = store.folder.file("view.sqlite")
        let reader = try Self.unguarded(path)
        try reader.inDatabase { db in
            try db.execute(sql: "BEGIN")
            #expect(try Int.fetchOne(db, sql: "SELECT n FROM t") == 0)
        }
        for n in 1...20 {
            try store.write("A", "UPDATE t SET n = \(n)")
            try await store.serve(served)
        }
        #expect(try store.rows(of: path) == store.rows())
        try reader.inDatabase { db in
            #expect(try Int.fetchOne(db, sql: "SELECT n FROM t") == 0)
            try db.execute(sql: "COMMIT")
        }
        try reader.close()
    }
}
