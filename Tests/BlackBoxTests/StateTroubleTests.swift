import Foundation
import TestSupport
import Testing

/// A state folder that cannot be used for a while: the daemon waits, says why, and goes on by itself.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct StateTroubleTests {
    /// Where a file was moved that was damaged.
    private func damaged(_ bench: Workbench, in folder: String = "state") throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: bench.path(folder)).filter {
            $0.contains(".damaged-")
        }
    }

    @Test(
        "A state that is no database is moved aside and made again: consumers start over with the history",
        arguments: [true, false])
    func damagedAtStart(isOnce: Bool) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            #expect(try bench.calls().count == 1)
            let state = try bench.stateDatabase()
            for suffix in ["-wal", "-shm"] { unlink(state + suffix) }
            let garbage = String(repeating: "no database ", count: 1000)
            try garbage.write(toFile: state, atomically: true, encoding: .utf8)

            let log: [String]
            if isOnce {
                let once = try await bench.runDaemon("--once")
                #expect(once.status == .exited(0))
                log = once.log
            } else {
                let daemon = try await bench.startDaemon()
                try await bench.calls(2, of: daemon)
                #expect(try await bench.report("status")["stores"][0]["state"].text == "open")
                try await daemon.stop()
                log = daemon.log
            }
            #expect(
                try bench.calls().map(\.summary)
                    == Array(repeating: "audit/all MainApp 1 Widget person insert p1", count: 2))
            let moved = try damaged(bench)
            #expect(moved.count == 1)
            let told = log.filter { $0.contains("event=stateCorrupt") }
            #expect(
                told.count == 1 && told[0].hasPrefix("error: The state of store \"contacts\" was damaged."),
                "\(log)")
            #expect(
                told[0].contains("/state/\(moved[0])\"") && told[0].contains("file is not a database"),
                "\(told)")
            #expect(try String(contentsOfFile: bench.path("state/\(moved[0])"), encoding: .utf8) == garbage)
        }
    }

    @Test("A state that is found damaged while it is used is moved aside; no other store notices")
    func damagedInUse() async throws {
        try await withWorkbench { bench in
            let other = bench.path("other.sqlite")
            try await bench.sql(
                "PRAGMA journal_mode = WAL; CREATE TABLE person (id INTEGER PRIMARY KEY)", of: other)
            try bench.configure(
                StoreSetup(), StoreSetup(name: "other", path: "other.sqlite", entities: #"{"person": {}}"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
                .trimmingCharacters(in: .whitespacesAndNewlines)
            let state = bench.path("state/\(id).sqlite")
            // A save that comes after the damage would mend it.
            try await eventually("a saved cursor") {
                try await bench.sql("SELECT position FROM cursor", of: state).hasPrefix("1")
            }
            // A cursor that cannot be one, as a bit that has tipped over makes it.
            try await bench.sql("UPDATE cursor SET position = 'x', moved_at = 'y'", of: state)
            _ = try await bench.ctl("status")
            try await daemon.logged("event=stateCorrupt")
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await eventually(
                "all calls, the first ones again", state: { daemon.log.joined(separator: "\n") }
            ) {
                try bench.calls().count == 3 && Set(try bench.calls().map(\.summary)).count == 2
            }
            try await bench.write("INSERT INTO person (id) VALUES (9)", as: "Widget", to: other)
            try await eventually("the other store's call") {
                try bench.calls().contains { $0.summary.hasSuffix(" p9") }
            }
            try await daemon.stop()
            #expect(daemon.log.count { $0.contains("event=stateCorrupt") } == 1)
            #expect(!daemon.log.contains { $0.contains("store=other") && $0.contains("event=store") })
            #expect(try damaged(bench).count == 1)
        }
    }

    @Test("Kept hooks that are damaged are moved aside; the others are called")
    func hooks() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            var daemon = try await bench.startDaemon()
            for name in ["a", "b"] {
                let plugin = PluginSetup(name: name).json(folder: bench.folder.path)
                try bench.folder.write("\(name).json", #"{"version": 1, "plugins": [\#(plugin)]}"#)
                try await bench.steer("hooks", "add", bench.path("\(name).json"), "--persist")
            }
            try await daemon.stop()
            let files = try FileManager.default.contentsOfDirectory(atPath: bench.path("state/hooks.d"))
                .sorted()
            try #require(files.count == 2)
            try Data(count: 100).write(to: URL(filePath: bench.path("state/hooks.d/\(files[0])")))
            daemon = try await bench.startDaemon()
            let told = try await daemon.logged("event=stateCorrupt")
            #expect(told.contains("hooks.d/\(files[0])\" are damaged"), "\(told)")
            let hooks = try await bench.report("hooks", "list")["hooks"].list.compactMap { $0["name"].text }
            #expect(hooks == ["audit/all", "b/all"])
            try await daemon.stop()
            #expect(try damaged(bench, in: "state/hooks.d").count == 1)
        }
    }

    @Test("Damaged counters are moved aside; the daemon counts again, and keeps that")
    func counters() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            try bench.folder.write("state/counters.json", "{\"hooks\": ")
            let daemon = try await bench.startDaemon()
            let told = try await daemon.logged("event=stateCorrupt")
            #expect(told.hasPrefix("error: The counters in \"") && told.contains("/counters.json.damaged-"))
            try bench.misbehave("refuse", "all")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookFailed")
            try await daemon.stop()
            #expect(try damaged(bench).count == 1)
            let kept = try Tree(RunningProgram.text(bench.path("state/counters.json")))
            #expect(try #require(kept["hooks"]["audit/all"]["failures"].int) > 0)
        }
    }

    @Test(
        "A folder that can never be: a line without the dump of an error, and the status for input and output")
    func impossible() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            try bench.folder.write("file", "")
            for arguments in [[], ["--once"]] {
                let other = try bench.start(
                    [Products.historyd, "--config", bench.configuration] + arguments, "other\(arguments.count)",
                    environment: ["STATE_DIRECTORY": bench.path("file/state")])
                #expect(try await other.end() == .exited(74))
                #expect(
                    other.errors.wholeLines == [
                        "error: The state folder \"\(bench.path("file/state"))\" cannot be created: Not a directory. Set STATE_DIRECTORY to a writable folder. event=stateUnavailable"
                    ])
            }
        }
    }

    /// `--control-socket`, since the disk is seen by the daemon alone.
    private func socket(_ bench: Workbench) -> [String] { ["--control-socket", bench.path("control.sock")] }

    private func status(_ bench: Workbench) async throws -> Tree {
        try await bench.report("status", "--socket", bench.path("control.sock"))
    }

    @Test(
        "A disk that fills while the daemon runs",
        .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)))
    func fills() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let disk = try await bench.startDaemon(withDisk: "state", socket(bench))
            let daemon = disk.daemon
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await disk.fill()
            try await bench.write(
                "INSERT INTO person (id) VALUES (2)", "INSERT INTO person (id) VALUES (3)", as: "Widget")
            let told = try await daemon.logged("event=stateUnavailable")
            #expect(told.contains("full") && !told.contains("Error Domain"), "\(told)")
            let report = try await status(bench)
            #expect("\(report)".contains("full"), "\(report)")
            #expect(report["summary"].text?.contains("state of 1 store not writable") == true, "\(report)")
            try await disk.makeRoom()
            try await daemon.logged("event=storeBack")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await eventually("all calls", state: { daemon.log.joined(separator: "\n") }) {
                try bench.calls().contains { $0.summary.hasSuffix(" p4") }
            }
            try await daemon.stop()
            #expect(daemon.log.count { $0.contains("event=stateUnavailable") } == 1)
            // Who waits with the next step repeats none.
            #expect(
                try bench.calls().map(\.summary)
                    == (1...4).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
        }
    }

    @Test(
        "A cleanup on a full disk says so, with the status for it",
        .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)))
    func cleanup() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(path: "disk/contacts.sqlite"), plugins: [])
            // In a rollback journal, which has to be made before anything can be deleted.
            let make = "\(Products.shell) contacts.sqlite '\(Workbench.schema)'"
            let disk = try await bench.startDaemon(withDisk: "disk", before: make)
            try await disk.shell(
                "\(Products.shell) '\(disk.folder)/contacts.sqlite' 'INSERT INTO person (id) VALUES (1)'")
            try await eventually("a consumer that has it") {
                try await bench.report("clean", "--dry-run")["stores"][0]["changes"].int == 1
            }
            try await disk.fill()
            let full = try await bench.ctl("clean")
            #expect(full.status == .exited(74) && full.errors.contains("full"), "\(full)")
            try await disk.makeRoom()
            #expect(try await bench.report("clean")["stores"][0]["changes"].int == 1)
            try await disk.daemon.stop()
        }
    }

    @Test(
        "A disk that is full, or read-only, when the daemon starts",
        .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)),
        arguments: [
            ("full", "! dd if=/dev/zero of=filler bs=4096 2>/dev/null", "rm filler"),
            ("read-only", "mount -o remount,ro .", "mount -o remount,rw ."),
            ("read-only", "touch historyd.lock && mount -o remount,ro .", "mount -o remount,rw ."),
        ])
    func atStart(_ word: String, _ trouble: String, _ remedy: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let disk = try await bench.startDaemon(
                withDisk: "state", before: trouble, socket(bench), waits: false)
            let daemon = disk.daemon
            try await bench.write("CREATE TABLE unrelated (x)", as: "Widget")
            let told = try await daemon.logged("event=stateUnavailable")
            #expect(told.lowercased().contains(word), "\(told)")
            try await daemon.sparing()
            #expect(daemon.log.count { $0.contains("event=stateUnavailable") } == 1)
            try await disk.shell("cd '\(disk.folder)' && \(remedy)")
            try await daemon.ready()
            try await eventually("an open store", state: { daemon.log.joined(separator: "\n") }) {
                try await status(bench)["stores"][0]["state"].text == "open"
            }
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
        }
    }

    @Test(
        "A state folder that this user may not write is not called read-only",
        .enabled(if: Users.obstacle == nil, Comment(rawValue: Users.obstacle ?? "")))
    func notPermitted() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            func asRoot(_ script: String) async throws {
                try await Command("/bin/sh", ["-ec", "cd '\(bench.folder.path)'; \(script)"]).succeed()
            }
            try await asRoot("mkdir state; chown -R \(Users.daemon) .; chmod 755 .")
            func once(_ name: String, status: Int32) async throws -> String {
                let daemon = try bench.launchDaemon(["--once"], name: name, under: Users.run(as: Users.daemon))
                let ending = try await daemon.program.end()
                #expect(ending == .exited(status), "\(daemon.log)")
                return daemon.log.joined(separator: "\n")
            }
            _ = try await once("first", status: 0)
            try await asRoot("chmod 500 state")
            let refused = try await once("second", status: 77)
            #expect(refused.contains("As \(Users.daemon): chmod u+rwx \(bench.path("state"))"), "\(refused)")
        }
    }
}
