import Foundation
import PersistentHistory
import TestSupport
import Testing

/// Feeds inside a program, without a daemon.
@Suite(.timeLimit(.minutes(60))) struct TrackerFeedTests {
    struct Enough: Error {}

    private func tracker(_ store: TrackedStore) -> PersistentHistoryTracker {
        var configuration = PersistentHistoryTracker.Configuration(
            store: store.path, currentAuthor: "MainApp", allAuthors: ["MainApp", "Widget"],
            stateFolder: store.stateFolder)
        configuration.feeds = ["live"]
        configuration.batchAuthors = ["Widget"]
        configuration.reporter = SilentReporter()
        return PersistentHistoryTracker(configuration)
    }

    private func text(_ event: FeedEvent) -> String {
        switch event {
        case .expired(let expiry): "expired \(expiry.reason) \(expiry.after.number)"
        case .transaction(let transaction): "\(transaction.author ?? "-") \(transaction.token.number)"
        }
    }

    /// Follows until so many events have come, of which the last is not acknowledged.
    private func follow(_ tracker: PersistentHistoryTracker, count: Int) async throws -> [String] {
        try await follow(tracker) { $0.count == count }
    }

    private func follow(
        _ tracker: PersistentHistoryTracker, until isEnough: @Sendable ([String]) -> Bool
    ) async throws -> [String] {
        let notes = Notes()
        await #expect(throws: Enough.self) {
            try await tracker.follow("live") { event in
                await notes.add(text(event))
                if await isEnough(notes.all) { throw Enough() }
            }
        }
        return await notes.all
    }

    @Test("A follower gets what others commit, after the merge hooks, and continues where it was")
    func follows() async throws {
        let store = try TrackedStore()
        let first = self.tracker(store)
        await first.registerMergeHook { input in
            .rejecting(input.transactions.filter { $0.author == "Banned" }.map(\.token))
        }
        try store.write("INSERT INTO person (id) VALUES (1)")
        try store.write("INSERT INTO person (id) VALUES (2)", as: "MainApp")
        try await running(first) {
            try store.write("INSERT INTO person (id) VALUES (3)", as: "Banned")
            try store.write("INSERT INTO person (id) VALUES (4)")
            #expect(try await follow(first, count: 2) == ["Widget 1", "Widget 4"])
            // What was not acknowledged comes again.
            #expect(try await follow(first, count: 1) == ["Widget 4"])
        }
        // Another run of the program.
        let second = self.tracker(store)
        try await running(second) {
            try store.write("INSERT INTO person (id) VALUES (5)")
            #expect(try await follow(second, count: 2) == ["Widget 4", "Widget 5"])
        }
    }

    @Test("Off and on, nothing is lost, and a follower may be there before the tracker runs")
    func offAndOn() async throws {
        let store = try TrackedStore()
        let tracker = self.tracker(store)
        let notes = Notes()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await tracker.follow("live") { await notes.add(text($0)) } }
            group.addTask { try await tracker.run() }
            for id in 1...5 {
                try store.write("INSERT INTO person (id) VALUES (\(id))")
                tracker.stop()
                tracker.start()
            }
            _ = await notes.first(5)
            group.cancelAll()
            while await group.nextResult() != nil {}
        }
        // At least once, in order.
        var last = ""
        let distinct = await notes.all.filter { line in
            defer { last = max(last, line) }
            return line > last
        }
        #expect(distinct == (1...5).map { "Widget \($0)" })
    }

    @Test("Lost history is told before anything else, and history waits for a feed otherwise")
    func expiry() async throws {
        let store = try TrackedStore()
        let tracker = self.tracker(store)
        try await tracker.runOnce()
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await tracker.runOnce()
        #expect(try await tracker.cleanerBuilder().clean()?.deleted == 0, "the feed has not had it")
        _ = try await HistoryCleaner(path: store.path, rule: DeliveryRule(authors: [])).clean(through: 1)
        try store.write("INSERT INTO person (id) VALUES (2)")
        try await running(tracker) {
            // It begins again where the consumer is by then, before or after the second transaction.
            _ = try await follow(tracker, count: 1)
            try store.write("INSERT INTO person (id) VALUES (3)")
            let events = try await follow(tracker) { $0.last == "Widget 3" }
            #expect(
                [["expired expired 1", "Widget 2", "Widget 3"], ["expired expired 2", "Widget 3"]]
                    .contains(events))
        }
    }

    @Test("An unknown feed is an error, and so is a second follower")
    func errors() async throws {
        let store = try TrackedStore()
        let tracker = self.tracker(store)
        try await running(tracker) {
            try store.write("INSERT INTO person (id) VALUES (1)")
            _ = try await follow(tracker, count: 1)
            let error = try await #require(throws: HistoryError.self) {
                try await tracker.follow("other") { _ in }
            }
            #expect(error.code == .unknownContext)
        }
    }
}
