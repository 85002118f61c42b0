import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// One consumer on a real store, with hooks that are closures.
@Suite struct ConsumerTests {
    @Test func aFailingHookMovesNothingAndIsTriedAgainWithoutANewCommit() async throws {
        let fixture = try Fixture()
        try fixture.write(
            "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')")
        let flaky = Recorder { call, attempt in
            call.changes.first?.objectID.values == [.integer(2)] && attempt < 3 ? "not yet" : nil
        }
        let steady = Recorder()
        let events = try await fixture.runOnce([
            fixture.observer("p/flaky", flaky, attempts: 10), fixture.observer("p/steady", steady),
        ])
        #expect(flaky.calls() == ["1", "2", "2", "2", "3"])
        // What has had a transaction is not told of it again when another hook is retried.
        #expect(steady.calls() == ["1", "2", "3"])
        #expect(events.all().filter { $0.hasPrefix("hookFailed") }.count == 2)
        #expect(events.all().contains { $0.hasPrefix("hookRecovered") })
        #expect(try fixture.cursor() == 3)
    }

    @Test func aHookThatIsGivenUpLeavesADeadLetter() async throws {
        let fixture = try Fixture()
        try fixture.write("INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')")
        let broken = Recorder { call, _ in call.changes.first?.objectID.values == [.integer(1)] ? "never" : nil
        }
        _ = try await fixture.runOnce([fixture.observer("p/broken", broken, attempts: 2, then: .skip)])
        #expect(broken.calls() == ["1", "1", "2"])
        let letters = try fixture.state().deadLetters.all().map(\.letter)
        #expect(letters.map(\.reason) == ["never"])
        #expect(letters.map(\.attempts) == [2])
        #expect(letters.map(\.hook) == ["p/broken"])
        #expect(letters[0].call.contains("\"objectID\":{\"id\":1}"))
        #expect(try fixture.cursor() == 2)
    }

