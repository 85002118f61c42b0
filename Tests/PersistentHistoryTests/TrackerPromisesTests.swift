import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What a tracker says of its errors, and of what it cannot do.
@Suite(.timeLimit(.minutes(60))) struct TrackerPromisesTests {
    @Test("A state folder that is not there is an error at once, and not waited for", arguments: [true, false])
    func stateFolder(isFile: Bool) async throws {
        let store = try TrackedStore()
        let folder = store.stateFolder + "/state"
        if isFile { try "".write(toFile: folder, atomically: true, encoding: .utf8) }
        let tracker = PersistentHistoryTracker(
            PersistentHistoryTracker.Configuration(
                store: store.path, currentAuthor: "MainApp", allAuthors: ["MainApp"], stateFolder: folder))
        let error = await #expect(throws: HistoryError.self) { try await tracker.run() }
        #expect(error?.code == .stateUnusable)
        #expect(error?.message.contains(folder) == true && error?.hint != nil)
    }

    @Test("A cleaner that may delete nothing says for whom")
    func blocked() async throws {
        let store = try TrackedStore()
        let events = EventLog()
        let tracker = store.tracker(reporter: events)
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await tracker.runOnce()
        // "Widget" has never run.
        let cleaner = tracker.cleanerBuilder()
        #expect(try await cleaner.clean() == nil)
        let told = events.all().compactMap { if case .cleaningBlocked(let names) = $0 { names } else { nil } }
        #expect(told == [["Widget"]])
        #expect(try await cleaner.blockers() == ["Widget"])
    }

    @Test("A merge hook that rejects what is not in its batch has given no answer")
    func foreignRejection() async throws {
        let store = StoreID.sample()
        func transaction(_ number: Int64) -> HistoryTransaction {
            HistoryTransaction(
                token: HistoryToken(store: store, number: number), author: "A", context: nil, processID: nil,
                timestamp: HistoryTimestamp(milliseconds: 0), changes: [])
        }
        let header = HookCallHeader(
            store: "s", consumer: "Main", hook: "p/m", hookID: UUID(), delivery: "d")
        let call = MergeCall(header: header, transactions: [transaction(3), transaction(5)], contexts: [])
        func failure(_ numbers: Int64..., of other: StoreID? = nil) -> HookFailure.Reason? {
            let tokens = numbers.map { HistoryToken(store: other ?? store, number: $0) }
            let result = call.checked(.success(.rejecting(tokens)))
            if case .failure(let failure) = result { return failure.reason }
            return nil
        }
        #expect(failure() == nil)
        #expect(failure(3) == nil && failure(3, 5) == nil)
        #expect(failure(4) == .badAnswer && failure(3, 6) == .badAnswer)
        #expect(failure(3, of: .sample()) == .badAnswer || StoreID.sample() == store)
    }
}
