import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// The decisions behind feeds, as values.
@Suite struct FeedPartsTests {
    private static let store = StoreID.sample()

    private func transaction(_ number: Int64, _ changes: [HistoryChange]) -> HistoryTransaction {
        HistoryTransaction(
            token: HistoryToken(store: Self.store, number: number), author: "A", context: nil, processID: 1,
            timestamp: HistoryTimestamp(milliseconds: 0), changes: changes)
    }

    @Test(
        "An object's effect is what a copy before and after the transaction would show",
        arguments: [1, 2, 3, UInt64.random(in: 4...1_000_000)])
    func effects(_ number: UInt64) {
        var seed = Seed(number)
        print("object id notification: \(seed)")
        let entities = ["t", "u"].map {
            Entity(shape: 1, name: $0, columns: [], key: .column("id"), preserved: [])
        }
        for _ in 0..<500 {
            var rows: Set<[Int64]> = Set(
                (0..<6).filter { _ in Bool.random(using: &seed) }.map { [$0 % 2, $0] })
            let before = rows
            var changes: [HistoryChange] = []
            var updated: Set<[Int64]> = []
            for _ in 0..<Int.random(in: 1...12, using: &seed) {
                let id = Int64.random(in: 0..<6, using: &seed)
                let row = [id % 2, id]
                let operation: ChangeOperation
                if !rows.contains(row) {
                    operation = .insert
                    rows.insert(row)
                } else if Bool.random(using: &seed) {
                    operation = .delete
                    rows.remove(row)
                } else {
                    operation = .update
                }
                updated.insert(row)
                changes.append(
                    HistoryChange(
                        entity: entities[Int(row[0])], operation: operation,
                        objectID: ObjectID(columns: ["id"], values: [.integer(id)])))
            }
            let all = ObjectIDNotification(transaction(1, changes))
            func known(_ effect: ObjectIDNotification.Effect) -> [[Int64]] {
                all.objects.filter { $0.effect == effect }.map { object in
                    guard case .integer(let id)? = object.objectID.values.first else { return [] }
                    return [object.entity.name == "t" ? 0 : 1, id]
                }
            }
            #expect(Set(known(.inserted)) == rows.subtracting(before))
            #expect(Set(known(.deleted)) == before.subtracting(rows))
            #expect(Set(known(.updated)) == before.intersection(rows).intersection(updated))
            #expect(Set(all.objects).count == all.objects.count)
            let some = ObjectIDNotification(transaction(1, changes), entities: ["u"])
            #expect(some.objects == all.objects.filter { $0.entity.name == "u" })
        }
    }

    @Test func aWindowIsFullUntilItIsAcknowledged() {
        var window = FeedWindow(size: 2)
        #expect(window.hasRoom)
        window.send(5)
        window.send(9)
        #expect(!window.hasRoom)
        window.acknowledge(through: 4)
        #expect(!window.hasRoom)
        window.acknowledge(through: 7)
        #expect(window.hasRoom && window.count == 1)
        window.acknowledge(through: 100)
        #expect(window.count == 0)
        window.size = 1
        window.send(101)
        #expect(!window.hasRoom)
    }

    @Test func whatIsKeptFromTheContextsIsKnownByRanges() {
        let transactions = (1...6).map { transaction(Int64($0 * 10), []) }
        let hook = Listener().observer()
        func unmerged(_ rejected: Int64..., verdict: MergeResult.Verdict = .goOn) -> [ClosedRange<Int64>] {
            var merge = PendingMerge(transactions, after: 5, end: 65)
            let tokens = rejected.map { HistoryToken(store: Self.store, number: $0) }
            merge.answer(hook, MergeResult(verdict, rejecting: Set(tokens)))
            return merge.unmerged
        }
        #expect(unmerged() == [])
        #expect(unmerged(20) == [11...20])
        #expect(unmerged(20, 30, 50) == [11...30, 41...50])
        #expect(unmerged(10, 20, 30, 40, 50, 60) == [6...60])
        #expect(unmerged(20, verdict: .finish) == [6...65])
    }

    @Test func aFeedHoldsBackTheCleanupAsAConsumerDoes() {
        let holders = [
            CleaningPlan.Holder(consumer: "A", number: 10, standing: .zero),
            CleaningPlan.Holder(consumer: "A", context: "live", number: 4, standing: .seconds(100)),
        ]
        let plan = CleaningPlan(holders, newest: 10, maximumDuration: nil)
        #expect(plan.number == 4)
        #expect(plan.blockers.map(\.name) == ["A/live"])
        let patient = CleaningPlan(holders, newest: 10, maximumDuration: .seconds(99))
        #expect(patient.number == 10)
        #expect(patient.passedBy.map(\.name) == ["A/live"])
    }

