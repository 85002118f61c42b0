import Foundation
import PersistentHistory
import TestSupport
import Testing

/// Two that serve one store without knowing of each other.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct StoreLeaseTests {
    private func launch(_ bench: Workbench, state: String, _ arguments: String...) throws -> DaemonUnderTest {
        let program = try bench.start(
            [Products.historyd, "--config", bench.configuration] + arguments, "daemon-\(state)",
            environment: ["STATE_DIRECTORY": bench.path(state)])
        return DaemonUnderTest(program, logFrom: 0)
    }

    @Test(
        "A second daemon with another state waits, names the first, and follows when that has ended",
        arguments: Journal.allCases, [true, false])
    func secondDaemon(_ journal: Journal, _ isKilled: Bool) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let first = try launch(bench, state: "one")
            try await first.logged("is open at")
            let second = try launch(bench, state: "two")
            let line = try await second.logged("event=storeLost")
            #expect(line.contains("is already served by process \(first.processID)"), "\(line)")
            try await second.ready()
            #expect(try await launch(bench, state: "three", "--once").program.end() == .exited(75))
            if isKilled { try await first.kill() } else { try await first.stop() }
            try await second.logged("is open at")
            try await second.stop()
        }
    }

    @Test("A tracker beside a daemon with another state fails at once, and names the daemon")
    func tracker() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try launch(bench, state: "one")
            try await daemon.logged("is open at")
            try FileManager.default.createDirectory(
                atPath: bench.path("two"), withIntermediateDirectories: false)
            let tracker = PersistentHistoryTracker(
                PersistentHistoryTracker.Configuration(
                    store: bench.store, currentAuthor: "Other", allAuthors: ["Other"],
                    stateFolder: bench.path("two")))
            let error = await #expect(throws: HistoryError.self) { try await tracker.run() }
            #expect(error?.code == .storeServedElsewhere)
            #expect(error?.message.contains("process \(daemon.processID)") == true)
            try await daemon.stop()
        }
    }

    @Test("The library cleans by hand only what nobody else serves")
    func cleaningByHand() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try launch(bench, state: "one")
            try await daemon.logged("is open at")
            let served = ServedStore(
                name: "contacts", path: bench.store, entities: nil, rule: DeliveryRule(authors: ["B"]),
                consumers: [])
            let other = ManualCleaning(served, stateFolder: bench.path("two"))
            try FileManager.default.createDirectory(
                atPath: bench.path("two"), withIntermediateDirectories: false)
            let same = ManualCleaning(served, stateFolder: bench.path("one"))
            _ = try await same.clean()
            let error = await #expect(throws: HistoryError.self) { _ = try await other.clean() }
            #expect(error?.code == .storeServedElsewhere)
            #expect(error?.message.contains("process \(daemon.processID)") == true)
            try await daemon.stop()
            _ = try await other.clean()
        }
    }

    @Test("A store that a daemon serves is not untracked: the daemon would track it again under a new id")
    func untracking() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            func id() async throws -> String {
                try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
            }
            let before = try await id()
            for isPurging in [false, true] {
                let refused =
                    isPurging
                    ? try await bench.ctl("untrack", bench.store, "--purge")
                    : try await bench.ctl("untrack", bench.store)
                #expect(refused.status == .exited(75), "\(refused)")
                #expect(
                    refused.errors.contains("Take store \"contacts\" out of \(bench.configuration)")
                        && refused.errors.contains("historyctl reload"), "\(refused)")
                #expect(try await id() == before)
            }
            // What is done as it says.
            try bench.configure(StoreSetup(name: "other", path: "other.sqlite"), plugins: [])
            try await bench.steer("reload")
            let done = try await bench.ctl("untrack", bench.store, "--purge")
            #expect(done.status == .exited(0), "\(done)")
            let left = try await bench.sql("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'historyd%'")
            #expect(left == "0\n")
            try await daemon.stop()
        }
    }

    @Test("An entity may be untracked while a daemon serves the store, which is said")
    func untrackingAnEntity() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(entities: nil), plugins: [])
            try Tracking.track(bench.store, ["person": nil])
            let daemon = try await bench.startDaemon()
            let noted = try await bench.ctl("untrack", bench.store, "person")
            #expect(noted.status == .exited(0) && noted.output.contains("untracked person"), "\(noted)")
            #expect(noted.errors.contains("If \(bench.configuration) names an entity"), "\(noted)")
            try await daemon.stop()
        }
    }
}
