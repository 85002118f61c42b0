import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What is delivered of a large transaction in parts is what the whole has.
@Suite(.timeLimit(.minutes(10))) struct LargeTransactionTests {
    private static let seeds = [1, 2, 3] + [UInt64.random(in: 4...1_000_000)]

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
                        try run.unread.map { run.with(try reader.changes($0)).calls } ?? run.calls
                    }
                }
                let (some, all) = (try calls(found), try calls(whole))
                #expect(some.map(\.header) == all.map(\.header), "\(seed)")
                #expect(some.map { Array($0.changes) } == all.map { Array($0.changes) }, "\(seed)")
                #expect(some.map(\.part) == all.map(\.part), "\(seed)")
                guard found.outline != nil else { continue }
                let entities: Set<String>? = [nil, ["t"], ["u", "w"]].randomElement(using: &seed) ?? nil
                #expect(
                    try Self.effects(found, entities, reader)
                        == ObjectIDNotification(whole, entities: entities).objects, "\(seed)")
            }
        }
        #expect(count > 0)
    }

    private static func effects(
        _ transaction: HistoryTransaction, _ entities: Set<String>?, _ reader: HistoryReader
    ) throws -> [ObjectIDNotification.Object] {
        let effects = try NetEffects(of: transaction, entities: entities, reading: reader)
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
            try await store.serve(served, hooks)
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
        #expect(Set(stream.objects.keys) == Set(expected.filter(feed.wants).map(\.number)), "\(seed)")
    }

    @Test func aReplicaTakesInAllPartsOrNone() throws {
        let store = try Self.store()
        let replica = Replica(store.replica(), storePath: store.path)
        let snapshots = StoreSnapshots(store.path)
        _ = try replica.prepare(snapshots)
        let rows = (1...20).map { "(\($0), 0)" }.joined(separator: ", ")
        try store.write("A", "INSERT INTO t VALUES \(rows)")
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
        #expect(try replica.prepare(snapshots).number == 0)
        try store.write(nil, "UPDATE historyd_change SET kind = kind - 3 WHERE id = 10")
        try replica.merge(batch.transactions, through: batch.end, reading: reader)
        #expect(try snapshots.read { try replica.level(from: $0).isShown })
        #expect(try store.rows(of: replica.context.path, ["t"]) == store.rows(of: nil, ["t"]))
    }

    @Test func aTransactionThatIsNoLongerThereIsNotTakenForAnother() throws {
        let store = try Self.store()
        try store.write("A", "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0)")
        let reader = try HistoryReader(path: store.path, partSize: 2)
        let transaction = try #require(try reader.outlinedBatch(after: 0).transactions.first)
        let parts = UnreadChanges.parts(of: transaction)
        #expect(try reader.changes(parts[1]).count == 2)
        try store.write(nil, "UPDATE historyd_change SET origin = origin || 'B'")
        #expect { try reader.changes(parts[1]) } throws: { ($0 as? HistoryError)?.code == .tokenAhead }
        try store.write(
            nil, "UPDATE historyd_change SET origin = substr(origin, 1, length(origin) - 1)",
            "UPDATE historyd_store SET value = 3 WHERE key = 'floor'; DELETE FROM historyd_change WHERE id < 4")
        #expect { try reader.changes(parts[0]) } throws: { ($0 as? HistoryError)?.code == .tokenExpired }
    }
}

/// What hooks have received, part by part; some calls fail.
private final class Received: Sendable {
    private struct State {
        var seed: Seed
        var left: Int?
        var calls: [(hook: String, delivery: String, text: String, isMerge: Bool)] = []
    }

    private let state: Locked<State>

    init(seed: UInt64) { state = Locked(State(seed: Seed(seed))) }

    /// After so many calls none succeeds; nil for never.
    func fail(after calls: Int?) { state.withLock { $0.left = calls } }

    func hook(_ name: String, _ kind: Hook.Kind, takesParts: Bool = true) -> Hook {
        // It is held only where it fails for good.
        Hook(
            id: UUID(), name: name, kind: kind, endpoint: Endpoint(self, takesParts),
            policy: FailurePolicy(
                attempts: 30, initialDelay: .microseconds(1), maximumDelay: .microseconds(1)))
    }

    fileprivate func take(_ hook: String, _ delivery: String, _ text: String, isMerge: Bool)
        throws(HookFailure)
    {
        let succeeds = state.withLock { state in
            if let left = state.left { state.left = max(0, left - 1) }
            if state.left == 0 || Int.random(in: 0..<4, using: &state.seed) == 0 { return false }
            state.calls.append((hook, delivery, text, isMerge))
            return true
        }
        if !succeeds { throw HookFailure(.refused, "not now") }
    }

    /// Each delivery once.
    private func texts(_ hook: String) -> [(delivery: String, text: String)] {
        var seen: Set<String> = []
        return state.withLock { state in
            state.calls.filter { $0.hook == hook && seen.insert($0.delivery).inserted }
                .map { ($0.delivery, $0.text) }
        }
    }

    var isConsistent: Bool {
        state.withLock { state in
            Dictionary(grouping: state.calls, by: \.delivery).values.allSatisfy {
                Set($0.map(\.text)).count == 1
            }
        }
    }