    @Test func linesAreJSON() {
        var json = JSONBytes()
        let token = HistoryToken(store: Self.store, number: 7)
        FeedLineWriter.begins(after: token, to: &json)
        FeedLineWriter.expired(Expiry(reason: .late, lost: nil, after: token), to: &json)
        FeedLineWriter.transaction(
            transaction(8, []), [], part: CallPart(index: 1, isLast: false), to: &json)
        #expect(
            String(decoding: json.bytes.array, as: UTF8.self) == """
                {"begins":{"after":"\(Self.store):7"}}
                {"expired":{"reason":"late","lost":null,"after":"\(Self.store):7"}}
                {"token":"\(Self.store):8","author":"A","context":null,"processID":1,"timestamp":"1970-01-01T00:00:00.000Z",\
                "insertedObjectIDs":[],"updatedObjectIDs":[],"deletedObjectIDs":[],"part":{"index":1,"last":false}}

                """)
    }

    @Test func whatWasFetchedForOthersIsNotReadAgain() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t (n) VALUES (1)")
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        let fetcher = try SharedFetcher(reader)
        #expect(fetcher.known(after: 1, through: 1) == nil)
        try store.write("B", "INSERT INTO t (n) VALUES (2), (3)")
        #expect(try fetcher.look()?.end == 3)
        #expect(fetcher.known(after: 1, through: 3)?.transactions.map(\.token.number) == [3])
        // Not what the consumer has not come to, nor from another place.
        #expect(fetcher.known(after: 1, through: 2) == nil)
        #expect(fetcher.known(after: 0, through: 3) == nil)
    }

    /// Else, when the daemon was killed, what a program then acknowledges would be ahead of its consumer.
    @Test func aConsumersPlaceIsSavedBeforeItsFeedsAreTold() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], feeds: ["Main": [FeedContext(name: "live")]])
        try store.write("A", "INSERT INTO t (n) VALUES (1)", "INSERT INTO t (n) VALUES (2)")
        let state = try StateDatabase.path(
            folder: store.folder.path, store: HistoryReader(path: store.path).storeID)
        let saved = Locked<[Int64?]>([])
        let events = EventLog { event in
            guard case .cursorMoved = event else { return }
            let number = try? GatekeeperStore.read(state) {
                try Int64.fetchOne($0, sql: "SELECT position FROM cursor WHERE consumer = 'Main'")
            }
            saved.withLock { $0.append(number) }
        }
        try await store.runner(served, [], events).runOnce()
        #expect(saved.withLock { $0 } == [2])
    }

    @Test func aFeedMovesOverWhatIsNotForIt() async throws {
        let store = try GatekeeperStore()
        let feed = FeedID(consumer: "A", context: "live")
        let served = store.served(["A"], feeds: ["A": [FeedContext(name: "live", entities: ["t"])]])
        try await store.serve(served)
        try store.write("A", "INSERT INTO t (n) VALUES (1)")
        try store.write("B", "INSERT INTO u (n) VALUES (1)", "INSERT INTO t (n) VALUES (1)")
        try store.write("A", "INSERT INTO t (n) VALUES (1)")
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        func keeping<T>(_ body: (FeedKeeper) throws -> T) throws -> T {
            let state = try store.state()
            defer { try? state.close() }
            return try body(FeedKeeper(store: served, source: reader, state: state, reporter: SilentReporter()))
        }
        func settled() throws -> Int64 {
            try keeping { keeper in
                let before = try keeper.state(of: feed)
                try keeper.skipWhatIsNotSent()
                let after = try keeper.state(of: feed)
                // That it has left something undone for long stays so.
                #expect(before.checkpoint.movedAt == after.checkpoint.movedAt)
                return after.position
            }
        }
        // Not ahead of its consumer.
        #expect(try settled() == 0)
        store.clock.advance(1000)
        try await store.serve(served)
        #expect(try settled() == 2)
        #expect(throws: HistoryError.self) {
            try keeping { try $0.acknowledge(HistoryToken(store: reader.storeID, number: 5), of: feed) }
        }
        let acknowledged = try keeping {
            try $0.acknowledge(HistoryToken(store: reader.storeID, number: 3), of: feed)
        }
        #expect(acknowledged.number == 3)
        #expect(try settled() == 4)
        // What was found out before it moved counts no more.
        try keeping { try $0.state.feeds.skip(feed, from: 2, to: 3) }
        #expect(try keeping { try $0.state(of: feed).position } == 4)
        // It does not go back, and holds back nothing more.
        _ = try keeping { try $0.acknowledge(HistoryToken(store: reader.storeID, number: 1), of: feed) }
        let report = try ManualCleaning(served, stateFolder: store.folder.path).report()
        #expect(report.blockers.isEmpty && report.floorAfter.number == 4)
    }

    /// An undeclared writer's large transaction comes to a feed in other pieces than to the hooks.
    @Test func whatAHookHasKeptBackIsNotFedInPieces() async throws {
        let store = try GatekeeperStore()
        let feed = FeedContext(name: "live")
        let served = store.served(["Main"], feeds: ["Main": [feed]])
        try await store.serve(served)
        try store.write("A", "INSERT INTO t VALUES (1, 0)")
        try store.write(
            nil,
            """
            WITH RECURSIVE c (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM c WHERE n < 3500)
            INSERT INTO t SELECT n, 0 FROM c
            """, "UPDATE historyd_change SET origin = 5 WHERE id > 1")
        try store.write("A", "INSERT INTO t VALUES (4000, 0)")
        let hook = Hook(id: UUID(), name: "p/m", kind: .merge, endpoint: Rejecting())
        try await store.serve(served, [hook])
        let reader = FeedReader(FeedID(consumer: "Main", context: "live"))
        try await reader.connect(served, store.folder.path, most: 100) { _ in true }
        #expect(reader.had == [1, 3501])
    }

    /// Keeps back what nobody declared.
    private final class Rejecting: HookEndpoint {
        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            ObserverOutcome(succeeded: calls.count)
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
            MergeResult(
                .goOn, rejecting: Set(call.transactions.filter { $0.author == nil }.map(\.token)))
        }
    }
}
