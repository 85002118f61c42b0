import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Which way rows come to a replica does not matter: read with their batch and put in later, or brought
/// when it is level; by runs of integers or by their keys' text.
@Suite(.timeLimit(.minutes(60))) struct ReplicaRowsTests {
    // MARK: Keys

    @Test("Runs are the changed integers, and tell what two have in common", arguments: seeds)
    func runs(_ number: UInt64) {
        var seed = Seed(number)
        let around: [Int64] = [.min, -3, 0, 40, .max]
        func some() -> Set<Int64> {
            Set(
                (0..<Int.random(in: 0...30, using: &seed)).map { _ in
                    let (sum, isOver) = around[Int.random(in: 0..<around.count, using: &seed)]
                        .addingReportingOverflow(.random(in: -9...9, using: &seed))
                    return isOver ? 0 : sum
                })
        }
        let (integers, others) = (some(), some())
        func changed(_ integers: Set<Int64>, _ text: String) -> ChangedObjects {
            let transaction = Self.transaction(integers, text, &seed)
            #expect(ChangedObjects([transaction], after: 7, of: nil).isEmpty)
            #expect(ChangedObjects([transaction], after: 6, of: ["u"]).isEmpty)
            return ChangedObjects([transaction], after: 6, of: nil)
        }
        let (one, other) = (changed(integers, "a"), changed(others, "b"))
        let runs = one.entities["t"]?.runs ?? []
        #expect(one.entities["t"]?.texts == ["ta"])
        #expect(integers.allSatisfy { integer in runs.contains { $0.contains(integer) } }, "\(seed)")
        #expect(runs.reduce(0) { $0 + $1.count } == integers.count, "\(seed)")
        #expect(zip(runs, runs.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound - 1 }, "\(seed)")
        #expect(one.isDisjoint(with: other) == integers.isDisjoint(with: others), "\(seed)")
        #expect(!one.isDisjoint(with: changed([], "a")), "\(seed)")
    }

    /// Of changes of these objects, some more than once.
    private static func transaction(_ integers: Set<Int64>, _ text: String, _ seed: inout Seed)
        -> HistoryTransaction
    {
        let entity = Entity(shape: 1, name: "t", columns: [], key: .column("id"), preserved: [])
        let keys = (integers.map { HistoryValue.integer($0) } + [.text(text)]).shuffled(using: &seed)
        let changes = (keys + keys.prefix(5)).map { (value: HistoryValue) in
            HistoryChange(
                entity: entity, operation: .update, objectID: ObjectID(columns: ["id"], values: [value]))
        }
        return HistoryTransaction(
            token: HistoryToken(store: StoreID.sample(), number: 7), author: nil, context: nil, processID: nil,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: changes)
    }

    @Test(
        "What is wanted is each pending and each changed object once, in as few runs as can be",
        arguments: seeds)
    func gathered(_ number: UInt64) throws {
        var seed = Seed(number)
        try DatabaseQueue().write { db in
            try PendingObjects.make(db)
            try WantedObjects.make(db)
            var integers: Set<Int64> = []
            var texts: Set<String> = []
            func some() -> ChangedObjects {
                let from = Int64.random(in: -50...50, using: &seed)
                let more = Set((0..<20).map { _ in from + .random(in: 0...30, using: &seed) })
                let text = "\(from)"
                integers.formUnion(more)
                texts.insert("t\(from)")
                return ChangedObjects([Self.transaction(more, text, &seed)], after: 0, of: nil)
            }
            let batches = Int64.random(in: 1...6, using: &seed)
            for place in 0..<batches { try PendingObjects.add(some(), at: place, db) }
            #expect(try !PendingObjects.isEmpty(db))
            #expect(try WantedObjects.gather(some(), hasPending: true, db) == ["t"])
            let runs = try Row.fetchAll(db, sql: "SELECT first, last FROM \(WantedObjects.runs) ORDER BY first")
                .map { ($0[0] as Int64)...($0[1] as Int64) }
            #expect(runs.flatMap { Array($0) } == integers.sorted(), "\(seed)")
            #expect(zip(runs, runs.dropFirst()).allSatisfy { $0.upperBound < $1.lowerBound - 1 }, "\(seed)")
            let found = try String.fetchAll(db, sql: "SELECT object FROM \(WantedObjects.objects)")
            #expect(Set(found) == texts, "\(seed)")
            #expect(found.count == texts.count, "\(seed)")
            #expect(try WantedObjects.count(of: "t", db) == integers.count + texts.count)
            try PendingObjects.clear(db)
            #expect(try PendingObjects.isEmpty(db))
        }
    }

    @Test("A transaction of more rows than a batch shows when the hooks have been told of it")
    func large() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        try store.write("A", "INSERT INTO t VALUES (7000, 1)")
        try await store.serve(served)
        for change in [
            "INSERT INTO t SELECT i, 0 FROM c", "UPDATE t SET n = id", "DELETE FROM t WHERE id % 7 > 2",
        ] {
            try store.write(
                "A",
                "CREATE TEMP TABLE c AS WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 6000) SELECT i FROM c; \(change)"
            )
            let listener = Listener()
            try await store.serve(served, [listener.observer()])
            #expect(listener.all().count == 1)
            #expect(try store.rows(of: store.replica().path) == store.rows())
        }
    }

    // MARK: Ways

    private static let seeds = (0..<4).map { _ in UInt64.random(in: 0...UInt64.max) }

    /// With keys of every kind, where nothing else is unique.
    private static let plain = [
        "rowids": "CREATE TABLE rowids (a, b)",
        "integers": "CREATE TABLE integers (a, id INTEGER PRIMARY KEY, b)",
        "anything": "CREATE TABLE anything (id, a, b, PRIMARY KEY (id)) WITHOUT ROWID",
        "flat": "CREATE TABLE flat (id, a, b, PRIMARY KEY (a, id)) WITHOUT ROWID",
    ]
    /// With something else that is unique, if only the rowid; or with keys that are equal, but not the same.
    private static let unique = [
        "uniques": "CREATE TABLE uniques (id INTEGER PRIMARY KEY, a UNIQUE, b)",
        "numbers": "CREATE TABLE numbers (id INT PRIMARY KEY NOT NULL, a, b)",
        "words": "CREATE TABLE words (id TEXT PRIMARY KEY, a, b)",
        "pairs": "CREATE TABLE pairs (id, a, b, PRIMARY KEY (id, a))",
        "cases": "CREATE TABLE cases (id COLLATE NOCASE PRIMARY KEY, a, b) WITHOUT ROWID",
        "made": """
        CREATE TABLE made (id INTEGER PRIMARY KEY, a, b, c AS (a || 1), d AS (a || 2) STORED);
        CREATE UNIQUE INDEX made_c ON made (c) WHERE a > 1
        """,
    ]

    private static let values = [
        "1", "2", "3", "4", "5", "1.5", "2.5", "'a'", "'A'", "x'00ff'", "'2'", "''", "NULL", "1e300",
    ]

    /// Statements in one transaction; some fail, and that does not matter.
    private static func write(
        _ queue: DatabaseQueue, _ tables: [String], also others: [String] = [], _ seed: inout Seed
    ) throws {
        let values = Self.values + others
        try queue.write { db in
            for _ in 0..<Int.random(in: 1...5, using: &seed) {
                func value() -> String { values[Int.random(in: 0..<values.count, using: &seed)] }
                let table = tables[Int.random(in: 0..<tables.count, using: &seed)]
                let id = table == "rowids" ? "rowid" : "id"
                let sql =
                    switch Int.random(in: 0..<7, using: &seed) {
                    case 0, 1, 2:
                        "INSERT OR REPLACE INTO \(table) (\(id), a, b) VALUES (\(value()), \(value()), \(value()))"
                    case 3: "UPDATE OR REPLACE \(table) SET b = \(value()) WHERE \(id) >= \(value())"
                    case 4: "UPDATE OR REPLACE \(table) SET a = \(value()) WHERE \(id) = \(value())"
                    case 5: "UPDATE OR REPLACE \(table) SET \(id) = \(value()) WHERE \(id) = \(value())"
                    default: "DELETE FROM \(table) WHERE \(id) IN (\(value()), \(value()))"
                    }
                do { try db.execute(sql: sql) } catch let error as DatabaseError {
                    let isMismatch = error.resultCode == .SQLITE_MISMATCH
                    if !isMismatch, error.resultCode != .SQLITE_CONSTRAINT { throw error }
                }
            }
        }
    }

    /// All rows, exactly.
    private static func rows(_ path: String, _ tables: [String]) throws -> [String] {
        try GatekeeperStore.read(path) { db in
            try tables.flatMap { table in
                try String.fetchAll(
                    db,
                    sql: """
                        SELECT '\(table) ' || \(table == "rowids" ? "rowid" : "''") || ' '
                        || quote(a) || quote(b) || \(table == "rowids" ? "''" : "quote(id)") AS row
                        FROM \(table) ORDER BY row
                        """)
            }
        }
    }

    @Test("Whichever way they come, the replica's rows are the store's", arguments: seeds)
    func anyWay(_ number: UInt64) throws {
        var seed = Seed(number)
        let encoding = ["UTF-8", "UTF-16le"][Int.random(in: 0...1, using: &seed)]
        let kinds = Self.plain.merging(Self.unique) { one, _ in one }
        let tables = kinds.keys.sorted()
        let store = try GatekeeperStore(
            kinds.values.joined(separator: "; "), pragmas: "PRAGMA encoding = '\(encoding)'")
        let replica = Replica(store.replica(), storePath: store.path)
        let snapshots = StoreSnapshots(store.path)
        let reader = try HistoryReader(path: store.path)
        let writer = try store.writer("A")
        try replica.prepare()
        var taken = replica.position.taken
        for step in 0..<40 {
            for _ in 0..<Int.random(in: 1...4, using: &seed) {
                // One key may be equal to another that is not the same.
                try Self.write(writer, tables, also: ["2.0"], &seed)
            }
            // Short batches: it falls behind.
            let batch = try reader.batch(after: taken, changes: .random(in: 1...20, using: &seed))
            if batch.isLast, Bool.random(using: &seed) {
                try snapshots.read {
                    try replica.stage(batch.transactions, of: batch.transactions, through: batch.end, from: $0)
                }
            }
            let merged = try replica.merge(batch.transactions, through: batch.end)
            taken = batch.end
            var isShown = merged.isShown
            if batch.isLast, !isShown, Bool.random(using: &seed) {
                isShown = try snapshots.read { try replica.refresh(from: $0).isShown }
            }
            #expect(replica.isLevel == isShown, "\(seed)")
            guard batch.isLast, isShown else { continue }
            try #require(
                try Self.rows(replica.context.path, tables) == Self.rows(store.path, tables), "\(seed) \(step)")
        }
    }

    @Test("What hooks reject does not come, whichever way the rest does", arguments: seeds)
    func rejected(_ number: UInt64) throws {
        var seed = Seed(number)
        let tables = Self.plain.keys.sorted()
        let store = try GatekeeperStore(Self.plain.values.joined(separator: "; "))
        let replica = Replica(store.replica(), storePath: store.path)
        let snapshots = StoreSnapshots(store.path)
        let reader = try HistoryReader(path: store.path)
        let writer = try store.writer("A")
        try replica.prepare()
        var taken = replica.position.taken
        var expected: [Object: String] = [:]
        var pending: Set<Object> = []
        for step in 0..<40 {
            for _ in 0..<Int.random(in: 1...4, using: &seed) { try Self.write(writer, tables, &seed) }
            let batch = try reader.batch(after: taken)
            let read = try Self.objects(store.path, tables)
            let isStaged = Bool.random(using: &seed)
            if isStaged {
                try snapshots.read {
                    try replica.stage(batch.transactions, of: batch.transactions, through: batch.end, from: $0)
                }
                // What comes now is of another batch.
                try Self.write(writer, tables, &seed)
            }
            let kept = batch.transactions.filter { _ in Int.random(in: 0..<3, using: &seed) > 0 }
            let isShown = try replica.merge(kept, through: batch.end).isShown
            for change in kept.flatMap(\.changes) { pending.insert(Object(change)) }
            if isShown {
                for object in pending { expected[object] = read[object] }
                pending = []
            }
            taken = batch.end
            if !isStaged, Bool.random(using: &seed) {
                #expect(try snapshots.read { try replica.refresh(from: $0).isShown })
                for object in pending { expected[object] = read[object] }
                pending = []
            }
            let found = try Self.objects(replica.context.path, tables)
            let differing = Set(found.keys).union(expected.keys).filter { found[$0] != expected[$0] }
                .map { "\($0): \(found[$0] ?? "-"), expected \(expected[$0] ?? "-")" }
            try #require(differing == [], "\(seed) \(step)")
        }
    }

    private struct Object: Hashable {
        let table: String
        let key: [HistoryValue]

        init(_ table: String, _ key: [HistoryValue]) { (self.table, self.key) = (table, key) }
        init(_ change: HistoryChange) { self.init(change.entity.name, change.objectID.values) }
    }

    /// Rows by their keys.
    private static func objects(_ path: String, _ tables: [String]) throws -> [Object: String] {
        let keys = ["rowids": "rowid", "flat": "a, id"]
        return try GatekeeperStore.read(path) { db in
            var objects: [Object: String] = [:]
            for table in tables {
                let sql = "SELECT quote(a) || ' ' || quote(b), \(keys[table] ?? "id") FROM \(table)"
                for row in try Row.fetchAll(db, sql: sql) {
                    let values = Array(row.databaseValues).dropFirst().map {
                        (value: DatabaseValue) -> HistoryValue in
                        switch value.storage {
                        case .null: .null
                        case .int64(let integer): .integer(integer)
                        case .double(let real): .real(real)
                        case .string(let text): .text(text)
                        case .blob(let data): .blob(Array(data))
                        }
                    }
                    objects[Object(table, values)] = row[0]
                }
            }
            return objects
        }
    }

    // MARK: Trouble

    @Test(
        "What fails in the store while rows are brought is the store's trouble, and leaves the replica as it was"
    )
    func damagedStore() throws {
        let store = try GatekeeperStore(pragmas: "PRAGMA journal_mode = DELETE")
        let replica = Replica(store.replica(), storePath: store.path)
        try replica.prepare()
        try store.write(
            "A",
            "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 2000) INSERT INTO t SELECT i, i FROM c",
            "INSERT INTO u VALUES (1, 1)")
        let batch = try HistoryReader(path: store.path).batch(after: 0)
        #expect(try !replica.merge(batch.transactions, through: batch.end).isShown)
        let (page, size) = try GatekeeperStore.read(store.path) { db in
            (
                try UInt64.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 't'") ?? 0,
                try UInt64.fetchOne(db, sql: "PRAGMA page_size") ?? 0
            )
        }
        let file = try FileHandle(forUpdating: URL(filePath: store.path))
        try file.seek(toOffset: (page - 1) * size)
        try file.write(contentsOf: Data(repeating: 0x5A, count: Int(size)))
        try file.close()
        let error = #expect(throws: HistoryError.self) {
            try StoreSnapshots(store.path).read { try replica.refresh(from: $0) }
        }
        #expect(error?.code == .storeCorrupt)
        #expect(try store.rows(of: replica.context.path) == [])
        #expect(!replica.isLevel)
    }

    // MARK: Busy writers

    /// Writes once more with each call, some times.
    private final class Writing: HookEndpoint {
        private let store: GatekeeperStore
        private let replica: String
        private let calls = Locked(0)
        /// The place that the replica showed at each call.
        let shown = Locked<[Int64]>([])

        init(_ store: GatekeeperStore, _ replica: String) { (self.store, self.replica) = (store, replica) }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            do {
                let number = try GatekeeperStore.read(replica) {
                    try Int64.fetchOne($0, sql: "SELECT number FROM historyd_replica") ?? 0
                }
                shown.withLock { $0.append(number) }
                let count = self.calls.withLock { count in
                    count += 1
                    return count
                }
                if count < 20 { try store.write("A", "UPDATE t SET n = n + 1 WHERE id = \(count)") }
            } catch {
                Issue.record(error)
            }
            return ObserverOutcome(succeeded: calls.count)
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
        func expired(_ call: ExpiredCall) async throws(HookFailure) {}
    }

    @Test("Where writers are never still, a replica that was behind goes on all the same")
    func neverStill() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        try await store.serve(served)
        // More than a batch.
        for from in stride(from: 1, to: 6000, by: 500) {
            try store.write(
                "A",
                """
                WITH RECURSIVE c (i) AS (SELECT \(from) UNION ALL SELECT i + 1 FROM c WHERE i < \(from + 499))
                INSERT INTO t SELECT i, 0 FROM c
                """)
        }
        let writing = Writing(store, store.replica().path)
        let hook = Hook(
            id: UUID(), name: "p/o", kind: .observer, endpoint: writing,
            policy: FailurePolicy(
                attempts: 1, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                afterLastAttempt: .hold))
        let stop = OneShotEvent()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask {
                let observer = try StoreObserver()
                try await withThrowingTaskGroup(of: Void.self) { inner in
                    inner.addTask { try await observer.run() }
                    try await store.runner(served, [hook], EventLog(), stop: stop)
                        .run(watching: observer.watch(store.path))
                    observer.stop()
                    try await inner.waitForAll()
                }
            }
            group.addTask {
                defer { stop.signal() }
                try await onThread {
                    while true {
                        let isDone = writing.shown.withLock { $0.count } >= 20
                        if isDone, try store.rows(of: store.replica().path) == store.rows() { return }
                        usleep(1000)
                    }
                }
            }
            try await group.waitForAll()
        }
        let shown = writing.shown.withLock { $0 }
        #expect(Set(shown).count > 2, "\(shown)")
    }
}
