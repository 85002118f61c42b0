import Foundation
import GRDB
import PersistentHistory
import TestSupport
import Testing

/// Registration, order and life of the tracker.
@Suite(.timeLimit(.minutes(60))) struct TrackerTests {
    @Test func oneCallForEachTransactionEntityAndOperationInTheOrderOfRegistration() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker()
        let notes = Notes()
        for name in ["first", "second"] {
            await tracker.registerObserver(entityName: "person", operation: .insert) { contexts in
                let keys = contexts.map { $0.objectIDURL.lastPathComponent }.joined(separator: ",")
                await notes.add("\(name) \(contexts[0].author ?? "-") \(keys)")
            }
        }
        await tracker.registerObserver(entityName: "item", operation: .update) { contexts in
            await notes.add("items \(contexts.map { $0.changedProperties.joined(separator: "+") })")
        }
        await tracker.registerObserver(entityName: "*", operation: .delete) { contexts in
            await notes.add(
                "gone \(contexts[0].entityName) \(contexts.map { $0.tombstone?.attributes ?? [:] })")
        }
        try store.write(
            """
            INSERT INTO person VALUES (1, 'Ada', NULL), (2, 'Bob', NULL); INSERT INTO item (id) VALUES (7);
            UPDATE item SET title = 't', note = 'n'; DELETE FROM person WHERE id = 2
            """)
        try store.write("INSERT INTO person (id) VALUES (3)", as: "Importer")
        try store.write("INSERT INTO person (id) VALUES (4)", as: "MainApp")
        try await tracker.runOnce()
        #expect(
            await notes.all == [
                "first Widget p1,p2", "second Widget p1,p2", #"items ["title+note"]"#,
                #"gone person [[name: "Bob"]]"#, "first Importer p3", "second Importer p3",
            ])
        // Nothing comes twice.
        try await tracker.runOnce()
        #expect(await notes.all.count == 6)
    }

    @Test func removalOfOneOfThreeOfAPairAndOfAll() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker()
        let notes = Notes()
        var ids: [UUID] = []
        for name in 1...3 {
            ids.append(
                await tracker.registerObserver(entityName: "person", operation: .insert) { _ in
                    await notes.add("\(name)")
                })
        }
        await tracker.registerObserver(entityName: "person", operation: .update) { _ in
            await notes.add("update")
        }
        let merge = await tracker.registerMergeHook { _ in .goOn }

        #expect(Set(ids).count == 3)
        #expect(await tracker.removeObserver(id: ids[1]))
        #expect(await !tracker.removeObserver(id: ids[1]), "it is gone")
        #expect(await !tracker.removeObserver(id: merge), "it is no observer")
        #expect(await !tracker.removeMergeHook(id: ids[0]), "it is no merge hook")
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await tracker.runOnce()
        #expect(await notes.all == ["1", "3"])

        #expect(await tracker.removeObserver(entityName: "person", operation: .insert) == 2)
        #expect(await tracker.removeObserver(entityName: "person", operation: .insert) == 0)
        try store.write("INSERT INTO person (id) VALUES (2)")
        try store.write("UPDATE person SET name = 'x'")
        try await tracker.runOnce()
        #expect(await notes.all == ["1", "3", "update"])

        #expect(await tracker.removeAllObservers() == 1)
        #expect(await tracker.removeMergeHook(id: merge))
        #expect(await tracker.removeAllMergeHooks() == 0)
    }

    @Test func mergeHooksAreAPipeline() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker(contexts: [store.replica])
        try await tracker.runOnce()
        let notes = Notes()
        func hook(_ name: String, before: UUID? = nil, _ result: MergeHookResult = .goOn) async -> UUID {
            await tracker.registerMergeHook(before: before) { input in
                await notes.add(
                    "\(name) \(input.transactions.map { $0.author ?? "-" }) \(input.contexts.map(\.name))")
                return result
            }
        }
        let second = await hook("second")
        let first = await hook("first", before: second)
        _ = await hook("third", before: UUID())
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await tracker.runOnce()
        #expect(
            await notes.all == ["first", "second", "third"].map { #"\#($0) ["Widget"] ["view"]"# })
        #expect(try store.replicaRows("SELECT id FROM person") == ["1"])

        // After finish neither later hooks nor the default merge come, and the place moves on.
        let last = await hook("last", before: second, .finish)
        try store.write("INSERT INTO person (id) VALUES (2)")
        try await tracker.runOnce()
        #expect(await notes.all.suffix(2) == [#"first ["Widget"] ["view"]"#, #"last ["Widget"] ["view"]"#])
        await tracker.removeMergeHook(id: last)
        await tracker.removeMergeHook(id: first)
        try store.write("INSERT INTO person (id) VALUES (3)")
        try await tracker.runOnce()
        #expect(await notes.all.count == 7)
        #expect(try store.replicaRows("SELECT id FROM person") == ["1", "3"])
    }

    @Test func aClosureThatThrowsIsCalledAgainAndTheOthersAreNot() async throws {
        struct Later: Error {}
        let store = try TrackedStore()
        let tracker = store.tracker(contexts: [store.replica])
        let notes = Notes()
        await tracker.registerObserver(entityName: "person", operation: .insert) { _ in
            await notes.add("before")
        }
        await tracker.registerObserver(
            entityName: "person", operation: .insert, policy: FailurePolicy(initialDelay: .milliseconds(1))
        ) { _ in
            let attempt = await notes.all.count { $0 == "attempt" }
            await notes.add("attempt")
            if attempt < 2 { throw Later() }
        }
        await tracker.registerMergeHook(policy: FailurePolicy(initialDelay: .milliseconds(1))) { _ in
            let attempt = await notes.all.count { $0 == "merge" }
            await notes.add("merge")
            if attempt < 1 { throw Later() }
            return .goOn
        }
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await tracker.runOnce()
        #expect(await notes.all == ["before", "attempt", "attempt", "attempt", "merge", "merge"])
        #expect(try store.replicaRows("SELECT id FROM person") == ["1"])
    }

    @Test func startAndStop() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker(autoStart: false)
        let notes = Notes()
        await tracker.registerObserver(entityName: "person", operation: .insert) { contexts in
            await notes.add("\(contexts[0].objectIDURL.lastPathComponent)")
        }
        try store.write("INSERT INTO person (id) VALUES (1)")
        try await running(tracker) {
            #expect(await notes.all == [])
            tracker.start()
            // What came while it was off is worked off first.
            #expect(await notes.first(1) == ["p1"])
            try store.write("INSERT INTO person (id) VALUES (2)")
            #expect(await notes.first(2) == ["p1", "p2"])
            for id in 3...6 {
                tracker.stop()
                try store.write("INSERT INTO person (id) VALUES (\(id))")
                tracker.start()
                #expect(await notes.first(id).last == "p\(id)")
            }
            tracker.stop()
        }
        #expect(await notes.all == (1...6).map { "p\($0)" })
        // A tracker may be run again.
        tracker.start()
        try await running(tracker) {
            try store.write("INSERT INTO person (id) VALUES (7)")
            #expect(await notes.first(7).last == "p7")
        }
    }

    /// In the tracker's own process, as in an app, there are other connections to the store.
    @Test(.enabled(if: hasPython, "/usr/bin/python3 is not installed."))
    func connectionsOfTheSameProcessKeepTheirLocks() async throws {
        let store = try TrackedStore()
        let app = try DatabaseQueue(path: store.path)
        try await app.write { db in
            try db.installHistory()
            try db.declareAuthor("Widget")
            try db.execute(sql: "INSERT INTO person (id) VALUES (0)")
        }
        #expect(try await locker(of: store.path) == getpid(), "a connection in WAL mode holds a lock")
        let tracker = store.tracker()
        let notes = Notes()
        await tracker.registerObserver(entityName: "person", operation: .insert) { contexts in
            await notes.add("\(contexts[0].objectIDURL.lastPathComponent)")
        }
        for round in 1...3 {
            try await running(tracker) {
                try await app.write {
                    try $0.execute(sql: "INSERT INTO person (id) VALUES (?)", arguments: [round])
                }
                #expect(await notes.first(round + 1).last == "p\(round)")
            }
            #expect(try await locker(of: store.path) == getpid(), "the lock is still there")
        }
        try app.close()
    }

    /// Who holds a lock on a file, if anybody does. Asked by another process: to close the file here
    /// would drop the locks.
    private func locker(of path: String) async throws -> pid_t? {
        let ask = """
            import fcntl, struct, sys
            layout = "hhqqi4x"  # struct flock of Linux with 64 bits (fcntl(2))
            wish = struct.pack(layout, fcntl.F_WRLCK, 0, 0, 0, 0)
            kind, _, _, _, pid = struct.unpack(layout, fcntl.fcntl(open(sys.argv[1], "r+"), fcntl.F_GETLK, wish))
            print(pid if kind != fcntl.F_UNLCK else "")
            """
        let outcome = try await Command("python3", ["-c", ask, path]).run()
        return pid_t(outcome.output.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    private static let hasPython = FileManager.default.isExecutableFile(atPath: "/usr/bin/python3")

    @Test func trackersOfSeveralProgramsShareTheStateAndWaitForEachOtherWithTheCleaning() async throws {
        let store = try TrackedStore()
        let app = store.tracker("MainApp", others: ["Widget"])
        let widget = store.tracker("Widget", others: ["MainApp"])
        let notes = Notes()
        await app.registerObserver(entityName: "person", operation: .insert) { contexts in
            await notes.add("app \(contexts[0].author ?? "-")")
        }
        await widget.registerObserver(entityName: "person", operation: .insert) { contexts in
            await notes.add("widget \(contexts[0].author ?? "-")")
        }
        try store.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
        try store.write("INSERT INTO person (id) VALUES (2)", as: "MainApp")
        try store.write("INSERT INTO person (id) VALUES (3)", as: "Importer")
        try await app.runOnce()
        let cleaner = app.cleanerBuilder()
        #expect(try await cleaner.clean() == nil, "Widget has had nothing yet")
        try await widget.runOnce()
        try await app.runOnce()
        #expect(
            await notes.all == ["app Widget", "app Importer", "widget MainApp", "widget Importer"])
        #expect(try await cleaner.clean()?.deleted == 3)
        try store.write("INSERT INTO person (id) VALUES (4)", as: "Importer")
        try await app.runOnce()
        try await cleaner.clean()
        #expect(try store.rows(left) == ["1"], "Widget has not had the last one")
        try await widget.runOnce()
        try await cleaner.clean()
        #expect(try store.rows(left) == ["0"])
    }

    private let left = "SELECT count(*) FROM historyd_change WHERE kind & 3 <> 3"

    @Test func theStrategyCleansToo() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker(others: [], clean: .byNotification(times: 2))
        try store.write("INSERT INTO person (id) VALUES (1)", as: "Importer")
        try await tracker.runOnce()
        #expect(try store.rows(left) == ["1"])
        try store.write("INSERT INTO person (id) VALUES (2)", as: "Importer")
        try await tracker.runOnce()
        #expect(try store.rows(left) == ["0"])
    }

    // MARK: Stores that are not there

    @Test func aMissingStoreIsAnError() async throws {
        let folder = try TemporaryFolder()
        let tracker = PersistentHistoryTracker(
            store: folder.file("typo.sqlite"), currentAuthor: "MainApp", allAuthors: ["MainApp"],
            stateFolder: folder.path)
        let error = try await #require(throws: HistoryError.self) { try await tracker.run() }
        #expect(error.code == .storeMissing && error.message.contains("typo.sqlite"))
    }

    @Test func anUntrackedStoreIsAnError() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("store.sqlite")
        try await DatabaseQueue(path: path).writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE person (id INTEGER PRIMARY KEY)")
        }
        let tracker = PersistentHistoryTracker(
            store: path, currentAuthor: "MainApp", allAuthors: ["MainApp"], stateFolder: folder.path)
        let error = try await #require(throws: HistoryError.self) { try await tracker.run() }
        #expect(error.code == .notTracked && error.hint?.contains("Tracking.track") == true)
    }

    @Test func aStoreThatComesLaterIsWaitedFor() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("store.sqlite")
        var configuration = PersistentHistoryTracker.Configuration(
            store: path, currentAuthor: "MainApp", allAuthors: ["MainApp"], stateFolder: folder.path)
        configuration.waitsForStore = true
        let tracker = PersistentHistoryTracker(configuration)
        let notes = Notes()
        await tracker.registerObserver(entityName: "person", operation: .insert) { contexts in
            for context in contexts { await notes.add("\(context.author ?? "-")") }
        }
        try await running(tracker) {
            try await DatabaseQueue(path: path).writeWithoutTransaction { db in
                try db.execute(sql: "CREATE TABLE person (id INTEGER PRIMARY KEY)")
            }
            try Tracking.track(path, ["person": nil])
            try AuthoredSQL.run("INSERT INTO person VALUES (1)", on: path, author: "Widget")
            #expect(await notes.first(1) == ["Widget"])
        }
    }
}