    /// Each group as one text, its parts joined.
    func observed(_ hook: String) -> [String] {
        var groups: [String] = []
        var last = ""
        for (delivery, text) in texts(hook) {
            let group = String(delivery.split(separator: ".")[0])
            if group == last { groups[groups.count - 1] += " " + text } else { groups.append(text) }
            last = group
        }
        return groups
    }

    /// Each transaction as one text.
    func merged(_ hook: String) -> [String] {
        var transactions: [String] = []
        var last: Substring = ""
        for (_, text) in texts(hook) {
            for line in text.split(separator: "\n") {
                let token = line.prefix { $0 != " " }
                if token == last {
                    transactions[transactions.count - 1] += line.dropFirst(token.count)
                } else {
                    transactions.append(String(line))
                }
                last = token
            }
        }
        return transactions
    }

    static func text(_ changes: some Sequence<HistoryChange>) -> String {
        changes.map { "\($0.operation)\($0.entity.name)\($0.objectID.keyText)" }.joined(separator: " ")
    }

    static func text(_ transaction: HistoryTransaction) -> String {
        "\(transaction.number) \(text(transaction.changes))"
    }

    static func groups(_ transaction: HistoryTransaction) -> [String] {
        var kinds: [String] = []
        var groups: [String: [HistoryChange]] = [:]
        for change in transaction.changes {
            let kind = "\(change.operation)\(change.entity.name)"
            if groups[kind] == nil { kinds.append(kind) }
            groups[kind, default: []].append(change)
        }
        return kinds.map { text(groups[$0] ?? []) }
    }

    private final class Endpoint: HookEndpoint {
        private let received: Received
        let takesParts: Bool

        init(_ received: Received, _ takesParts: Bool) {
            self.received = received
            self.takesParts = takesParts
        }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            for (index, call) in calls.enumerated() {
                do throws(HookFailure) {
                    try received.take(
                        call.header.hook, call.header.delivery, Received.text(call.changes), isMerge: false)
                } catch {
                    return ObserverOutcome(succeeded: index, failure: error)
                }
            }
            return ObserverOutcome(succeeded: calls.count)
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
            #expect(takesParts || call.part == nil)
            let text = call.transactions.map { Received.text($0) }.joined(separator: "\n")
            try received.take(call.header.hook, call.header.delivery, text, isMerge: true)
            return .goOn
        }
    }
}

/// A program at a feed that goes away now and then, also between two parts.
private final class PartialFeed {
    private struct Line: Decodable {
        struct Object: Decodable { let objectIDURL: String }
        struct Part: Decodable {
            let index: Int
            let last: Bool
        }

        let token: String?
        let insertedObjectIDs, updatedObjectIDs, deletedObjectIDs: [Object]?
        let part: Part?
    }

    private let feed: FeedID
    private var seed: Seed
    /// By transaction: the objects, effect by effect.
    private(set) var objects: [Int64: [[String]]] = [:]

    init(_ feed: FeedID, seed: UInt64) {
        self.feed = feed
        self.seed = Seed(seed)
    }

    func read(_ store: ServedStore, _ folder: String) async throws {
        let reader = try HistoryReader(path: store.path, partSize: store.partSize)
        let state = try StateDatabase(folder: folder, store: reader.storeID, clock: store.clock)
        defer {
            try? reader.close()
            try? state.close()
        }
        let keeper = FeedKeeper(store: store, reader: reader, state: state, reporter: SilentReporter())
        let fetcher = try SharedFetcher(reader)
        while try await connect(keeper, fetcher, reader.storeID) {}
    }

    /// - Returns: Whether it went away before the end.
    private func connect(_ keeper: FeedKeeper, _ fetcher: SharedFetcher, _ store: StoreID) async throws
        -> Bool
    {
        var stream = FeedStream(feed)
        var current: [[String]] = [[], [], []]
        var next = 0
        while true {
            switch try await stream.step(keeper, fetcher) {
            case .again: continue
            case .rest: return false
            case .lines(let bytes):
                for line in bytes.split(separator: UInt8(ascii: "\n")) {
                    let line = try JSONDecoder().decode(Line.self, from: Data(line))
                    guard let number = line.token.flatMap({ HistoryToken($0)?.number }) else { continue }
                    #expect(line.part?.index ?? 0 == next)
                    next += 1
                    let lists = [line.insertedObjectIDs, line.updatedObjectIDs, line.deletedObjectIDs]
                    for (place, list) in lists.enumerated() {
                        current[place] += (list ?? []).map {
                            String($0.objectIDURL.split(separator: "/", maxSplits: 2)[2])
                        }
                    }
                    if line.part?.last ?? true {
                        #expect(stream.sent?.number ?? 0 >= number)
                        objects[number] = current
                        (current, next) = ([[], [], []], 0)
                        _ = try keeper.acknowledge(HistoryToken(store: store, number: number), of: feed)
                    } else {
                        #expect(stream.sent?.number ?? 0 < number, "parts cannot be acknowledged")
                    }
                }
                if Int.random(in: 0..<6, using: &seed) == 0 { return true }
            }
        }
    }

    static func text(_ objects: [ObjectIDNotification.Object]) -> [[String]] {
        ObjectIDNotification.Effect.allCases.map { effect in
            objects.filter { $0.effect == effect }.map { "\($0.entity.name)/\(urlKey($0))" }
        }
    }

    private static func urlKey(_ object: ObjectIDNotification.Object) -> String {
        var text = ByteBuffer()
        ObjectURL.append(object.objectID, of: object.entity, to: &text)
        return text.text
    }
}
