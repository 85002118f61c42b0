import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What is delivered of a large transaction in parts is what the whole has.
@Suite(.timeLimit(.minutes(60))) struct LargeTransactionTests {
    // With the last of the fixed ones, merge hooks once had a call again that had grown.
    private static let seeds = [432_670] + [UInt64.random(in: 4...1_000_000)]

    private static func store() throws -> GatekeeperStore {
        let store = try GatekeeperStore(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE TABLE u (code TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID;
            CREATE TABLE w (a, b, n INTEGER, PRIMARY KEY (a, b))
            """)
        try Tracking.track(store.path, ["t": ["n"], "u": nil, "w": nil])
        return store
    }

    /// Transactions of some rows or many, several changes of one row in each among them.
    private static func write(to store: GatekeeperStore, _ authors: [String], _ seed: inout Seed) throws {
        for _ in 0..<Int.random(in: 5...12, using: &seed) {
            let script = (0..<Int.random(in: 1...20, using: &seed)).map { _ in statement(&seed) }
            try store.write(authors.randomElement(using: &seed), script.joined(separator: "; "))
        }
    }

    private static func statement(_ seed: inout Seed) -> String {
        let (table, key) = [("t", "id"), ("u", "code"), ("w", "a")].randomElement(using: &seed) ?? ("t", "id")
        let number = Int.random(in: 1...12, using: &seed)
        let value = table == "t" ? "\(number)" : "'c\(number)'"
        switch Int.random(in: 0..<4, using: &seed) {
        case 0: return "DELETE FROM \(table) WHERE \(key) >= \(value)"
        case 1: return "UPDATE \(table) SET n = n + 1 WHERE \(key) <= \(value)"
        default:
            let values = table == "w" ? "\(value), \(number % 3)" : value
            return "INSERT OR REPLACE INTO \(table) VALUES (\(values), \(Int.random(in: 0...99, using: &seed)))"
        }
    }

    /// All transactions, large ones outlined, as the pipeline fetches them.
    private static func outlined(_ reader: HistoryReader, _ seed: inout Seed) throws -> [HistoryTransaction] {
        var transactions: [HistoryTransaction] = []
        var batch = try reader.outlinedBatch(after: 0, changes: .random(in: 1...40, using: &seed))
        while true {
            transactions += batch.transactions
            let isAlone = batch.transactions.count == 1
            #expect(batch.transactions.allSatisfy { $0.outline == nil || isAlone && $0.changes.isEmpty })
            #expect(batch.transactions.allSatisfy { $0.changes.count <= reader.partSize })
            #expect(batch.end == batch.transactions.last?.number)
            #expect(batch.fingerprint != nil)
            #expect(try !reader.isReplaced(batch.fingerprint, at: batch.end))
            if batch.isLast { return transactions }
            batch = try reader.outlinedBatch(after: batch.end, changes: .random(in: 1...40, using: &seed))
        }
    }

    @Test("Parts are the whole, whatever is in it and wherever it is cut", arguments: seeds)
    func parts(_ number: UInt64) throws {
        var seed = Seed(number)
        let store = try Self.store()
        try Self.write(to: store, ["A", "B"], &seed)
        let expected = try HistoryReader(path: store.path).batch(after: 0, changes: .max).transactions
        let endpoints = [Listener(), Listener()]
        let hooks = [
            endpoints[0].observer("p/a"), endpoints[0].observer("p/b"), endpoints[1].observer("p/c"),
        ]
        var count = 0
        for partSize in [1, 2, 3, 7, Int.random(in: 4...40, using: &seed)] {
            let reader = try HistoryReader(path: store.path, partSize: partSize)
            let found = try Self.outlined(reader, &seed)
            #expect(found.map(\.token) == expected.map(\.token), "\(seed)")
            count += found.count { $0.outline != nil }
            for (found, whole) in zip(found, expected) {
                #expect((found.outline != nil) == (whole.changes.count > partSize), "\(seed)")
                #expect(try reader.whole(found) == whole, "\(seed)")
                func calls(_ transaction: HistoryTransaction) throws -> [ObserverCall] {
                    try DeliveryPlan(
                        [transaction], hooks: hooks, store: "s", consumer: "C", maximumObjects: partSize
                    ).runs.flatMap { run in
                        try run.unread.map { run.with(try reader.changes($0).changes, nil).calls } ?? run.calls
                    }
                }
                let (some, all) = (try calls(found), try calls(whole))
                #expect(some.map(\.header) == all.map(\.header), "\(seed)")
                #expect(some.map { Array($0.changes) } == all.map { Array($0.changes) }, "\(seed)")
                #expect(some.map(\.part) == all.map(\.part), "\(seed)")
                guard found.outline != nil else { continue }
                let entities: Set<BinaryText>? = [nil, ["t"], ["u", "w"]].randomElement(using: &seed) ?? nil
                #expect(
                    try Self.effects(found, entities, reader)
                        == ObjectIDNotification(whole, entities: entities).objects, "\(seed)")
            }
        }
        #expect(count > 0)
    }

    private static func effects(
        _ transaction: HistoryTransaction, _ entities: Set<BinaryText>?, _ reader: HistoryReader
    ) throws -> [ObjectIDNotification.Object] {
        let effects = try NetEffects(of: transaction, ChangeFilter(entities: entities), reading: reader)
        var objects: [ObjectIDNotification.Object] = []
        var position: Int64 = 0
        while objects.count < effects.count {
            let portion = try effects.portion(after: position)
            #expect(!portion.objects.isEmpty && portion.objects.count <= reader.partSize)
            objects += portion.objects
            position = portion.end
        }
        return objects
    }

    @Test(
        "Hooks, a replica and a feed have everything, although calls fail and the daemon ends in between",
        arguments: seeds)
    func delivery(_ number: UInt64) async throws {
        var seed = Seed(number)
        print("large transactions: \(seed)")
        let store = try Self.store()
        let feed = FeedContext(name: "live", entities: ["t", "u"])
        var served = store.served(
            ["Main"], contexts: ["Main": [store.replica()]], feeds: ["Main": [feed]],
            rule: DeliveryRule(authors: ["Main", "A"]))
        served.partSize = Int.random(in: 1...10, using: &seed)
        let received = Received(seed: seed.next())
        let hooks = [
            received.hook("p/a", .observer), received.hook("p/b", .observer), received.hook("p/m", .merge),
            received.hook("p/n", .merge, takesParts: false),
        ]
        let stream = PartialFeed(FeedID(consumer: "Main", context: "live"), seed: seed.next())
        for _ in 0..<4 {
            try Self.write(to: store, ["Main", "A", "A"], &seed)
            // It ends anywhere, perhaps between two parts, and what was under way is repeated.
            received.fail(after: Int.random(in: 0...20, using: &seed))
            try await store.serveUntilHeld(served, hooks)
            received.fail(after: nil)
            let events = try await store.serve(served, hooks)
            #expect(events.count("contextFailed") == 0, "\(seed)")
            let replica = served.consumers[0].contexts[0].path
            let tables = ["t", "u", "w"]
            #expect(try store.rows(of: replica, tables) == store.rows(of: nil, tables), "\(seed)")
            try await stream.read(served, store.folder.path)
        }
        let all = try HistoryReader(path: store.path).batch(after: 0, changes: .max).transactions
        let expected = all.filter { $0.author != "Main" }
        for hook in ["p/m", "p/n"] { #expect(received.merged(hook) == expected.map(Received.text), "\(seed)") }
        for hook in ["p/a", "p/b"] {
            #expect(received.observed(hook) == expected.flatMap(Received.groups), "\(seed)")
        }
        #expect(received.isConsistent, "a call that comes again is the same: \(seed)")
        for transaction in expected where feed.wants(transaction) {
            let objects = ObjectIDNotification(transaction, entities: feed.entities).objects
            #expect(stream.objects[transaction.number] == PartialFeed.text(objects), "\(seed)")
        }
        #expect(Set(stream.objects.keys) == Set(expected.filter { feed.wants($0) }.map(\.number)), "\(seed)")
    }

    @Test func aReplicaTakesInAllPartsOrNone() throws {
        let store = try Self.store()
        let replica = Replica(store.replica(), storePath: store.path)
        let snapshots = StoreSnapshots(store.path)
        try replica.prepare()
        let rows = (1...20).map { "(\($0), 0)" }.joined(separator: ", ")
        // Objects that several parts have.
        try store.write("A", "INSERT INTO t VALUES \(rows); UPDATE t SET n = 1; UPDATE t SET n = 2")
        let reader = try HistoryReader(path: store.path, partSize: 3)
        let batch = try reader.outlinedBatch(after: 0)
        try store.write(nil, "UPDATE historyd_change SET kind = kind + 3 WHERE id = 10")
        #expect(throws: HistoryError.self) {
            try replica.merge(batch.transactions, through: batch.end, reading: reader)
        }
        let pending = try GatekeeperStore.read(replica.context.path) {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM historyd_pending_run")
        }
        #expect(pending == 0)
        #expect(try !replica.prepare() && replica.position.taken == 0)
        try store.write(nil, "UPDATE historyd_change SET kind = kind - 3 WHERE id = 10")
        try replica.merge(batch.transactions, through: batch.end, reading: reader)
        #expect(try snapshots.read { try replica.refresh(from: $0).isShown })
        #expect(try store.rows(of: replica.context.path, ["t"]) == store.rows(of: nil, ["t"]))
    }

    @Test(arguments: [1, 2, 3, 4, 20]) func theLineOfATransactionInPartsIsThatOfTheWhole(partSize: Int) throws {
        let store = try Self.store()
        let rows = (1...20).map { "(\($0), 0)" }.joined(separator: ", ")
        try store.write("A", "INSERT INTO t VALUES \(rows)")
        let reader = try HistoryReader(path: store.path, partSize: partSize)
        let batch = try reader.outlinedBatch(after: 0)
        let transaction = try #require(batch.transactions.first)
        var bytes: [UInt8] = []
        func write(_ history: FollowedHistory) {
            var json = JSONBytes()
            history.write(to: &json)
            bytes += json.bytes.array
        }
        let parts = UnreadChanges.parts(of: transaction)
        if parts.isEmpty { write(.transactions([transaction])) }
        for (index, part) in parts.enumerated() {
            let changes = try reader.changes(part).changes
            write(.part(changes, of: transaction, isFirst: index == 0, isLast: index == parts.count - 1))
        }
        var whole = JSONBytes()
        HistoryJSON.write(try reader.whole(transaction), to: &whole)
        whole.endLine()
        #expect(bytes == whole.bytes.array)
    }

    @Test func aTransactionThatIsNoLongerThereIsNotTakenForAnother() throws {
        let store = try Self.store()
        try store.write("A", "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0)")
        let reader = try HistoryReader(path: store.path, partSize: 2)
        let transaction = try #require(try reader.outlinedBatch(after: 0).transactions.first)
        let parts = UnreadChanges.parts(of: transaction)
        #expect(try reader.changes(parts[1]).changes.count == 2)
        try store.write(nil, "UPDATE historyd_change SET origin = origin || 'B'")
        #expect { try reader.changes(parts[1]) } throws: { ($0 as? HistoryError)?.code == .tokenAhead }
        try store.write(
            nil, "UPDATE historyd_change SET origin = substr(origin, 1, length(origin) - 1)",
            "UPDATE historyd_store SET value = 3 WHERE key = 'floor'; DELETE FROM historyd_change WHERE id < 4")
        #expect { try reader.changes(parts[0]) } throws: { ($0 as? HistoryError)?.code == .tokenExpired }
    }
}
