import Foundation
import Logging
import PersistentHistory
import TestSupport
import Testing

/// Lost history is never silent: closures are told, the log says it, and the tracker's state has it.
@Suite(.timeLimit(.minutes(60))) struct TrackerLossTests {
    /// A store whose history was deleted under a tracker that has had its first transaction.
    private func lossy(_ tracker: PersistentHistoryTracker, _ store: TrackedStore) async throws
        -> (lost: HistoryToken, after: HistoryToken)
    {
        let first = try #require(try store.write("INSERT INTO person (id) VALUES (1)"))
        try await tracker.runOnce()
        let last = try #require(try store.write("INSERT INTO person (id) VALUES (2)"))
        let rule = DeliveryRule(authors: ["MainApp", "Widget"])
        _ = try await HistoryCleaner(path: store.path, rule: rule).clean(through: last.number)
        try store.write("INSERT INTO person (id) VALUES (3)")
        return (first, last)
    }

    @Test("Closures that ask for it are told before any other call, once each, and again where they throw")
    func closuresAreTold() async throws {
        struct Later: Error {}
        let store = try TrackedStore()
        let tracker = store.tracker()
        let notes = Notes()
        await tracker.registerObserver(
            entityName: "person", operation: .insert, policy: FailurePolicy(initialDelay: .milliseconds(1)),
            onExpired: { expiry in
                await notes.add("observer \(expiry.reason) \(expiry.lost?.number ?? 0) \(expiry.after.number)")
                if await notes.all.count(where: { $0.hasPrefix("observer") }) == 1 { throw Later() }
            },
            callback: { contexts in await notes.add("\(contexts[0].objectIDURL.lastPathComponent)") })
        await tracker.registerMergeHook(onExpired: { _ in await notes.add("merge") }) { _ in .goOn }
        let (lost, after) = try await lossy(tracker, store)
        try await tracker.runOnce()
        let told = "observer expired \(lost.number) \(after.number)"
        #expect(await notes.all == ["p1", told, told, "merge", "p3"])
        #expect(tracker.state.lostHistory?.lost == lost)
        #expect(tracker.state.lostHistory?.after == after)
        // It is told once.
        try await tracker.runOnce()
        #expect(await notes.all.count == 5)
    }

    @Test("Without onExpired the loss is an error in the log, for each hook that may need to know")
    func withoutAClosure() async throws {
        let lines = LoggedLines(from: .info)
        let store = try TrackedStore()
        let tracker = store.tracker(reporter: LogReporter(logger: lines.logger))
        await tracker.registerObserver(entityName: "person", operation: .insert) { _ in }
        await tracker.registerMergeHook { _ in .goOn }
        #expect(tracker.state.lostHistory == nil)
        let (lost, _) = try await lossy(tracker, store)
        try await tracker.runOnce()
        let errors = lines.texts.filter { $0.hasPrefix("error") }
        #expect(errors.count == 2, "\(lines.texts)")
        #expect(errors.allSatisfy { $0.contains("onExpired") && $0.contains("\(lost)") })
        #expect(tracker.state.lostHistory?.reason == .expired)
        #expect(tracker.state.position?.number == 3)
    }

    @Test("The state says what a tracker waits for, until it no longer does")
    func problems() async throws {
        struct NotNow: Error {}
        let store = try TrackedStore()
        let tracker = store.tracker()
        let notes = Notes()
        await tracker.registerObserver(
            entityName: "person", operation: .insert, policy: FailurePolicy(initialDelay: .milliseconds(1))
        ) { _ in
            await notes.add(tracker.state.hookFailure?.message ?? "-")
            if await notes.all.count == 1 { throw NotNow() }
        }
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await tracker.runOnce()
        let seen = await notes.all
        #expect(seen.count == 2 && seen[0] == "-" && seen[1].contains("NotNow"))
        #expect(tracker.state.hookFailure == nil)
    }

    @Test("A closure that takes longer than its time has failed, and is called again")
    func timeout() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker()
        let notes = Notes()
        await tracker.registerObserver(
            entityName: "person", operation: .insert, policy: FailurePolicy(initialDelay: .milliseconds(1)),
            timeout: .milliseconds(50)
        ) { _ in
            await notes.add("call")
            if await notes.all.count == 1 { try await Task.sleep(for: .seconds(3600)) }
        }
        let slow = await tracker.registerMergeHook(
            policy: FailurePolicy(attempts: 1, afterLastAttempt: .skip), timeout: .milliseconds(50)
        ) { _ in
            try await Task.sleep(for: .seconds(3600))
            return .finish
        }
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await tracker.runOnce()
        #expect(await notes.all == ["call", "call"])
        #expect(tracker.state.hookFailure?.reason == .timedOut)
        #expect(tracker.state.position?.number == 1)
        #expect(await tracker.removeMergeHook(id: slow))
    }

    // MARK: What is seen without setting anything up

    @Test("A closure that throws is seen on standard error, with nothing set up")
    func defaultReporter() async throws {
        let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            struct Broken: Error {}
            let store = try TrackedStore()
            let tracker = PersistentHistoryTracker(
                store: store.path, currentAuthor: "MainApp", allAuthors: ["MainApp", "Widget"],
                stateFolder: store.stateFolder)
            await tracker.registerObserver(
                entityName: "person", operation: .insert,
                policy: FailurePolicy(attempts: 1, afterLastAttempt: .skip)
            ) { _ in throw Broken() }
            try store.write("INSERT INTO person (id) VALUES (1)")
            try await tracker.runOnce()
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains("error") && text.contains("Broken()"), "\(text)")
    }

    @Test("Level 0 is silent, level 1 says what is important, level 2 everything")
    func levels() async throws {
        let store = try TrackedStore()
        func lines(_ level: Int, _ first: Int) async throws -> [String] {
            let lines = LoggedLines(from: .info)
            let tracker = store.tracker(reporter: LogReporter(logLevel: level, logger: lines.logger))
            struct Broken: Error {}
            await tracker.registerObserver(
                entityName: "person", operation: .insert,
                policy: FailurePolicy(attempts: 1, afterLastAttempt: .skip)
            ) { _ in throw Broken() }
            await tracker.registerMergeHook { _ in .goOn }
            let merged = Notes()
            await tracker.registerMergeHook { _ in
                await merged.add("merged")
                return .goOn
            }
            try await running(tracker) {
                // The first may have been there when the store was opened, without a notification.
                for id in 1...2 {
                    try store.write("INSERT INTO person (id) VALUES (\(first + id))")
                    _ = await merged.first(id)
                }
            }
            return lines.texts
        }
        #expect(try await lines(0, 10) == [])
        let important = try await lines(1, 20)
        #expect(important.contains { $0.hasPrefix("error") && $0.contains("Broken()") })
        #expect(important.allSatisfy { !$0.hasPrefix("info") && !$0.hasPrefix("debug") }, "\(important)")
        let all = try await lines(2, 30)
        #expect(all.contains { $0.contains("The store has changed, up to ") })
        #expect(all.contains { $0.contains("The cursor of \"MainApp\" is at ") })
    }
}
