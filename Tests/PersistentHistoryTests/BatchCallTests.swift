import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// Observers that are called once for everything in a fetched batch.
@Suite struct BatchCallTests {
    /// What was told: `5 insert t 1,2`, a line for each group; and the calls' ids.
    private final class Calls: HookEndpoint {
        private let made = Locked<(groups: [String], deliveries: [String], bodies: [String])>(([], [], []))
        private let failing: @Sendable (_ attempt: Int) -> Bool

        init(failing: @escaping @Sendable (Int) -> Bool = { _ in false }) { self.failing = failing }

        var groups: [String] { made.withLock { $0.groups } }
        var deliveries: [String] { made.withLock { $0.deliveries } }
        var bodies: [String] { made.withLock { $0.bodies } }

        private func note(_ transaction: HistoryTransaction, _ changes: ArraySlice<HistoryChange>) {
            let keys = changes.map { String($0.objectID.keyText.dropFirst()) }.joined(separator: ",")
            guard let first = changes.first else { return }
            let line =
                "\(transaction.token.number) \(first.operation.rawValue) \(first.entity.name) \(keys)"
            made.withLock { $0.groups.append(line) }
        }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            for call in calls { note(call.transaction, call.changes) }
            return ObserverOutcome(succeeded: calls.count)
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
            let attempt = made.withLock { made in
                made.deliveries.append(call.header.delivery)
                made.bodies.append(String(decoding: call.parameters, as: UTF8.self))
                return made.deliveries.count
            }
            if failing(attempt) { throw HookFailure(.refused, "not now") }
            for group in call.groups ?? [] { note(group.transaction, group.changes) }
            return .goOn
        }
    }

    private static func hook(
        _ name: String, _ calls: Calls, _ kind: ObserverCalls = .batch, entity: String? = nil,
        _ operations: Set<ChangeOperation> = Set(ChangeOperation.allCases), where condition: String? = nil,
        then: FailurePolicy.AfterLastAttempt = .hold, attempts: Int = 3
    ) -> Hook {
        Hook(
            id: UUID(), name: name, kind: .observer, entity: entity, operations: operations, calls: kind,
            condition: condition, endpoint: calls,
            policy: FailurePolicy(
                attempts: attempts, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                afterLastAttempt: then))
    }

    @Test func oneCallHasEverythingThatConcernsTheHook() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO u VALUES (1, 1)")
        try store.write("B", "UPDATE t SET n = 5 WHERE id = 1; INSERT INTO t VALUES (3, 3)")
        let calls = Calls()
        try await store.serve(store.served(["Main"]), [Self.hook("p/h", calls, entity: "t")])
        #expect(calls.groups == ["3 insert t 1,2", "5 update t 1", "5 insert t 3"])
        #expect(calls.deliveries.count == 1 && calls.deliveries[0].hasSuffix(":3-5/Main/p/h"))
        let body = calls.bodies[0]
        #expect(body.contains(#""groups":[{"transaction":{"token":"#) && body.contains(#""author":"B""#))
        #expect(!body.contains(#""transactions""#))
    }

    /// The groups of a batch hook, one after the other, are the calls of a hook for transactions.
    @Test(arguments: 0..<10) func theGroupsAreTheCallsOfAHookForTransactions(round: Int) async throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        var generator = SplitMix(state: seed)
        let store = try GatekeeperStore()
        // Up to three attempts fail, and the daemon begins again between runs.
        let failures = Set((0..<4).map { _ in Int.random(in: 1...12, using: &generator) })
        let (plain, batch) = (Calls(), Calls { failures.contains($0) })
        let operations = Set(
            ChangeOperation.allCases.filter { _ in Bool.random(using: &generator) } + [.update])
        let (entity, condition) =
            [("t", "n > 4"), ("t", nil), (nil, nil)].randomElement(using: &generator) ?? (nil, nil)
        let hooks = [
            Self.hook("p/plain", plain, .transaction, entity: entity, operations, where: condition),
            Self.hook("p/batch", batch, entity: entity, operations, where: condition, attempts: 20),
        ]
        var served = store.served(["Main", "A"])
        served.partSize = 8
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            for _ in 0..<Int.random(in: 0...5, using: &generator) {
                let author = ["A", "B", nil].randomElement(using: &generator) ?? nil
                let scripts = (0..<Int.random(in: 1...3, using: &generator)).map { _ in
                    let (id, n) = (
                        Int.random(in: 0..<30, using: &generator), Int.random(in: 0..<10, using: &generator)
                    )
                    let table = Bool.random(using: &generator) ? "t" : "u"
                    return [
                        "INSERT OR REPLACE INTO \(table) VALUES (\(id), \(n))",
                        "UPDATE \(table) SET n = n + \(n)",
                        "DELETE FROM \(table) WHERE id > \(id)",
                        "WITH c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 20) INSERT OR REPLACE INTO \(table) SELECT i, \(n) FROM c",
                    ].randomElement(using: &generator) ?? ""
                }
                try store.write(author, scripts.joined(separator: ";"))
            }
            try await store.serve(served, hooks)
        }
        // Parts of large groups are cut in other places.
        func objects(_ groups: [String]) -> [String] {
            groups.flatMap { group -> [String] in
                let words = group.split(separator: " ")
                return words.count < 4
                    ? [] : words[3].split(separator: ",").map { "\(words[0]) \(words[1]) \(words[2]) \($0)" }
            }.sorted()
        }
        #expect(objects(batch.groups) == objects(plain.groups), "seed \(seed)")
    }

    @Test func aCallThatIsGivenUpIsOneDeadLetterAndTheNextBatchComes() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        let calls = Calls { $0 <= 2 }
        let hook = Self.hook("p/h", calls, then: .skip, attempts: 2)
        try await store.serve(store.served(["Main"]), [hook])
        try store.write("A", "INSERT INTO t VALUES (3, 3)")
        try await store.serve(store.served(["Main"]), [hook])
        #expect(calls.groups == ["3 insert t 3"])
        #expect(Set(calls.deliveries.prefix(2)).count == 1, "repeats have one id")
        let state = try store.state()
        defer { try? state.close() }
        let letters = try state.deadLetters.all()
        #expect(letters.count == 1 && letters[0].letter.call.contains(#""groups""#))
        #expect(letters.first?.letter.method == .observe)
    }

    @Test func whatSucceededIsNotCalledAgainByARetryOfAnother() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let (first, second, merger) = (Calls(), Calls { $0 <= 2 }, Calls())
        let merge = Hook(id: UUID(), name: "p/m", kind: .merge, endpoint: merger)
        try await store.serve(
            store.served(["Main"]), [Self.hook("p/a", first), Self.hook("p/b", second), merge])
        #expect(first.deliveries.count == 1 && second.deliveries.count == 3 && merger.deliveries.count == 1)
    }

    @Test func aBatchOfNothingForItMakesNoCall() async throws {
        let store = try GatekeeperStore()
        let calls = Calls()
        try store.write("A", "INSERT INTO u VALUES (1, 1)")
        try await store.serve(store.served(["Main"]), [Self.hook("p/h", calls, entity: "t")])
        #expect(calls.deliveries.isEmpty)
        #expect(try store.cursor("Main") == 1)
    }
}
