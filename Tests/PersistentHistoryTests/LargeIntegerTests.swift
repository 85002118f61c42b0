import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Integers that a program would change that reads numbers as doubles.
@Suite struct LargeIntegerTests {
    private final class Endpoint: HookEndpoint {
        let largeIntegers: LargeIntegers
        init(_ largeIntegers: LargeIntegers) { self.largeIntegers = largeIntegers }
        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            ObserverOutcome(succeeded: calls.count)
        }
        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
    }

    @Test(
        "Just what no double tells from its neighbours is text",
        arguments: [
            0, 1, -1, 1 << 53 - 1, 1 << 53, 1 << 53 + 1, -(1 << 53) + 1, -(1 << 53), .max, .min,
            1_254_071_346_418_286_654,
        ] as [Int64])
    func bounds(integer: Int64) {
        var json = JSONBytes()
        json.largeIntegers = .text
        HistoryJSON.write(.integer(integer), to: &json)
        let isExact = [integer &- 1, integer &+ 1].allSatisfy { Double($0) != Double(integer) }
        #expect(
            String(decoding: json.bytes.array, as: UTF8.self) == (isExact ? "\(integer)" : "\"\(integer)\""))
    }

    @Test("A call, a dead letter and a feed's line give ids and values so", arguments: LargeIntegers.allCases)
    func calls(_ largeIntegers: LargeIntegers) async throws {
        let key = 1_254_071_346_418_286_654 as Int64
        let store = try GatekeeperStore()
        try Tracking.track(store.path, ["t": ["n"]])
        try store.write("A", "INSERT INTO t VALUES (\(key), 5)", "UPDATE t SET n = \(key + 1)", "DELETE FROM t")
        let reader = try HistoryReader(path: store.path)
        defer { #expect(throws: Never.self) { try reader.close() } }
        let transactions = try reader.batch(after: 0).transactions
        let hook = Hook(id: UUID(), name: "p/h", kind: .observer, endpoint: Endpoint(largeIntegers))
        let plan = DeliveryPlan(transactions, hooks: [hook], store: "s", consumer: "c")
        let written = largeIntegers == .text ? "\"\(key)\"" : "\(key)"
        let value = largeIntegers == .text ? "\"\(key + 1)\"" : "\(key + 1)"
        var texts = plan.runs.flatMap(\.calls).map { String(decoding: $0.parameters, as: UTF8.self) }
        #expect(texts.count == 3)
        for transaction in transactions {
            var json = JSONBytes()
            FeedLineWriter.transaction(
                transaction, ObjectIDNotification(transaction, entities: nil).objects,
                largeIntegers: largeIntegers,
                to: &json)
            HistoryJSON.write(.integer(key), to: &json)
            let text = String(decoding: json.bytes.array, as: UTF8.self)
            // What is written after it is written as before.
            #expect(text.hasSuffix("\(key)"))
            texts.append(text)
        }
        for text in texts { #expect(text.contains("\"objectID\":{\"id\":\(written)}"), "\(text)") }
        #expect(texts[2].contains("\"values\":{\"n\":\(value)}"))
        #expect(texts[2].contains("/t/p\(key)\""))
    }
}