    @Test func aCallThatIsMadeAgainAfterARestartHasNotGrown() async throws {
        let fixture = try Fixture()
        try fixture.write("INSERT INTO t VALUES (1, 'a')")
        let stop = OneShotEvent()
        let stopped = Recorder { _, _ in
            stop.signal()
            return "stopped"
        }
        _ = try await fixture.runOnce([fixture.observer("p/same", stopped)], until: stop)
        #expect(stopped.calls() == ["1"])
        // The same millisecond: with what was there before, it would be one transaction.
        try await DatabaseQueue(path: fixture.path).writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    INSERT INTO t VALUES (2, 'b');
                    UPDATE historyd_change SET origin = (SELECT origin FROM historyd_change WHERE id = 1) WHERE id = 2
                    """)
        }
        let after = Recorder()
        _ = try await fixture.runOnce([fixture.observer("p/same", after)])
        #expect(after.calls() == ["1", "2"])
    }

    @Test func aCallThatIsGivenUpAgainIsOneDeadLetter() throws {
        let fixture = try Fixture()
        let deadLetters = try fixture.state().deadLetters
        for (reason, attempts) in [("no", 3), ("still no", 2)] {
            try deadLetters.keep(
                DeadLetter(
                    consumer: "Main", hook: "p/h", delivery: "d", reason: reason, attempts: attempts,
                    call: "{}",
                    keptAt: HistoryTimestamp(milliseconds: 1)))
        }
        let kept = try deadLetters.all().map(\.letter)
        #expect(kept.map(\.reason) == ["still no"])
        #expect(kept.map(\.attempts) == [5])
    }

    /// Also where the position behind it was not saved; else an operator's retry would make it once more.
    @Test func aCallThatWasGivenUpStaysSo() async throws {
        let fixture = try Fixture()
        try fixture.write("INSERT INTO t VALUES (1, 'a')")
        let stop = OneShotEvent()
        let isMended = Locked(false)
        let recorder = Recorder { _, _ in isMended.withLock(\.self) ? nil : "never" }
        // The run is interrupted between what was given up and the end of the batch.
        let stopping = Recorder { _, _ in
            stop.signal()
            return "stopped"
        }
        let first = fixture.observer("p/a", recorder, attempts: 1, then: .skip)
        _ = try await fixture.runOnce([first, fixture.observer("p/b", stopping)], until: stop)
        #expect(try fixture.state().deadLetters.all().map(\.letter.hook) == ["p/a"])
        #expect(try fixture.cursor() == 0)
        isMended.withLock { $0 = true }
        _ = try await fixture.runOnce([first])
        #expect(recorder.calls() == ["1"])
        #expect(try fixture.state().deadLetters.all().count == 1)
        #expect(try fixture.cursor() == 1)
    }

    @Test func finishSkipsTheDefaultMergeAndMovesTheCursor() async throws {
        let fixture = try Fixture(replica: true)
        try fixture.write("INSERT INTO t VALUES (1, 'a')")
        _ = try await fixture.runOnce([])
        #expect(try fixture.replicaRows() == ["1 a"])
        try fixture.write("INSERT INTO t VALUES (2, 'b')")
        let finisher = Merger { _ in MergeResult(.finish) }
        let later = Merger { _ in MergeResult(.goOn) }
        _ = try await fixture.runOnce([
            fixture.merger("p/finisher", finisher), fixture.merger("p/later", later),
        ])
        #expect(finisher.batches() == [["2"]])
        #expect(later.batches() == [])
        #expect(try fixture.replicaRows() == ["1 a"])
        #expect(try fixture.cursor() == 2)
        _ = try await fixture.runOnce([])
        #expect(try fixture.replicaRows() == ["1 a"])
    }

    @Test func rejectedTransactionsAreNotMerged() async throws {
        let fixture = try Fixture(replica: true)
        _ = try await fixture.runOnce([])
        try fixture.write("INSERT INTO t VALUES (1, 'a')")
        try fixture.declared("Other", "INSERT INTO t VALUES (2, 'b')")
        try fixture.write("INSERT INTO t VALUES (3, 'c')")
        let rejecting = Merger { call in
            MergeResult(.goOn, rejecting: Set(call.transactions.filter { $0.author == "Other" }.map(\.token)))
        }
        let later = Merger { _ in MergeResult(.goOn) }
        _ = try await fixture.runOnce([fixture.merger("p/r", rejecting), fixture.merger("p/l", later)])
        #expect(rejecting.batches() == [["1", "2", "3"]])
        #expect(later.batches() == [["1", "3"]])
        #expect(try fixture.replicaRows() == ["1 a", "3 c"])
    }

    @Test func aConsumersOwnChangesAreNotForIt() async throws {
        let fixture = try Fixture()
        try fixture.declared("Main", "INSERT INTO t VALUES (1, 'a')")
        try fixture.declared("Other", "INSERT INTO t VALUES (2, 'b')")
        let all = Recorder()
        _ = try await fixture.runOnce([fixture.observer("p/all", all)])
        #expect(all.calls() == ["2"])
        #expect(try fixture.cursor() == 2)
    }

    @Test func aCleanedStoreTellsThatATokenExpired() async throws {
        let fixture = try Fixture()
        try fixture.write(
            "INSERT INTO t VALUES (1, 'a')", "INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')")
        let cleaner = HistoryCleaner(path: fixture.path, rule: DeliveryRule(authors: ["Main"]))
        let outcome = try await cleaner.clean(through: 2)
        #expect(outcome.deleted == 2)
        #expect(outcome.floor.number == 2)
        let reader = try HistoryReader(path: fixture.path)
        #expect(throws: HistoryError.self) { try reader.batch(after: 1) }
        #expect(try reader.batch(after: 2).transactions.map(\.token.number) == [3])
        #expect(try reader.batch(after: 0).transactions.map(\.token.number) == [3])
        // Everything may go; the newest number is not given again.
        _ = try await cleaner.clean(through: 3)
        #expect(try reader.batch(after: 0).transactions.isEmpty)
        #expect(try reader.newestToken().number == 3)
        try fixture.write("INSERT INTO t VALUES (4, 'd')")
        #expect(try reader.batch(after: 3).transactions.map(\.token.number) == [4])
        #expect(throws: HistoryError.self) { try reader.batch(after: 5) }
    }

    @Test func mirroringHistoryIsKept() async throws {
        let fixture = try Fixture()
        try fixture.declared("NSCloudKitMirroringDelegate.import", "INSERT INTO t VALUES (1, 'a')")
        try fixture.write("INSERT INTO t VALUES (2, 'b')", "INSERT INTO t VALUES (3, 'c')")
        _ = try await HistoryCleaner(path: fixture.path, rule: DeliveryRule(authors: ["Main"])).clean(
            through: 3)
        let reader = try HistoryReader(path: fixture.path)
        #expect(try reader.batch(after: 0).transactions.map(\.token.number) == [1])
    }
}

/// A store with one consumer, "Main".
private final class Fixture: Sendable {
    private let folder: TemporaryFolder
    let path: String
    private let replica: ReplicaContext?

    init(replica: Bool = false) throws {
        folder = try TemporaryFolder()
        path = folder.file("s.sqlite")
        self.replica =
            replica
            ? ReplicaContext(name: "view", path: folder.file("view.sqlite"), entities: nil)
            : nil
        try DatabaseQueue(path: path).write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)")
        }
        try Tracking.track(path, ["t": nil])
    }

    /// Each statement is a transaction by nobody, some time apart from the others.
    func write(_ statements: String...) throws {
        for sql in statements {
            try DatabaseQueue(path: path).writeWithoutTransaction { db in
                try db.execute(sql: sql)
                // Another millisecond is another transaction.
                try db.execute(sql: "UPDATE historyd_change SET origin = id WHERE typeof(origin) = 'integer'")
            }
        }
    }

    func declared(_ author: String, _ sql: String) throws {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.installHistory()
            try db.declareAuthor(author)
        }
        try DatabaseQueue(path: path, configuration: configuration).write { db in try db.execute(sql: sql) }
    }

    func observer(
        _ name: String, _ endpoint: any HookEndpoint, attempts: Int = 1,
        then: FailurePolicy.AfterLastAttempt = .hold
    ) -> Hook {
        Hook(
            id: UUID(), name: name, kind: .observer, endpoint: endpoint,
            policy: FailurePolicy(
                attempts: attempts, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                afterLastAttempt: then))
    }

    func merger(_ name: String, _ endpoint: any HookEndpoint) -> Hook {
        Hook(id: UUID(), name: name, kind: .merge, endpoint: endpoint)
    }

    func runOnce(_ hooks: [Hook], until stop: OneShotEvent = OneShotEvent()) async throws -> Events {
        let rule = DeliveryRule(authors: ["Main", "Other"])
        let consumer = Consumer(store: "s", author: "Main", rule: rule, contexts: replica.map { [$0] } ?? [])
        let events = Events()
        var store = ServedStore(name: "s", path: path, entities: nil, rule: rule, consumers: [consumer])
        store.isUsedInProcess = true
        try await StoreRunner(
            store, hooks: HookRegistry(hooks), stateFolder: folder.path, reporter: events, stop: stop
        ).runOnce()
        return events
    }

    func state() throws -> StateDatabase {
        try StateDatabase(folder: folder.path, store: HistoryReader(path: path).storeID)
    }

    func cursor() throws -> Int64? { try state().cursors.checkpoint(of: "Main")?.position }

    func replicaRows() throws -> [String] {
        try DatabaseQueue(path: folder.file("view.sqlite")).read { db in
            try Row.fetchAll(db, sql: "SELECT id, a FROM t ORDER BY id").map {
                "\($0["id"] as Int64) \($0["a"] as String)"
            }
        }
    }
}

private final class Events: PipelineReporter {
    private let events = Locked<[String]>([])
    func report(_ event: PipelineEvent) { events.withLock { $0.append("\(event)") } }
    func all() -> [String] { events.withLock { $0 } }
}

/// An observer that remembers the ids it was told of, and fails when it is told to.
private final class Recorder: HookEndpoint {
    private let made = Locked<[String]>([])
    private let failing: @Sendable (ObserverCall, _ attempt: Int) -> String?

    init(failing: @escaping @Sendable (ObserverCall, Int) -> String? = { _, _ in nil }) {
        self.failing = failing
    }

    func calls() -> [String] { made.withLock { $0 } }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        for (index, call) in calls.enumerated() {
            let objects = call.changes.map { ids($0) }.joined(separator: " ")
            let attempt = made.withLock { made in
                made.append(objects)
                return made.filter { $0 == objects }.count
            }
            if let reason = failing(call, attempt) {
                return ObserverOutcome(succeeded: index, failure: HookFailure(.refused, reason))
            }
        }
        return ObserverOutcome(succeeded: calls.count)
    }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
}

private final class Merger: HookEndpoint {
    private let made = Locked<[[String]]>([])
    private let answer: @Sendable (MergeCall) -> MergeResult

    init(_ answer: @escaping @Sendable (MergeCall) -> MergeResult) { self.answer = answer }

    func batches() -> [[String]] { made.withLock { $0 } }
    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome { ObserverOutcome(succeeded: calls.count) }
    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        made.withLock { $0.append(call.transactions.map { $0.changes.map { ids($0) }.joined(separator: " ") }) }
        return answer(call)
    }
}

private func ids(_ change: HistoryChange) -> String {
    change.objectID.values.map { if case .integer(let id) = $0 { "\(id)" } else { "\($0)" } }.joined(
        separator: ",")
}
