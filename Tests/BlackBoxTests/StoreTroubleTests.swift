import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// Stores that are missing, damaged, locked, replaced: a clear line, nothing lost, no busy loop.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(15)))
struct StoreTroubleTests {
    /// Runs the body, and what comes after, for at least some time, in which the daemon must
    /// not use more than a tenth of a processor.
    private func sparing(_ daemon: DaemonUnderTest, for period: Duration = .seconds(2), _ body: () async throws -> Void = {}) async throws {
        let before = Processes.processorTime(daemon.processID)
        let clock = ContinuousClock()
        let start = clock.now
        try await body()
        if clock.now - start < period { try await observe(for: period - (clock.now - start)) }
        let used = Processes.processorTime(daemon.processID) - before
        #expect(used <= (clock.now - start) / 10, "\(daemon.log.suffix(20).joined(separator: "\n"))")
        #expect(daemon.program.ended == nil)
    }

    private func problems(_ daemon: DaemonUnderTest, _ bench: Workbench) -> [String] {
        daemon.log.filter { $0.hasPrefix("warning") || $0.hasPrefix("error") }.map { line in
            var line = line.replacing(bench.folder.path + "/", with: "")
            line.replace(/\ store=contacts$/, with: "")
            return line
        }
    }

    @Test("A store that does not exist yet is served as soon as it does")
    func missing() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(path: "later/contacts.sqlite"))
            let daemon = try await bench.startDaemon()
            try await sparing(daemon)
            #expect(problems(daemon, bench) == [
                #"error: Store "contacts" can not be used. The store "later/contacts.sqlite" can not be opened: No such file or directory. Check the path and the permissions of its folders. event=storeLost"#
            ])
            try FileManager.default.createDirectory(atPath: bench.path("later"), withIntermediateDirectories: false)
            let store = bench.path("later/contacts.sqlite")
            bench.replace(store, by: bench.store)
            try await daemon.logged("event=trackingUpdated")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget", to: store)
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            #expect(problems(daemon, bench).count == 1)
        }
    }

    @Test("A file that is no database, until it is one")
    func noDatabase() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("other.sqlite", String(repeating: "This is no database. ", count: 1000))
            try bench.configure(StoreSetup(path: "other.sqlite"))
            let daemon = try await bench.startDaemon()
            try await sparing(daemon)
            #expect(problems(daemon, bench) == [
                #"error: Store "contacts" can not be used. "other.sqlite" is no SQLite database. Check the path. event=storeLost"#
            ])
            bench.replace(bench.path("other.sqlite"), by: bench.store)
            try await daemon.logged("event=trackingUpdated", within: .seconds(20))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget", to: bench.path("other.sqlite"))
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
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO person (id) SELECT i FROM n", as: "Widget")
            let pages = try await bench.sql("SELECT pageno FROM dbstat WHERE name = 'historyd_change' AND pagetype = 'leaf' ORDER BY pageno")
            let page = try #require(pages.wholeLines.dropFirst(5).first.flatMap { Int($0) })
            let file = try #require(FileHandle(forUpdatingAtPath: bench.store))
            try file.seek(toOffset: UInt64(page - 1) * 4096)
            try file.write(contentsOf: Data(repeating: 0xAA, count: 4096))
            try file.close()

            let daemon = try await bench.startDaemon()
            try await daemon.logged("is damaged")
            try await sparing(daemon, for: .seconds(4))
            #expect(problems(daemon, bench) == [
                #"error: Store "contacts" can not be used. The store "contacts.sqlite" is damaged: database disk image is malformed. `PRAGMA integrity_check` tells more; restore a backup. event=storeLost"#
            ])
            bench.replace(bench.store, by: bench.path("good.sqlite"))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            #expect(try bench.calls().map(\.summary) == ["audit/all MainApp 1 Widget person insert p1"])
        }
    }

    @Test("A store that nobody tracks, until somebody does", arguments: Journal.allCases)
    func untracked(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(entities: nil))
            let daemon = try await bench.startDaemon()
            try await sparing(daemon) {
                try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            }
            // Looking at it is not what it hears of next.
            try await daemon.quiet()
            let switches = Processes.switches(daemon.processID)
            try await observe(for: .seconds(2))
            #expect(Processes.switches(daemon.processID) - switches <= 8)
            #expect(problems(daemon, bench) == [
                #"error: Store "contacts" can not be used. The store is not tracked. `historyctl track STORE ENTITY…` begins. event=storeLost"#
            ])
            try Tracking.track(bench.store, ["person": nil])
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            #expect(try bench.calls().map(\.summary) == ["audit/all MainApp 1 Widget person insert p2"])
        }
    }

    @Test("A table that is configured and not there, until it is", arguments: Journal.allCases)
    func noTable(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(entities: #"{"person": {}, "later": {}}"#))
            let daemon = try await bench.startDaemon()
            try await sparing(daemon)
            try await daemon.quiet()
            let switches = Processes.switches(daemon.processID)
            try await observe(for: .seconds(2))
            #expect(Processes.switches(daemon.processID) - switches <= 8)
            #expect(problems(daemon, bench) == [
                #"error: Store "contacts" can not be used. There is no table "later" in the store. Names are those of ordinary tables; `sqlite3 STORE .tables` lists them. event=storeLost"#
            ])
            try await bench.sql("CREATE TABLE later (id INTEGER PRIMARY KEY)")
            try await daemon.logged("event=trackingUpdated")
            try await bench.write("INSERT INTO later VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }

    @Test("A writer that was killed in the middle of a transaction", arguments: Journal.allCases, [true, false])
    func crashedWriter(_ journal: Journal, _ isRunning: Bool) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup())
            var daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            if !isRunning { try await daemon.stop() }
            // Little memory, so that what is not committed is written to the store already.
            let writer = try await bench.startPython("""
                connection = connect(store, 'Widget', None, 'cache_size = 5')
                connection.execute('BEGIN IMMEDIATE')
                connection.executemany('INSERT INTO person (name) VALUES (?)', [('x' * 1000,)] * 2000)
                print('written', flush=True)
                time.sleep(1000)
                """)
            try await eventually("the writing") { writer.output == "written\n" }
            try await writer.destroy()
            if !isRunning { daemon = try await bench.startDaemon() }
            try await sparing(daemon)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await daemon.stop()
            #expect(try bench.calls().map(\.summary) == ["audit/all MainApp 1 Widget person insert p1", "audit/all MainApp 2 Widget person insert p2"])
            #expect(problems(daemon, bench) == [])
        }
    }

    @Test("Untracked while it is watched, and tracked again", arguments: [true, false])
    func untrackedLater(_ isConfigured: Bool) async throws {
        try await withWorkbench { bench in
            try Tracking.track(bench.store, ["person": nil])
            try bench.configure(StoreSetup(entities: isConfigured ? #"{"person": {}}"# : nil))
            let daemon = try await bench.startDaemon()
            for id in 1...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(3, of: daemon)
            let before = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
            try Tracking.untrack(bench.store)
            if isConfigured {
                // It was told to track it.
                try await eventually("the tracking", state: { daemon.log.joined(separator: "\n") }) {
                    try await bench.sql("SELECT count(*) FROM sqlite_schema WHERE name = 'historyd_store'") == "1\n"
                }
            } else {
                try await daemon.logged("is not tracked")
                try await sparing(daemon)
                try Tracking.track(bench.store, ["person": nil])
            }
            #expect(try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'") != before)
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            let calls = try await bench.calls(4, of: daemon)
            try await daemon.stop()
            #expect(calls.map(\.summary).last == "audit/all MainApp 1 Widget person insert p4")
            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'").trimmingCharacters(in: .newlines)
            #expect(calls.last?.params.transaction?.token == "\(id):1")
        }
    }

    @Test("Tracked anew behind its back, with as many transactions as before")
    func trackedAnew() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            daemon.program.signal(SIGSTOP)
            try Tracking.untrack(bench.store)
            try Tracking.track(bench.store, ["person": ["name", "email"], "item": []])
            for id in 2...4 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            daemon.program.signal(SIGCONT)
            try await bench.calls(4, of: daemon)
            try await daemon.stop()
            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'").trimmingCharacters(in: .newlines)
            #expect(try bench.calls().dropFirst().map { $0.params.transaction?.token } == (1...3).map { "\(id):\($0)" })
        }
    }

    @Test("A lock held for ten seconds", arguments: [true, false])
    func locked(_ isAtStart: Bool) async throws {
        try await withWorkbench(.delete) { bench in
            try bench.configure(StoreSetup())
            if isAtStart { #expect(try await bench.runDaemon("--once").status == .exited(0)) }
            func lock() async throws -> RunningProgram {
                let locker = try await bench.startPython("""
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
            try await sparing(daemon) { try await locker?.succeed() }
            try await bench.calls(2, of: daemon)
            try await daemon.stop()
            #expect(try bench.calls().map(\.summary) == ["audit/all MainApp 1 Widget person insert p1", "audit/all MainApp 2 Widget person insert p2"])
            #expect(problems(daemon, bench).count <= 1, "\(problems(daemon, bench).joined(separator: "\n"))")
        }
    }

    @Test("Replaced by another store's file", arguments: [
        "", #""clean": {"strategy": "byDuration", "seconds": "7d"}"#, #""clean": {"strategy": "byNotification", "times": 1}"#,
    ], [false, true])
    func replaced(_ clean: String, _ isHeld: Bool) async throws {
        try await withWorkbench { bench in
            let other = bench.path("other.sqlite")
            try await bench.sql("PRAGMA journal_mode = WAL;" + Workbench.schema, of: other)
            try Tracking.track(other, ["person": nil, "item": nil])
            try await bench.write("INSERT INTO person (id) VALUES (11)", as: "Widget", to: other)
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored(), more: clean),
                plugins: [PluginSetup(more: #""retry": {"attempts": 1, "maximumDelay": "100ms"}"#)])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.waitForReplica(daemon)
            if isHeld {
                try bench.misbehave("refuse", "all")
                try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
                try await daemon.logged("event=hookHeld")
            }
            bench.replace(bench.store, by: other)
            try await daemon.logged("event=storeReplaced", within: .seconds(10))
            try await daemon.logged(#"Store "contacts" is open"#, times: 2, within: .seconds(10))
            if isHeld { try bench.behave("refuse", "all") }
            try await bench.write("INSERT INTO person (id) VALUES (12)", as: "Widget")
            try await eventually("the new store's transactions", within: .seconds(20), state: { daemon.log.joined(separator: "\n") }) {
                try bench.calls().filter { $0.manner == "ok" }.map(\.summary).suffix(2)
                    == ["audit/all Mirror 1 Widget person insert p11", "audit/all Mirror 2 Widget person insert p12"]
            }
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }

    @Test("Gone and back, it goes on where it was", arguments: Journal.allCases)
    func gone(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(more: #""clean": {"strategy": "byDuration", "seconds": "7d"}"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try FileManager.default.createDirectory(atPath: bench.path("away"), withIntermediateDirectories: false)
            func move(_ from: String, _ to: String) {
                for suffix in ["-wal", "-shm", ""] where FileManager.default.fileExists(atPath: from + suffix) {
                    #expect(rename(from + suffix, to + suffix) == 0)
                }
            }
            let away = bench.path("away/contacts.sqlite")
            move(bench.store, away)
            try await daemon.logged("event=storeLost")
            try await sparing(daemon)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget", to: away)
            move(away, bench.store)
            try await bench.calls(2, of: daemon)
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.calls(3, of: daemon)
            try await daemon.stop()
            #expect(try bench.calls().map(\.summary) == (1...3).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
        }
    }

    @Test("Restored from a backup, its consumers begin anew where it is")
    func restored() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.sql("VACUUM INTO '\(bench.path("backup.sqlite"))'")
            for id in 2...4 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(4, of: daemon)
            try await bench.waitForReplica(daemon)
            bench.replace(bench.store, by: bench.path("backup.sqlite"))
            try await daemon.logged("event=tokenExpired", within: .seconds(20))
            try await bench.write("INSERT INTO person (id) VALUES (22)", as: "Widget")
            try await bench.calls(5, of: daemon)
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            #expect(try bench.calls().last?.summary == "audit/all Mirror 2 Widget person insert p22")
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }

    /// Root heeds no file modes; a mount that is read-only stops root too.
    private static let canMount = getuid() == 0 && unshares()

    private static func unshares() -> Bool {
        guard let program = try? RunningProgram(
            ["/usr/bin/unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], files: "/tmp/historyd-test-unshare-\(getpid())") else { return false }
        var status: Int32 = 0
        waitpid(program.processID, &status, 0)
        unlink(program.outputFile)
        unlink(program.errorFile)
        return status == 0
    }

    @Test(
        "On a file system that is read-only", .enabled(if: canMount, "needs root and mount namespaces"),
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
            let script = "mount --bind '\(folder)' '\(folder)' && mount -o remount,bind,ro '\(folder)' && exec \"$@\""
            let program = try bench.start(
                ["/usr/bin/unshare", "-m", "sh", "-c", script, "sh", Products.historyd, "--config", bench.configuration],
                "historyd", environment: ["STATE_DIRECTORY": bench.path("state")])
            let daemon = DaemonUnderTest(program, logFrom: 0)
            try await daemon.ready()
            if isTracked, journal == .delete {
                try await bench.calls(1, of: daemon)
                try await sparing(daemon)
                #expect(problems(daemon, bench) == [])
                // Others see it as writable, and do write.
                try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget", to: store)
                try await bench.calls(2, of: daemon)
            } else {
                try await sparing(daemon)
                #expect(problems(daemon, bench).count == 1)
                #expect(problems(daemon, bench).first?.hasPrefix(#"error: Store "contacts" can not be used. The store "fixed/contacts.sqlite" can not be used: "#) == true, "\(problems(daemon, bench))")
            }
            try await daemon.stop()
        }
    }
}

extension Workbench {
    /// Puts a closed store into the place of another, whose journal would be taken for the new one's
    /// (https://www.sqlite.org/howtocorrupt.html, 1.4).
    func replace(_ store: String, by other: String) {
        for suffix in ["-wal", "-shm"] { unlink(store + suffix) }
        #expect(rename(other, store) == 0)
    }
}
