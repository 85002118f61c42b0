import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A lock that another program holds: on a store in a rollback journal's mode, and on a state.
@Suite(.timeLimit(.minutes(60))) struct LockedOutTests {
    @Test(
        "A commit ends the delay of a look that was locked out", arguments: ["DELETE", "TRUNCATE", "PERSIST"])
    func commitEndsDelay(_ journal: String) async throws {
        let store = try GatekeeperStore(pragmas: "PRAGMA journal_mode = \(journal)")
        var served = store.served(["Reader"])
        // No timer of a look fires while the test runs.
        served.visibilityRule = VisibilityRule(firstDelay: .seconds(3600), longestDelay: .seconds(3600))
        let listener = Listener()
        let (control, stop) = (StoreControl(), OneShotEvent())
        let runner = StoreRunner(
            served, hooks: HookRegistry([listener.observer()]), stateFolder: store.folder.path,
            reporter: EventLog(), stop: stop, control: control)
        let observer = try StoreObserver()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await observer.run() }
            group.addTask { try await runner.run(watching: observer.watch(store.path)) }
            group.addTask {
                defer {
                    stop.signal()
                    observer.stop()
                }
                try await Self.until { (try? await Self.isWaiting(control)) == false }
                let writer = try DatabaseQueue(path: store.path, configuration: Self.waiting)
                try await writer.writeWithoutTransaction { db in
                    try db.execute(sql: "BEGIN EXCLUSIVE; INSERT INTO t VALUES (1, 1)")
                }
                try await Self.until { try await Self.isWaiting(control) }
                try await writer.writeWithoutTransaction { db in try db.execute(sql: "COMMIT") }
                // A commit's events come just before its lock is released: the next one's are there for certain.
                var next = 1
                try await Self.until {
                    next += 1
                    try await writer.write { [next] db in
                        try db.execute(sql: "INSERT INTO t VALUES (?, 1)", arguments: [next])
                    }
                    return !listener.all().isEmpty
                }
                try writer.close()
            }
            try await group.waitForAll()
        }
        #expect(listener.all().first == "insert t 1")
    }

    @Test("A consumer that goes on, with nothing more to process, says so")
    func goesOn() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Reader"])
        try await store.serve(served)
        try store.write("Writer", "INSERT INTO t VALUES (1, 1)")
        let id = try HistoryReader(path: store.path).storeID
        let locker = try DatabaseQueue(path: store.folder.file("\(id).sqlite"), configuration: Self.waiting)
        // Its state is locked once the hook was called, until that is reported.
        let listener = Listener { _, _ in
            #expect(throws: Never.self) {
                try locker.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") }
            }
            return false
        }
        let events = EventLog { event in
            guard case .stateFailed = event else { return }
            #expect(throws: Never.self) { try locker.writeWithoutTransaction { try $0.execute(sql: "COMMIT") } }
        }
        try await store.runner(served, [listener.observer()], events).runOnce()
        #expect(listener.all() == ["insert t 1"])
        let told = events.names().filter { $0.hasSuffix("Failed") || $0.hasSuffix("Recovered") }
        #expect(told == ["stateFailed", "consumerFailed", "consumerRecovered", "stateRecovered"])
        try locker.close()
    }

    private static let waiting: Configuration = {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        configuration.allowsUnsafeTransactions = true
        return configuration
    }()

    private static func isWaiting(_ control: StoreControl) async throws -> Bool {
        try await control.withSession { session in
            if case .waiting = await session.phase { true } else { false }
        }
    }

    private static func until(_ holds: () async throws -> Bool) async throws {
        let end = ContinuousClock.now + .seconds(60)
        while try await !holds() {
            try #require(.now < end)
            try await Task.sleep(for: .milliseconds(2))
        }
    }
}
