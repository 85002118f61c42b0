import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// A store is known by the id in it. Whatever is done to its file, a consumer goes on exactly where
/// it was, or is told that it cannot.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct StoreIdentityTests {
    /// Ways in which a store comes to another file, all closed and with nothing running.
    private static let moves = [
        "moved": "mv contacts.sqlite other.sqlite",
        "copied": "cp contacts.sqlite other.sqlite; rm contacts.sqlite",
        "backed up": "sqlite3 contacts.sqlite '.backup other.sqlite'; rm contacts.sqlite",
        "vacuumed into another file":
            #"sqlite3 contacts.sqlite "VACUUM INTO 'other.sqlite'"; rm contacts.sqlite"#,
        "dumped and read": "sqlite3 contacts.sqlite .dump | sqlite3 other.sqlite; rm contacts.sqlite",
        "behind a symbolic link": "ln -s contacts.sqlite other.sqlite",
        "in a folder behind one":
            "mkdir d; mv contacts.sqlite d/other.sqlite; ln -s d l; ln -s l/other.sqlite other.sqlite",
        "behind a hard link": "ln contacts.sqlite other.sqlite",
        "vacuumed": "sqlite3 contacts.sqlite VACUUM; mv contacts.sqlite other.sqlite",
        "of another page size":
            "sqlite3 contacts.sqlite 'PRAGMA journal_mode = DELETE; PRAGMA page_size = 8192; VACUUM'; mv contacts.sqlite other.sqlite",
    ]

    @Test("Under another path, it goes on where it was", arguments: moves.keys.sorted(), Journal.allCases)
    func elsewhere(_ name: String, _ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.shell(Self.moves[name] ?? "false")
            let store = bench.path("other.sqlite")
            try bench.configure(StoreSetup(path: "other.sqlite", authors: StoreSetup.mirrored()))
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget", to: store)
            let (status, _, log) = try await bench.runDaemon("--once")
            #expect(status == .exited(0))
            let calls = try bench.calls().map(\.summary)
            #expect(
                calls == (1...4).map { "audit/all Mirror \($0) Widget person insert p\($0)" },
                "\(log.joined(separator: "\n"))")
            #expect(
                try await bench.sql("SELECT group_concat(id) FROM person", of: bench.path("replica.sqlite"))
                    == "1,2,3,4\n")
            #expect(!log.contains { $0.hasPrefix("warning") || $0.hasPrefix("error") })
        }
    }

    /// Ways in which it comes to another file while the daemon looks on.
    private static let replacements = [
        "vacuumed into another file":
            #"sqlite3 contacts.sqlite "VACUUM INTO 'new'"; rm -f contacts.sqlite-*; mv new contacts.sqlite"#,
        "backed up": "sqlite3 contacts.sqlite '.backup new'; rm -f contacts.sqlite-*; mv new contacts.sqlite",
        "behind a symbolic link":
            "sqlite3 contacts.sqlite '.backup new'; rm -f contacts.sqlite-*; ln -s new link; mv -T link contacts.sqlite",
        "vacuumed": "sqlite3 contacts.sqlite VACUUM",
        "restored as it was": "sqlite3 contacts.sqlite '.backup new' '.restore new'",
    ]

    @Test(
        "Replaced by a copy of itself, it goes on where it was", arguments: replacements.keys.sorted(),
        Journal.allCases)
    func copied(_ name: String, _ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.waitForCursor(at: 2, daemon)
            try await bench.shell(Self.replacements[name] ?? "false")
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.waitForCursor(at: 3, daemon)
            try await daemon.stop()
            #expect(
                try bench.calls().map(\.summary)
                    == (1...3).map { "audit/all Mirror \($0) Widget person insert p\($0)" })
            #expect(!daemon.log.contains { $0.contains("event=tokenExpired") })
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }

    enum Restoration: String, CaseIterable, Sendable {
        /// Another file in its place, while the daemon looks on.
        case byRename
        /// The same file, with the pages of the backup.
        case inPlace
        /// While the daemon does not run.
        case whileStopped
    }

    /// Transactions since the backup, of which the store had three.
    enum Since: Int, CaseIterable, Sendable {
        case none = 0
        case fewer = 2
        case asMany = 3
        case more = 5
    }

    @Test(
        "Restored from an older backup and written to, it tells, and its consumers start over",
        arguments: Restoration.allCases, Since.allCases)
    func restored(_ restoration: Restoration, _ since: Since) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            var daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person VALUES (1, 'kept', NULL, 1)", "INSERT INTO person (id) VALUES (2)",
                as: "Widget")
            try await bench.sql("VACUUM INTO '\(bench.path("backup.sqlite"))'")
            for id in 3...5 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.waitForCursor(at: 5, daemon)

            let fillings = { daemon.log.filter { $0.contains("event=contextRefilled") }.count }
            let before = restoration == .whileStopped ? 0 : fillings()
            // Nobody looks on while it is written to: it may look as if it had only gone on.
            if restoration == .whileStopped { try await daemon.stop() } else { daemon.program.signal(SIGSTOP) }
            let store = restoration == .inPlace ? bench.store : bench.path("backup.sqlite")
            if restoration == .inPlace { try await bench.sql(".restore \(bench.path("backup.sqlite"))") }
            for id in 0..<since.rawValue {
                try await bench.write("INSERT INTO person (id) VALUES (\(100 + id))", as: "Widget", to: store)
            }
            if restoration != .inPlace { bench.replace(bench.store, by: store) }
            if restoration == .whileStopped {
                daemon = try await bench.startDaemon()
            } else {
                daemon.program.signal(SIGCONT)
            }
            try await daemon.logged("event=tokenExpired")
            try await daemon.logged("event=contextRefilled")
            // From there on nothing is left out.
            let begun = 2 + since.rawValue
            try await bench.write("INSERT INTO person (id) VALUES (200)", as: "Widget")
            let last = "audit/all Mirror \(begun + 1) Widget person insert p200"
            try await eventually("the call", state: { daemon.log.joined(separator: "\n") }) {
                try bench.calls().last?.summary == last
            }
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            let delivered = try bench.calls().filter { $0.params.transaction != nil }.map(\.summary)
            #expect(delivered == (1...5).map { "audit/all Mirror \($0) Widget person insert p\($0)" } + [last])
            #expect(daemon.log.filter { $0.contains("event=tokenExpired") }.count == 1)
            #expect(
                fillings() == before + 1,
                "A large store is copied once, not twice.\n\(daemon.log.joined(separator: "\n"))")
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }

    /// A pass that gathers commits ends where the history ended as it began: before the consumer, in a restored store.
    @Test("A consumer with a batch window and no context starts over, too", arguments: Restoration.allCases)
    func restoredWithinAWindow(_ restoration: Restoration) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: #"[{"name": "MainApp", "batchWindow": "50ms"}]"#))
            var daemon = try await bench.startDaemon()
            try await bench.sql("VACUUM INTO '\(bench.path("backup.sqlite"))'")
            for id in 1...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(3, of: daemon)
            try await bench.waitForCursor(at: 3, daemon)
            if restoration == .whileStopped { try await daemon.stop() }
            if restoration == .inPlace {
                try await bench.sql(".restore \(bench.path("backup.sqlite"))")
            } else {
                bench.replace(bench.store, by: bench.path("backup.sqlite"))
            }
            if restoration == .whileStopped { daemon = try await bench.startDaemon() }
            try await daemon.logged("event=tokenExpired")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await eventually("the call", state: { daemon.log.joined(separator: "\n") }) {
                try bench.calls().last?.summary == "audit/all MainApp 1 Widget person insert p4"
            }
            try await daemon.stop()
        }
    }

    @Test("Restored from before it was tracked, it is a store of its own")
    func restoredFromBefore() async throws {
        try await withWorkbench { bench in
            try await bench.sql(
                "INSERT INTO person (id) VALUES (1); VACUUM INTO '\(bench.path("backup.sqlite"))'")
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(1, of: daemon)
            bench.replace(bench.store, by: bench.path("backup.sqlite"))
            try await daemon.logged("is new", times: 2)
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            let tokens = try bench.calls().compactMap { $0.params.transaction?.token.split(separator: ":") }
            #expect(tokens.map(\.[1]) == ["1", "1"] && tokens[0][0] != tokens[1][0])
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }

    @Test("A copy beside the store is not served with the store's cursors")
    func copyBesideTheStore() async throws {
        try await withWorkbench { bench in
            let original = StoreSetup(authors: StoreSetup.named("Mirror"))
            let copy = StoreSetup(name: "copy", path: "copy.sqlite", authors: StoreSetup.named("Mirror"))
            try bench.configure(original)
            let first = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: first)
            try await bench.sql("VACUUM INTO '\(bench.path("copy.sqlite"))'")
            try bench.configure(original, copy)
            first.program.signal(SIGHUP)
            try await first.logged("event=storeLost store=copy")
            try await bench.write(
                "INSERT INTO person (id) VALUES (21)", as: "Widget", to: bench.path("copy.sqlite"))
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(2, of: first)
            #expect(
                first.problems(bench) == [
                    "error: Store \"copy\" cannot be used. The store \"copy.sqlite\" is a copy of \"contacts.sqlite\", which is still there: both have the id \(try await bench.id()). Where the store was moved, remove the old file; `historyctl untrack` and `track` make a store of its own of a copy. event=storeLost store=copy"
                ])
            try Tracking.untrack(bench.path("copy.sqlite"))
            try Tracking.track(bench.path("copy.sqlite"), ["person": nil])
            try await bench.write(
                "INSERT INTO person (id) VALUES (22)", as: "Widget", to: bench.path("copy.sqlite"))
            let calls = try await bench.calls(3, of: first)
            try await first.stop()
            #expect(
                calls.map { "\($0.params.store) \($0.summary)" } == [
                    "contacts audit/all Mirror 1 Widget person insert p1",
                    "contacts audit/all Mirror 2 Widget person insert p2",
                    "copy audit/all Mirror 1 Widget person insert p22",
                ])
        }
    }
}

extension Workbench {
    /// Runs commands in the workbench's folder.
    func shell(_ commands: String) async throws {
        try await start(
            ["/bin/sh", "-ec", "cd '\(folder.path)'; \(commands)"], "shell-\(UUID().uuidString)"
        ).succeed()
    }
}
