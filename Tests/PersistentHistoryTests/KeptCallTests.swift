import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A dead letter goes out again as the call that it was.
@Suite struct KeptCallTests {
    /// Remembers by which method it was called, and with what.
    private final class Methods: HookEndpoint {
        let calls = Locked<[String]>([])
        let fails = Locked(true)

        private func note(_ method: String, _ call: some HookCallJSON) throws(HookFailure) {
            calls.withLock { $0.append(method + " " + String(decoding: call.parameters, as: UTF8.self)) }
            if fails.withLock(\.self) { throw HookFailure(.refused, "no") }
        }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            do throws(HookFailure) {
                for call in calls { try note("observe", call) }
                return ObserverOutcome(succeeded: calls.count)
            } catch {
                return ObserverOutcome(succeeded: 0, failure: error)
            }
        }
        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
            try note("merge", call)
            return .goOn
        }
        func expired(_ call: ExpiredCall) async throws(HookFailure) { try note("expired", call) }
    }

    @Test(
        "Every call that is given up is repeated by its method, with its parameters",
        arguments: [Hook.Kind.observer, .merge], [true, false])
    func repeated(_ kind: Hook.Kind, knowsMethod: Bool) async throws {
        let store = try GatekeeperStore()
        for id in 1...3 { try store.write("A", "INSERT INTO t VALUES (\(id), 0)") }
        _ = try await HistoryCleaner(path: store.path, rule: DeliveryRule(authors: [])).clean(through: 2)
        let endpoint = Methods()
        let hook = Hook(
            id: UUID(), name: "p/h", kind: kind, endpoint: endpoint,
            policy: FailurePolicy(
                attempts: 1, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                afterLastAttempt: .skip))
        try await store.serve(store.served(["Main"]), [hook])
        let made = endpoint.calls.withLock(\.self)
        #expect(made.map { $0.prefix { $0 != " " } } == ["expired", kind == .merge ? "merge" : "observe"])
        let state = try store.state()
        if !knowsMethod {
            // As an earlier version has kept them.
            try state.connection.access { try $0.execute(sql: "UPDATE dead_letter SET method = NULL") }
        }
        endpoint.calls.withLock { $0 = [] }
        endpoint.fails.withLock { $0 = false }
        for letter in try state.deadLetters.all().map(\.letter) {
            let header = HookCallHeader(
                store: "s", consumer: letter.consumer, hook: hook.name, hookID: hook.id,
                delivery: letter.delivery)
            _ = try await hook.call(header, letter.method, kept: letter.call).get()
        }
        #expect(endpoint.calls.withLock(\.self) == made)
        try state.close()
    }

    @Test(
        "A state of an earlier version is brought up to date, with its letters",
        arguments: [
            "ALTER TABLE dead_letter DROP COLUMN method; DROP TABLE given; DROP TABLE sighting; DROP TABLE replay; PRAGMA user_version = 1",
            "DROP TABLE replay; PRAGMA user_version = 2",
        ])
    func earlierVersion(makeEarlier: String) throws {
        let folder = try TemporaryFolder()
        let id = StoreID.sample()
        let letter = DeadLetter(
            consumer: "Main", hook: "p/h", delivery: "d", method: .expired, reason: "", attempts: 1,
            call: #"{"reason":"expired"}"#, keptAt: .now)
        let state = try StateDatabase(folder: folder.path, store: id)
        try state.deadLetters.keep(letter)
        try state.connection.access { db in
            try db.execute(sql: makeEarlier)
        }
        try state.close()
        let again = try StateDatabase(folder: folder.path, store: id)
        #expect(try again.deadLetters.all().map(\.letter.method) == [.expired])
        try again.given.save("c", of: "Main", through: 7, "f")
        #expect(try again.reached("Main") == 0)
        try again.close()
    }
}
