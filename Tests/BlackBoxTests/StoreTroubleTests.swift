import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// Stores that are missing, damaged, locked: a clear line, nothing lost, no busy loop.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct StoreTroubleTests {
    @Test("A store that does not exist yet is served as soon as it does")
    func missing() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(path: "later/contacts.sqlite"))
            let daemon = try await bench.startDaemon()
            try await daemon.sparing()
            #expect(
                daemon.problems(bench) == [
                    #"error: Store "contacts" cannot be used. The store "later/contacts.sqlite" cannot be opened: No such file or directory. Check the path and the permissions of its folders. event=storeLost"#
                ])
            try FileManager.default.createDirectory(
                atPath: bench.path("later"), withIntermediateDirectories: false)
            let store = bench.path("later/contacts.sqlite")
            bench.replace(store, by: bench.store)
            try await daemon.logged("event=trackingUpdated")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget", to: store)
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            #expect(daemon.problems(bench).count == 1)
        }
    }

    @Test("A file that is no database, until it is one")
    func noDatabase() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("other.sqlite", String(repeating: "This is no database. ", count: 1000))
            try bench.configure(StoreSetup(path: "other.sqlite"))
            let daemon = try await bench.startDaemon()
            try await daemon.sparing()
            #expect(
                daemon.problems(bench) == [
                    #"error: Store "contacts" cannot be used. "other.sqlite" is not an SQLite database. Check the path. event=storeLost"#
                ])
            bench.replace(bench.path("other.sqlite"), by: bench.store)
            try await daemon.logged("event=trackingUpdated")
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", as: "Widget", to: bench.path("other.sqlite"))
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }

    @Test("A store whose history is damaged, until it is replaced")
    func damaged() async throws {
        try await withWorkbench { bench in
            try await bench.sql("CREATE TABLE filler (x)")
            try bench.configure(StoreSetup())
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.sql("VACUUM INTO '\(bench.path("good.sqlite"))'")
            try await bench.write(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO person (id) SELECT i FROM n",
                as: "Widget")
            let pages = try await bench.sql(
                "SELECT pageno FROM dbstat WHERE name = 'historyd_change' AND pagetype = 'leaf' ORDER BY pageno"
            )
            let page = try #require(pages.wholeLines.dropFirst(5).first.flatMap { Int($0) })
            let file = try #require(FileHandle(forUpdatingAtPath: bench.store))
            try file.seek(toOffset: UInt64(page - 1) * 4096)
            try file.write(contentsOf: Data(repeating: 0xAA, count: 4096))
            try file.close()

            let daemon = try await bench.startDaemon()
            try await daemon.logged("is damaged", times: 2)
            try await daemon.sparing(for: .seconds(4))
            let problems = daemon.problems(bench)
            // Found by a second connection as well, it is lasting, and nothing is opened before the file changes; what was
            // said last is that it cannot be used.
            #expect(problems.count == 2, "\(problems)")
            let last = daemon.log.last { $0.contains("event=storeLost") || $0.contains("event=storeBack") }
            #expect(last?.contains("event=storeLost") == true)
            #expect(try await bench.report("status")["stores"][0]["state"].text != "open")
            // To look at a file changes nothing of it.
            try await bench.sql("SELECT count(*) FROM filler")
            try await daemon.sparing()
            #expect(daemon.problems(bench).count == 2)
            let expected =
                #"error: Store "contacts" cannot be used. The store "contacts.sqlite" is damaged: database disk image is malformed. `PRAGMA integrity_check` finds: "#
            #expect(
                problems.allSatisfy {
                    $0.hasPrefix(expected) && $0.hasSuffix("Restore a backup. event=storeLost")
                }, "\(problems)")
            // One more write is, and shows the damage again.
            try await bench.sql("INSERT INTO filler VALUES (1)")
            try await daemon.logged("is damaged", times: 3, within: .seconds(60))
            bench.replace(bench.store, by: bench.path("good.sqlite"))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            let summaries = try bench.calls().map(\.summary)
            #expect(summaries == ["audit/all MainApp 1 Widget person insert p1"])
        }
    }

    @Test("A store that nobody tracks, until somebody does", arguments: Journal.allCases)
    func untracked(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(entities: nil))
            let daemon = try await bench.startDaemon()
            try await daemon.sparing {
                try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            }
            // Looking at it is not what it hears of next.
            try await daemon.quiet()
            #expect(try await daemon.wakeUps(in: .seconds(2)) <= 8)
            #expect(
                daemon.problems(bench) == [
                    #"error: Store "contacts" cannot be used. The store "contacts.sqlite" is not tracked. Track it with `historyctl track STORE ENTITY…`. event=storeLost"#
                ])
            try Tracking.track(bench.store, ["person": nil])
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            let summaries = try bench.calls().map(\.summary)
            #expect(summaries == ["audit/all MainApp 1 Widget person insert p2"])
        }
    }

    @Test("A single run works off every store, and names each that it could not use")
    func once() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("bad.sqlite", String(repeating: "no database. ", count: 100))
            try bench.configure(
                StoreSetup(name: "bad", path: "bad.sqlite"), StoreSetup(name: "gone", path: "gone.sqlite"),
                StoreSetup())
            try Tracking.track(bench.store, ["person": nil])
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            let (status, _, log) = try await bench.runDaemon("--once")
            #expect(status == .exited(66), "That of the last one.")
            let problems = log.filter { $0.hasPrefix("error: ") }.map { $0.prefix(while: { $0 != "." }) }
            #expect(problems == ["bad", "gone"].map { "error: Store \"\($0)\" cannot be used" })
            #expect(try bench.calls().map(\.summary) == ["audit/all MainApp 1 Widget person insert p1"])
        }
    }

    @Test("A table that is configured and not there, until it is", arguments: Journal.allCases)
    func noTable(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(entities: #"{"person": {}, "later": {}}"#))
            let daemon = try await bench.startDaemon()
            try await daemon.sparing()
            try await daemon.quiet()
            #expect(try await daemon.wakeUps(in: .seconds(2)) <= 8)
            #expect(
                daemon.problems(bench) == [
                    #"error: Store "contacts" is not tracked as configured. There is no table "later" in the store. `sqlite3 STORE .tables` lists the tables. entity=later event=trackingFailed"#
                ])
            // The other one is served meanwhile, and status says what is missing.
            let status = try await bench.report("status")
            #expect(status["stores"][0]["untracked"][0]["entity"].text == "later")
            #expect(status["summary"].text?.contains("not tracked as configured: \"later\"") == true)
            try await bench.sql("CREATE TABLE later (id INTEGER PRIMARY KEY)")
            try await daemon.logged("began \"later\"")
            #expect(try await bench.report("status")["stores"][0]["untracked"].list.isEmpty)
            try await bench.write("INSERT INTO later VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }

    @Test(
        "A writer that was killed in the middle of a transaction", arguments: Journal.allCases, [true, false])
    func crashedWriter(_ journal: Journal, _ isRunning: Bool) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup())
            var daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            if !isRunning { try await daemon.stop() }
            // Little memory, so that what is not committed is written to the store already.
            let writer = try await bench.startPython(
                """
                connection = connect(store, 'Widget', None, 'cache_size = 5')
                connection.execute('BEGIN IMMEDIATE')
                connection.executemany('INSERT INTO person (name) VALUES (?)', [('x' * 1000,)] * 2000)
                print('written', flush=True)
                time.sleep(1000)
                """)
            try await eventually("the writing") { writer.output == "written\n" }
            try await writer.destroy()
            if !isRunning { daemon = try await bench.startDaemon() }
            try await daemon.sparing()
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await daemon.stop()
            let summaries = try bench.calls().map(\.summary)
            #expect(
                summaries == [
                    "audit/all MainApp 1 Widget person insert p1",
                    "audit/all MainApp 2 Widget person insert p2",
                ])
            #expect(daemon.problems(bench) == [])
        }
    }

    @Test("A lock held for ten seconds", arguments: [true, false])
    func locked(_ isAtStart: Bool) async throws {
        try await withWorkbench(.delete) { bench in
            try bench.configure(StoreSetup())
            if isAtStart { #expect(try await bench.runDaemon("--once").status == .exited(0)) }
            func lock() async throws -> RunningProgram {
                let locker = try await bench.startPython(
                    """
                    connection = connect(store, 'Widget')
                    connection.execute('INSERT INTO person (id) VALUES (1)')
                    connection.execute('BEGIN EXCLUSIVE')
                    connection.execute('INSERT INTO person (id) VALUES (2)')
                    print('locked', flush=True)
                    time.sleep(10)
                    connection.execute('COMMIT')
                    """)
                try await eventually("the lock") { locker.output == "locked\n" }
                return locker
            }
            var locker = isAtStart ? try await lock() : nil
            let daemon = try await bench.startDaemon()
            if locker == nil { locker = try await lock() }
            try await daemon.sparing { try await locker?.succeed() }
            try await bench.calls(2, of: daemon)
            try await daemon.stop()
            let summaries = try bench.calls().map(\.summary)
            #expect(
                summaries == [
                    "audit/all MainApp 1 Widget person insert p1",
                    "audit/all MainApp 2 Widget person insert p2",
                ])
            #expect(daemon.problems(bench).count <= 1, "\(daemon.problems(bench).joined(separator: "\n"))")
        }
    }

    @Test(
        "On a file system that is read-only",
        .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)),
        arguments: [Journal.wal, .delete], [true, false])
    func readOnly(_ journal: Journal, _ isTracked: Bool) async throws {
        try await withWorkbench(journal) { bench in
            let folder = bench.path("fixed")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            let store = folder + "/contacts.sqlite"
            try await bench.sql("PRAGMA journal_mode = \(journal);" + Workbench.schema, of: store)
            if isTracked {
                try Tracking.track(store, ["person": ["name", "email"], "item": nil])
                try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget", to: store)
            }
            try bench.configure(StoreSetup(path: "fixed/contacts.sqlite"))
            let script =
                "mount --bind '\(folder)' '\(folder)' && mount -o remount,bind,ro '\(folder)' && exec \"$@\""
            let program = try bench.start(
                [
                    "/usr/bin/unshare", "-m", "sh", "-c", script, "sh", Products.historyd, "--config",
                    bench.configuration,
                ],
                "historyd", environment: ["STATE_DIRECTORY": bench.path("state")])
            let daemon = DaemonUnderTest(program, logFrom: 0)
            try await daemon.ready()
            if isTracked, journal == .delete {
                try await bench.calls(1, of: daemon)
                try await daemon.sparing()
                #expect(daemon.problems(bench) == [])
                // Others see it as writable, and do write.
                try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget", to: store)
                try await bench.calls(2, of: daemon)
            } else {
                try await daemon.sparing()
                #expect(daemon.problems(bench).count == 1)
                #expect(
                    daemon.problems(bench).first?.hasPrefix(
                        #"error: Store "contacts" cannot be used. The store "fixed/contacts.sqlite" cannot be used: "#
                    ) == true, "\(daemon.problems(bench))")
            }
            try await daemon.stop()
        }
    }
}
