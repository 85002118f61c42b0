import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// Each message id of the catalog is sent: here by making happen what it stands for.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MessageTests {
    /// Something that happens, and the events that it must be told by.
    struct Case: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let events: [String]
        let happen: @Sendable (Workbench) async throws -> [String]

        init(
            _ name: String, _ events: String...,
            happen: @escaping @Sendable (Workbench) async throws -> [String]
        ) {
            testDescription = name
            self.events = events
            self.happen = happen
        }
    }

    @Test("It happens, and is told", arguments: cases)
    func isTold(_ example: Case) async throws {
        try await withWorkbench { bench in
            let log = try await example.happen(bench)
            for event in example.events {
                #expect(
                    log.contains { $0.contains("event=\(event)") }, "\(event)\n\(log.joined(separator: "\n"))")
            }
        }
    }

    /// What only a part of the daemon can be made to do, with the test that does it.
    static let elsewhere = [
        "pipelineStuck": "SystemdTests/ProbeTests.swift",
        "linesDropped": "HistoryDaemonTests/JournalWriterTests.swift",
        "loopStalled": "BlackBoxTests/Support/LoopStalls.swift",
        "fileRefused": "BlackBoxTests/FolderOfStoresTests.swift",
        "folderCrowded": "BlackBoxTests/FolderOfStoresTests.swift",
        "folderUnwatched": "BlackBoxTests/FolderOfStoresTests.swift",
        "watchFailed": "BlackBoxTests/WatchTroubleTests.swift",
        "wouldLockOut": "BlackBoxTests/SharedStoreTests.swift",
    ].merging(
        [
            "natsReady", "natsConfigurationInvalid", "natsReloaded", "natsReloadRefused", "natsInterrupted",
            "natsResumed",
            "natsDiverged", "natsFeedUnusable", "mirrorFilled", "mirrorGroupRefused",
        ].map { ($0, "SystemdTests/nats-path") }, uniquingKeysWith: { $1 }
    ).merging(
        ["natsMessageForeign", "mirrorStale", "mirrorMovedAside"].map { ($0, "Tools/NATS/nats.py") },
        uniquingKeysWith: { $1 })

    @Test("Every message id is sent somewhere here")
    func all() throws {
        let source = try Sources.text("Sources/PersistentHistory/Pipeline/Events/MessageCode.swift")
        let names = source.matches(of: #/\n    case (\w+) = "/#).map { String($0.output.1) }
        let told = Self.cases.flatMap(\.events) + Self.elsewhere.keys
        #expect(names.count > 30 && Set(names) == Set(told))
        for (name, file) in Self.elsewhere {
            #expect(try Sources.text("Tests/\(file)").contains(name), "\(file) does not name \(name)")
        }
    }

    private static let retry = #""retry": {"attempts": 2, "initialDelay": "10ms", "maximumDelay": "50ms"}"#

    static let cases = [
        Case("starts and stops", "starting", "ready", "stopping", "trackingUpdated") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await daemon.stop()
            return daemon.log
        },
        Case("is configured wrongly", "configurationInvalid") { bench in
            try bench.configure(StoreSetup(authors: #"[{"nme": "MainApp"}]"#))
            let daemon = try bench.launchDaemon()
            #expect(try await daemon.program.end() == .exited(78))
            return daemon.log
        },
        Case("is reloaded", "reloaded", "reloadRefused") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.steer("reload")
            try bench.folder.write("historyd.json", "{}")
            #expect(try await bench.ctl("reload").status == .exited(78))
            try await daemon.stop()
            return daemon.log
        },
        Case("a store goes and comes back", "storeLost", "storeBack", "storeReplaced") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            for suffix in ["", "-wal", "-shm"] {
                rename(bench.store + suffix, bench.path("away.sqlite") + suffix)
            }
            try await daemon.logged("event=storeLost")
            for suffix in ["-wal", "-shm", ""] {
                rename(bench.path("away.sqlite") + suffix, bench.store + suffix)
            }
            try await daemon.logged("event=storeBack")
            try await daemon.stop()
            return daemon.log
        },
        Case("a store is no database", "storeUnusable") { bench in
            try bench.folder.write("other.sqlite", String(repeating: "This is no database. ", count: 1000))
            try bench.configure(StoreSetup(path: "other.sqlite"))
            return try await bench.runDaemon("--once").log
        },
        Case("a configured table is not there", "trackingFailed") { bench in
            try Tracking.track(bench.store, ["person": nil])
            try bench.configure(StoreSetup(entities: #"{"person": {}, "later": {}}"#))
            let daemon = try await bench.startDaemon()
            try await daemon.stop()
            return daemon.log
        },
        Case(
            "recording is doubtful, and others damage it", "recordingDoubtful", "historyBeganAgain",
            "changesUnrecorded"
        ) { bench in
            try await bench.sql(
                "CREATE TABLE doubt (id INTEGER PRIMARY KEY ON CONFLICT REPLACE, a UNIQUE ON CONFLICT IGNORE, b UNIQUE)"
            )
            try bench.configure(StoreSetup(entities: #"{"person": {}, "doubt": {}}"#))
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=recordingDoubtful")
            try await bench.sql("ALTER TABLE person ADD COLUMN later")
            try await daemon.logged("brought up to date \"person\"")
            try await bench.sql("DROP TABLE historyd_change")
            try await daemon.logged("event=historyBeganAgain")
            try await daemon.logged("event=changesUnrecorded")
            try await daemon.stop()
            // However often the schema is looked at.
            #expect(daemon.log.count { $0.contains("event=recordingDoubtful") } == 1)
            #expect(
                daemon.log.contains { $0.contains("Changes of \"doubt\" may go unrecorded") })
            return daemon.log
        },
        Case("the kernel's queue overflows", "watchOverflowed") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await daemon.quiet()
            let limit = try #require(Int(Self.number("/proc/sys/fs/inotify/max_queued_events")))
            daemon.program.signal(SIGSTOP)
            try await bench.start(
                [
                    Products.python, "-c",
                    "import os, sys\nfor n in range(int(sys.argv[2])): os.close(os.open(f'{sys.argv[1]}/f{n % 9}', os.O_CREAT | os.O_WRONLY)); os.unlink(f'{sys.argv[1]}/f{n % 9}')",
                    bench.folder.path, "\(limit)",
                ], "flood"
            ).succeed()
            daemon.program.signal(SIGCONT)
            try await daemon.logged("event=watchOverflowed")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            return daemon.log
        },
        Case("a store is an older copy of itself", "tokenExpired", "contextRefilled") { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=contextRefilled")
            try await bench.sql("VACUUM INTO '\(bench.path("old.sqlite"))'")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForCursor(at: 1, daemon)
            bench.replace(bench.store, by: bench.path("old.sqlite"))
            try await daemon.logged("event=tokenExpired")
            try await daemon.stop()
            return daemon.log
        },
        Case("a replica cannot have a table", "replicaTableLeftOut") { bench in
            let columns = (1...1996).map { "c\($0)" }.joined(separator: ", ")
            try await bench.sql("CREATE TABLE wide (id INTEGER PRIMARY KEY, \(columns))")
            try bench.configure(
                StoreSetup(entities: #"{"person": {}, "wide": {}}"#, authors: StoreSetup.mirrored()),
                plugins: [])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("is created without the table \"wide\"")
            try await daemon.stop()
            return daemon.log
        },
        Case("a replica is locked for a while", "contextFailed", "contextRecovered") { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()), plugins: [])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=contextRefilled")
            let locker = try bench.start(
                [
                    Products.python, "-c",
                    "import sqlite3, sys, time\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\nc.execute('BEGIN IMMEDIATE')\nprint('locked', flush=True)\ntime.sleep(1000)",
                    bench.path("replica.sqlite"),
                ], "locker")
            try await eventually("the lock") { locker.output == "locked\n" }
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=contextFailed")
            try await locker.destroy()
            try await daemon.logged("event=contextRecovered")
            try await daemon.stop()
            return daemon.log
        },
        Case("a hook fails, is held, and works again", "hookFailed", "hookHeld", "hookRecovered") { bench in
            try bench.configure(StoreSetup(), plugins: [PluginSetup(more: Self.retry)])
            let daemon = try await bench.startDaemon()
            try bench.misbehave("refuse", "all")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            try bench.behave("refuse", "all")
            try await daemon.logged("event=hookRecovered")
            try await daemon.stop()
            return daemon.log
        },
        Case("a hook is too slow, and its call is given up", "hookTimedOut", "deadLetterKept") { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [PluginSetup(more: #""onFailure": "skip", "timeout": "200ms", "# + Self.retry)])
            let daemon = try await bench.startDaemon()
            try bench.misbehave("hang", "all")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=deadLetterKept")
            try await daemon.stop()
            return daemon.log
        },
        Case("a plugin dies uncalled", "pluginDied", "pluginRestarted") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let plugin = try await eventually("the plugin's process") {
                Processes.naming(bench.path("record.py")).first { $0 != daemon.processID }
            }
            kill(plugin, SIGKILL)
            try await daemon.logged("event=pluginDied")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.logged("event=pluginRestarted")
            try await daemon.stop()
            return daemon.log
        },
        Case("a plugin ends at once, again and again", "pluginFailing") { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        command: [
                            Products.python, "-c", "import sys; sys.exit('Traceback: nothing works here')",
                        ])
                ])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=pluginFailing")
            #expect(daemon.log.count { $0.contains("event=pluginDied") } == 1)
            // Both events say why, too.
            #expect(
                daemon.log.count { $0.contains("Traceback") && !$0.contains("event=") } <= 3,
                "repeats are held back")
            let status = try await bench.report("status")
            #expect(status["summary"].text?.contains("1 plugin failing") == true, "\(status)")
            #expect(status["plugins"][0]["state"].text == "failing")
            #expect(status["plugins"][0]["problem"].text?.contains("ended with status 1") == true)
            let hook = try await bench.report("hooks", "list")["hooks"][0]
            #expect(hook["failures"].int ?? 0 >= 5 && hook["lastError"].text != nil, "\(hook)")
            #expect(try await bench.steer("status").contains("ended with status 1"))
            try await daemon.stop()
            return daemon.log
        },
        Case("a plugin's command is missing", "pluginUnstartable") { bench in
            try bench.configure(StoreSetup(), plugins: [PluginSetup(command: ["/does/not/exist"])])
            let daemon = try await bench.startDaemon()
            try await daemon.stop()
            return daemon.log
        },
        Case("history is cleaned, and kept for a consumer", "cleaned", "consumerBlocksCleanup") { bench in
            try bench.configure(
                StoreSetup(more: #""clean": {"strategy": "byDuration", "seconds": "100ms"}"#),
                plugins: [PluginSetup(more: Self.retry)])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await daemon.logged("event=cleaned")
            try bench.misbehave("refuse", "all")
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            // It was left undone in 1970.
            try await bench.sql(
                "UPDATE historyd_change SET origin = 'x' || char(9) || 1 || char(9) || 1 || char(9) || 'Widget' WHERE id = 3"
            )
            try await daemon.logged("event=consumerBlocksCleanup")
            try await daemon.stop()
            return daemon.log
        },
        Case("a consumer is moved", "consumerMoved") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.steer("run")
            try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
            try await daemon.stop()
            return daemon.log
        },
        Case("a consumer is passed by", "consumerPassedBy") { bench in
            try bench.configure(
                StoreSetup(
                    more: #""clean": {"strategy": "byDuration", "seconds": "100ms", "maximumDuration": "1s"}"#),
                plugins: [PluginSetup(more: Self.retry)])
            let daemon = try await bench.startDaemon()
            try bench.misbehave("refuse", "all")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await daemon.logged("event=consumerPassedBy")
            try await daemon.stop()
            return daemon.log
        },
        Case("a lock keeps history from being cleaned", "cleanFailed") { bench in
            try bench.configure(
                StoreSetup(more: #""clean": {"strategy": "byDuration", "seconds": "100ms"}"#))
            let daemon = try await bench.startDaemon()
            let locker = try await bench.startPython(
                """
                connection = connect(store, 'Widget')
                for n in range(1, 4): connection.execute('INSERT INTO person (id) VALUES (?)', (n,))
                connection.execute('BEGIN IMMEDIATE')
                print('locked', flush=True)
                time.sleep(1000)
                """)
            try await eventually("the lock") { locker.output == "locked\n" }
            try await daemon.logged("event=cleanFailed", within: .seconds(120))
            try await locker.destroy()
            try await daemon.stop()
            return daemon.log
        },
        Case("the state is damaged", "stateCorrupt") { bench in
            try bench.configure(StoreSetup())
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            let state = try bench.stateDatabase()
            try String(repeating: "no database ", count: 1000).write(
                toFile: state, atomically: true, encoding: .utf8)
            return try await bench.runDaemon("--once").log
        },
        Case("the state folder lies where nothing can be", "stateUnavailable") { bench in
            try bench.configure(StoreSetup())
            try bench.folder.write("file", "")
            let daemon = try bench.start(
                [Products.historyd, "--config", bench.configuration], "other",
                environment: ["STATE_DIRECTORY": bench.path("file/state")])
            #expect(try await daemon.end() == .exited(74))
            return daemon.errors.wholeLines
        },
        Case("the state is lost", "stateLost") { bench in
            try bench.configure(
                StoreSetup(more: #""clean": {"strategy": "byNotification", "times": 1}"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=cleaned")
            try await daemon.stop()
            let state = try bench.stateDatabase()
            for suffix in ["", "-wal", "-shm"] { unlink(state + suffix) }
            let again = try await bench.startDaemon()
            try await again.stop()
            return again.log
        },
        Case("the state has another daemon", "stateInUse") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let second = try await bench.runDaemon()
            #expect(second.status == .exited(75))
            try await daemon.stop()
            return second.log
        },
        Case("nobody has asked for a state in a long time", "stateRemoved") { bench in
            try bench.configure(StoreSetup())
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            let old = bench.path("state/00000000-0000-4000-8000-000000000000")
            for suffix in [".store", ".sqlite"] {
                try bench.folder.write("old", "/gone/contacts.sqlite")
                rename(bench.path("old"), old + suffix)
                var times = [timespec(), timespec()]
                #expect(utimensat(AT_FDCWD, old + suffix, &times, 0) == 0)
            }
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=stateRemoved")
            #expect(!FileManager.default.fileExists(atPath: old + ".sqlite"))
            #expect(FileManager.default.fileExists(atPath: try bench.stateDatabase()))
            try await daemon.stop()
            return daemon.log
        },
        Case("an operator steers", "paused", "resumed", "hooksChanged") { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.steer("pause")
            try await bench.steer("resume")
            try await bench.steer("hooks", "remove", "--all")
            try await daemon.stop()
            return daemon.log
        },
        Case("a manifest is edited, and kept hooks do not fit any more", "persistedHooksUnfit") { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            try bench.folder.write(
                "more.json",
                #"{"version": 1, "plugins": [{"name": "audit", "command": ["/bin/true"], "hooks": [{"name": "a", "kind": "observer"}]}]}"#
            )
            try await bench.steer("hooks", "add", bench.path("more.json"), "--persist")
            try await daemon.stop()
            // A plugin of this name is in the manifests now.
            try bench.configure(StoreSetup())
            return try await bench.runDaemon("--once").log
        },
        Case("the control socket's path is taken", "controlUnavailable") { bench in
            try bench.configure(StoreSetup())
            try bench.folder.write("taken", "")
            let daemon = try bench.launchDaemon(["--control-socket", bench.path("taken")])
            #expect(try await daemon.program.end() == .exited(74))
            return daemon.log
        },
        Case("somebody steers who may not", "controlRefused") { bench in
            try #require(getuid() == 0, "needs root to become another user")
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            for folder in [bench.folder.path, bench.path("state")] {
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder)
            }
            let member = ["/usr/bin/setpriv", "--reuid=65534", "--regid=0", "--clear-groups"]
            #expect(try await bench.ctl("pause", under: member).status == .exited(77))
            try await daemon.stop()
            return daemon.log
        },
    ]

    private static func number(_ file: String) -> String {
        RunningProgram.text(file).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
