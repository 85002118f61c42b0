import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// `historyctl migrate`: a tool that rebuilds tables and drops columns is run on a tracked store, in every order with
/// the daemon.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MigrateTests {
    enum Order: String, CaseIterable {
        case daemonRuns, daemonIsDown, daemonStartsMeanwhile, daemonStopsMeanwhile
    }

    /// What no store with triggers lets a tool do.
    private static let migration = """
        ALTER TABLE person DROP COLUMN age; ALTER TABLE person RENAME COLUMN name TO nick;
        CREATE TABLE new (code TEXT PRIMARY KEY, price INTEGER) WITHOUT ROWID;
        INSERT INTO new SELECT code, price * 100 FROM item; DROP TABLE item; ALTER TABLE new RENAME TO item;
        INSERT INTO person (id, nick) VALUES (7, 'unrecorded');
        """

    private static let entities = #"{"person": {"preserve": ["email"]}, "item": {}}"#

    /// A command that runs SQL, and waits between two statements until a file is there.
    private func command(_ bench: Workbench, _ sql: String, failing: Bool = false) -> [String] {
        let code = """
            import os, sqlite3, sys, time
            c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
            open(sys.argv[3] + '-begun', 'w').close()
            while not os.path.exists(sys.argv[3]): time.sleep(0.005)
            c.executescript('BEGIN;' + sys.argv[2] + ';COMMIT')
            c.close()
            sys.exit(int(sys.argv[4]))
            """
        return [Products.python, "-c", code, bench.store, sql, bench.path("go"), failing ? "3" : "0"]
    }

    private func begin(_ bench: Workbench, _ sql: String, failing: Bool = false) async throws -> RunningProgram
    {
        let program = try bench.startCtl(
            ["migrate", bench.store, "--"] + command(bench, sql, failing: failing))
        try await eventually("the command's begin", state: { program.errors }) {
            FileManager.default.fileExists(atPath: bench.path("go-begun"))
        }
        return program
    }

    private func triggers(_ bench: Workbench) async throws -> Set<String> {
        let names = try await bench.sql(
            "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'historyd%'")
        return Set(names.wholeLines.map { $0.split(separator: "_").dropFirst(2).joined(separator: "_") })
    }

    @Test(
        "Every consumer is told, once, and all is recorded again", arguments: Order.allCases, Journal.allCases)
    func orders(_ order: Order, _ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(entities: Self.entities, authors: StoreSetup.mirrored()))
            var daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person VALUES (1, 'Ann', 'a', 1); INSERT INTO item VALUES ('a', 1)", as: "App")
            try await bench.waitForReplica(daemon)
            if order == .daemonIsDown || order == .daemonStartsMeanwhile { try await daemon.stop() }
            let migration = try await begin(bench, Self.migration)
            #expect(try await triggers(bench) == ["table"])
            if order == .daemonStopsMeanwhile { try await daemon.stop() }
            if order == .daemonStartsMeanwhile { daemon = try await bench.startDaemon() }
            if order == .daemonRuns {
                try await daemon.logged("A migration of store \"contacts\" is under way")
            }
            try bench.folder.write("go", "")
            #expect(try await migration.end() == .exited(0), "\(migration.errors)")
            #expect(
                migration.errors == """
                    updated item
                    updated person
                    changes of item, person may have gone unrecorded until now; every consumer is notified

                    """)
            if order == .daemonIsDown || order == .daemonStopsMeanwhile {
                daemon = try await bench.startDaemon()
            }
            try await bench.write("DELETE FROM person WHERE id = 1", as: "App")
            try await bench.waitForReplica(daemon)
            let calls = try await bench.calls(4, of: daemon)
            try await daemon.stop()
            #expect(
                calls.map(\.summary) == [
                    "audit/all Mirror 2 App person insert p1", "audit/all Mirror 2 App item insert ta",
                    "audit/all Mirror recreated 2 > 3", "audit/all Mirror 4 App person delete p1",
                ])
            #expect(calls[2].text.contains(#""entities":["item","person"]"#))
            #expect(calls[3].text.contains(#""tombstone":{"attributes":{"email":"a"}"#))
            try await bench.expectReplicaEqualsStore(["person": "id", "item": "code"])
        }
    }

    @Test("Where nothing is written, nobody is told; the tracking is as before")
    func nothingWritten() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(entities: Self.entities))
            let daemon = try await bench.startDaemon()
            let before = try await triggers(bench)
            let migration = try await begin(bench, "SELECT 1; ROLLBACK; BEGIN", failing: true)
            try bench.folder.write("go", "")
            #expect(try await migration.end() == .exited(3))
            #expect(migration.errors == "updated item\nupdated person\n")
            #expect(try await triggers(bench) == before)
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "App")
            let calls = try await bench.calls(1, of: daemon)
            try await daemon.stop()
            #expect(calls.map(\.summary) == ["audit/all MainApp 1 App person insert p1"])
        }
    }

    @Test("A command that fails half way, or cannot be started, leaves the store recorded")
    func failing() async throws {
        try await withWorkbench { bench in
            try Tracking.track(bench.store, ["person": ["name"], "item": nil])
            let migration = try await begin(bench, "INSERT INTO item VALUES ('a', 1)", failing: true)
            let track = try await bench.ctl("track", bench.store)
            #expect(track.status == .exited(75) && track.errors.contains("A migration of the store"))
            let second = try await bench.ctl("migrate", bench.store, "--", "true")
            #expect(second.status == .exited(75))
            try bench.folder.write("go", "")
            #expect(try await migration.end() == .exited(3))
            #expect(try await bench.ctl("migrate", bench.store, "--", "/nowhere/tool").status == .exited(64))
            #expect(
                try await bench.ctl("migrate", bench.store, "--", "sh", "-c", "kill -9 $$").status
                    == .exited(137))
            try await bench.write("INSERT INTO item VALUES ('b', 1)", as: "App")
            #expect(
                try await bench.sql(
                    "SELECT kind & 3, coalesce(object, '') || coalesce(detail, '') FROM historyd_change")
                    == "3|recreated[\"item\",\"person\"]\n0|b\n")
            #expect(try StoreDescription(path: bench.store).entities.map(\.preserved) == [[], ["name"]])
        }
    }

    @Test("Only the entities that are named stop being recorded")
    func someEntities() async throws {
        try await withWorkbench { bench in
            try Tracking.track(bench.store, ["person": nil, "item": nil])
            let sql = "INSERT INTO item VALUES ('a', 1); ALTER TABLE person DROP COLUMN age;"
            let status = try await bench.ctl(
                "migrate", bench.store, "--entity", "person", "--", Products.shell, bench.store, sql)
            #expect(status.status == .exited(0), "\(status)")
            #expect(
                try await bench.sql(
                    "SELECT kind & 3, coalesce(object, '') || coalesce(detail, '') FROM historyd_change")
                    == "0|a\n3|recreated[\"person\"]\n")
        }
    }

    @Test("A renamed table is followed, and its preserved column")
    func renamed() async throws {
        try await withWorkbench { bench in
            try Tracking.track(bench.store, ["person": ["name"]])
            try await bench.steer(
                "migrate", bench.store, "--", Products.shell, bench.store,
                "ALTER TABLE person RENAME TO people; ALTER TABLE people RENAME COLUMN name TO nick")
            let entities = try StoreDescription(path: bench.store).entities
            #expect(entities.map(\.name) == ["people"])
            #expect(entities.map(\.preserved) == [["nick"]])
        }
    }

    @Test("A store that is not there or not tracked is the command's alone")
    func untracked() async throws {
        try await withWorkbench { bench in
            let new = bench.path("new.sqlite")
            let first = try await bench.ctl("migrate", new, "--", Products.shell, new, "CREATE TABLE t (a)")
            #expect(first.status == .exited(0))
            #expect(first.errors.contains("is not there or not tracked"))
            try await bench.steer("migrate", new, "--", Products.shell, new, "ALTER TABLE t ADD COLUMN b")
            #expect(try await bench.sql("SELECT name FROM sqlite_schema", of: new) == "t\n")
        }
    }

    @Test(
        "historyctl killed: the daemon waits for the command, then puts the triggers back",
        arguments: [true, false])
    func killed(_ isDaemonUp: Bool) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(entities: Self.entities, authors: StoreSetup.mirrored()))
            var daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "App")
            try await bench.waitForReplica(daemon)
            if !isDaemonUp { try await daemon.stop() }
            let migration = try await begin(bench, Self.migration)
            migration.signal(SIGKILL)
            _ = try await migration.end()
            if !isDaemonUp { daemon = try await bench.startDaemon() }
            try await daemon.logged("is under way")
            #expect(try await triggers(bench) == ["table"])
            try bench.folder.write("go", "")
            try await daemon.logged("event=changesUnrecorded")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "App")
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            try await bench.expectReplicaEqualsStore(["person": "id", "item": "code"])
            #expect(try bench.calls().map(\.summary).contains { $0.contains("recreated") })
        }
    }

    /// As under a parent that wants to know nothing of its children (execve(2)).
    private static let indifferent = """
        import os, signal, sys
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        os.execv(sys.argv[1], sys.argv[1:])
        """

    @Test("The command's end is noticed where the parent ignores its children's", .timeLimit(.minutes(60)))
    func underAnIndifferentParent() async throws {
        try await withWorkbench { bench in
            try Tracking.track(bench.store, ["person": nil])
            let before = try await triggers(bench)
            let command = """
                grep SigIgn /proc/self/status; grep SigBlk /proc/self/status; exit 3
                """
            let migration = try bench.start(
                [
                    Products.python, "-c", Self.indifferent, Products.historyctl, "migrate", bench.store, "--",
                    "/bin/sh", "-c", command,
                ], "migration")
            #expect(try await migration.end() == .exited(3))
            // Nor does the command start so.
            let masks = migration.output.matches(of: /\t([0-9a-f]+)/).compactMap {
                UInt64($0.output.1, radix: 16)
            }
            #expect(masks.count == 2 && masks[0] & 1 << (SIGCHLD - 1) == 0 && masks[1] == 0, "\(masks)")
            #expect(try await triggers(bench) == before)
        }
    }

    @Test("After a signal that comes before the command has begun, it does not begin")
    func signalledBefore() async throws {
        try await withWorkbench(.delete) { bench in
            try Tracking.track(bench.store, ["person": nil])
            let before = try await triggers(bench)
            let writer = try await bench.startPython(
                """
                c = connect(store); c.execute('BEGIN EXCLUSIVE'); print('begun', flush=True)
                while not os.path.exists(bench + '/end'): time.sleep(0.005)
                """)
            try await eventually("the lock") { writer.output.contains("begun") }
            let migration = try bench.startCtl(["migrate", bench.store, "--", "touch", bench.path("touched")])
            try await eventually("the wait") {
                RunningProgram.text("/proc/\(migration.processID)/status").contains("SigBlk:\t0000000000014007")
            }
            migration.signal(SIGTERM)
            try bench.folder.write("end", "")
            try await writer.succeed()
            #expect(try await migration.end() == .exited(128 + SIGTERM))
            #expect(!FileManager.default.fileExists(atPath: bench.path("touched")))
            #expect(try await triggers(bench) == before)
        }
    }

    @Test("A signal is passed on to the command, and the triggers are put back")
    func signalled() async throws {
        try await withWorkbench { bench in
            try Tracking.track(bench.store, ["person": nil])
            let before = try await triggers(bench)
            let migration = try await begin(bench, "SELECT 1")
            migration.signal(SIGTERM)
            #expect(try await migration.end() == .exited(128 + SIGTERM))
            #expect(try await triggers(bench) == before)
        }
    }
}
