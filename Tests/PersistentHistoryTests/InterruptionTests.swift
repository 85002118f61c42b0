import Foundation
import GRDB
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// Sequences that are interrupted between two writes, and parts that meet.
@Suite(.timeLimit(.minutes(60))) struct InterruptionTests {
    private static let many = """
        WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 600)
        INSERT INTO t SELECT n, 0 FROM i
        """

    @Test("A large transaction, of which only the outline is read, wakes up a consumer that wants its entity")
    func largeTransactionWakesUp() throws {
        let store = try GatekeeperStore()
        try store.write("A", Self.many)
        let reader = try HistoryReader(path: store.path, partSize: 10)
        defer { try? reader.close() }
        let batch = try reader.outlinedBatch(after: 0)
        #expect(batch.transactions.first?.outline != nil)
        let start = Checkpoint(position: 0, movedAt: .now)
        let idle = IdleConsumers(["t", "u"], at: start)
        for name in ["t", "u"] {
            idle.add(name, at: 0, until: HookInterests(entities: [BinaryText(name)]), hooks: 1)
        }
        let woken = idle.pass(batch, to: Checkpoint(position: batch.end, movedAt: .now), hooks: 1).woken
        #expect(woken == ["t"])
    }

    @Test("A cleanup raises the floor with its first step: no reader sees what is half deleted")
    func floorFirst() async throws {
        let store = try GatekeeperStore()
        try store.write("A", Self.many)
        let steps = Locked(0)
        let outcome = try await HistoryCleaner(path: store.path, rule: DeliveryRule(authors: ["Main"])).clean(
            through: 600
        ) {
            steps.withLock {
                $0 += 1
                return $0 > 1
            }
        }
        #expect((1..<600).contains(outcome.deleted))
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        #expect(try reader.oldestToken().number == 600)
    }

    @Test("A consumer that has had nothing yet loses what is deleted, and is notified")
    func positionZeroExpires() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"])
        try await store.serve(served, [Listener().observer()])
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        _ = try await HistoryCleaner(path: store.path, rule: served.rule).clean(through: .max)
        let listener = Listener()
        try await store.serve(served, [listener.observer()])
        #expect(listener.all() == ["expired 0 > 2"])
    }

    @Test("A plan of a cleanup relies on nothing that a consumer does while it is made, unless that is saved")
    func planReliesOnWhatIsSaved() throws {
        let store = try GatekeeperStore()
        for number in 1...4 { try store.write("A", "INSERT INTO t VALUES (\(number), 0)") }
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        let meanwhile = Locked<(@Sendable () -> Void)?>(nil)
        let clock = HistoryClock(
            wall: { HistoryTimestamp(milliseconds: 1_700_000_000_000) },
            elapsed: {
                let body = meanwhile.withLock { body in
                    defer { body = nil }
                    return body
                }
                body?()
                return .zero
            })
        let state = try StateDatabase(folder: store.folder.path, store: reader.storeID, clock: clock)
        try state.cursors.save(Checkpoint(position: 2, movedAt: clock.wall()), of: "Main")
        // Between what is saved first, for the served time, and the plan.
        meanwhile.withLock { [state] body in
            body = { state.cursors.saveLater(Checkpoint(position: 4, movedAt: clock.wall()), of: "Main") }
        }
        let plan = try CleaningPlan(store.served(["Main"]), source: reader, state: state)
        let saved = try GatekeeperStore.read(state.path) {
            try Int64.fetchOne($0, sql: "SELECT position FROM cursor WHERE consumer = 'Main'")
        }
        #expect(meanwhile.withLock { $0 == nil })
        #expect(try #require(plan.number) <= #require(saved))
        try state.close()
    }

    @Test("What a merge hook kept back in a batch that comes again is decided again")
    func unfinishedBatch() throws {
        let store = try GatekeeperStore()
        for number in 1...4 { try store.write("A", "INSERT INTO t VALUES (\(number), 0)") }
        let served = store.served(["Main"], feeds: ["Main": [FeedContext(name: "live")]])
        let state = try store.state()
        try state.cursors.save(Checkpoint(position: 2, movedAt: .now), of: "Main")
        try state.feeds.saveUnmerged([1...1, 3...4], of: "Main")
        try state.close()
        let feeds = try OpenFeeds(served, store.folder.path)
        defer { feeds.close() }
        try feeds.keeper.begin()
        #expect(try feeds.keeper.state.feeds.unmerged(of: "Main", after: 0, through: 9) == [1...1])
    }

    @Test("What a merge hook kept back is kept back from each feed, also the slowest")
    func slowestFeed() throws {
        let store = try GatekeeperStore()
        let state = try store.state()
        let feeds = ["fast", "slow"].map { FeedID(consumer: "Main", context: $0) }
        for feed in feeds { try state.feeds.begin(feed, at: 0, nil) }
        try state.feeds.saveUnmerged([3...3], of: "Main")
        try state.feeds.acknowledge(feeds[0], through: 5)
        #expect(try state.feeds.unmerged(of: "Main", after: 0, through: 9) == [3...3])
        try state.feeds.acknowledge(feeds[1], through: 5)
        #expect(try state.feeds.unmerged(of: "Main", after: 0, through: 9) == [])
        try state.close()
    }
}
