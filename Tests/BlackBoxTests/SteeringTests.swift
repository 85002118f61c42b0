import Foundation
import TestSupport
import Testing

/// Pause and resume, wait, follow, and the rest of what an operator does.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct SteeringTests {
    @Test("A pause lets what is under way end; what comes meanwhile comes at resume, once")
    func pause() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(), StoreSetup(name: "other", path: "other.sqlite"),
                plugins: [PluginSetup(environment: ["DELAY": "0.3"])])
            try await bench.sql(Workbench.schema, of: bench.path("other.sqlite"))
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.steer("pause", "contacts")
            // It is at rest: where the cursor is, the calls are.
            let calls = try bench.calls().count
            let cursor = try await bench.report("consumers", "--store", "contacts")["consumers"][0]
            #expect(cursor["state"].text == "paused")
            #expect(cursor["cursor"].text?.hasSuffix(":\(calls)") == true, "\(cursor), \(calls) calls")

            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            // The other store goes on.
            try await bench.write(
                "INSERT INTO person (id) VALUES (9)", as: "Widget", to: bench.path("other.sqlite"))
            try await eventually("the other store's call") {
                try bench.calls().contains { $0.params.store == "other" }
            }
            #expect(try bench.calls().filter { $0.params.store == "contacts" }.count == calls)
            let status = try await bench.report("status")
            #expect(status["stores"].list.map { $0["state"].text } == ["paused", "open"])
            #expect(status["summary"].text == "Watching 2 stores, 1 hook; 1 store paused")
            #expect(try await bench.ctl("run", "contacts").status == .exited(75))
            // A reload does not end it.
            try await bench.steer("reload")
            #expect(try bench.calls().filter { $0.params.store == "contacts" }.count == calls)

            try await bench.steer("resume")
            try await bench.calls(4, of: daemon)
            let summaries = try bench.calls().filter { $0.params.store == "contacts" }.map(\.summary)
            #expect(summaries == (1...3).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
            #expect(try await bench.report("status")["stores"][0]["state"].text == "open")
            try await daemon.logged("event=paused")
            try await daemon.logged("event=resumed")
            try await daemon.stop()
        }
    }

    @Test(
        "A daemon that is paused stops, and one that is resumed under load loses nothing",
        arguments: Journal.allCases)
    func pauseUnderLoad(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            let before = try await bench.commit("INSERT INTO person (id) VALUES (1000)", as: "Widget")
            // Who asks is refused while the store is not open.
            try await bench.calls(1, of: daemon)
            let follower = try bench.startCtl(["follow", "--after", before])
            let writer = try await bench.startPython(
                """
                c = connect(store, 'Widget')
                for i in range(1, 301): c.execute('INSERT INTO person (id) VALUES (?)', (i,))
                """)
            for _ in 0..<5 {
                try await bench.steer("pause")
                try await bench.steer("resume")
            }
            try await writer.succeed()
            try await bench.calls(301, of: daemon)
            #expect(
                try bench.calls().dropFirst().map(\.summary)
                    == (1...300).map { "audit/all MainApp \($0 + 1) Widget person insert p\($0)" })
            // Who follows is not paused.
            let lines = try await eventually(
                "all lines", state: { "There are \(follower.output.wholeLines.count). \(follower.errors)" }
            ) { follower.output.wholeLines.count >= 300 ? follower.output.wholeLines : nil }
            #expect(
                try lines.compactMap { try Tree($0)["token"].text?.split(separator: ":").last }
                    == (2...301).map { Substring("\($0)") })
            try await bench.steer("pause")
            try await bench.write("INSERT INTO person (id) VALUES (301)", as: "Widget")
            try await daemon.stop()
            #expect(try bench.calls().count == 301)
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            #expect(try bench.calls().count == 302)
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }

    @Test("A large transaction is followed as one line, in which nothing is missing")
    func followLarge() async throws {
        try await withWorkbench(.wal) { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            let first = try await bench.commit("INSERT INTO person (id) VALUES (0)", as: "Widget")
            let last = try await bench.commit(
                """
                WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
                INSERT INTO person (id) SELECT i FROM n
                """, as: "Widget")
            let follower = try bench.startCtl(["follow", "--after", first])
            let line = try await eventually(
                "the line", state: { "\(follower.output.wholeLines.count) lines. \(follower.errors)" }
            ) { follower.output.wholeLines.first }
            let transaction = try Tree(line)
            #expect(transaction["token"].text == last)
            #expect(transaction["changes"].list.count == 25_000)
            try await daemon.stop()
        }
    }

    @Test("Who waits for its token reads what it has written", arguments: Journal.allCases)
    func wait(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            let batch = #", {"name": "Nightly", "batch": true}]"#
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp").dropLast() + batch))
            let daemon = try await bench.startDaemon()
            for id in 1...10 {
                let token = try await bench.commit("INSERT INTO person (id) VALUES (\(id))")
                let reached = try await bench.report("wait", "--consumer", "MainApp", "--token", token)
                #expect(reached["consumer"].text == "MainApp")
                #expect(
                    try await bench.sql(
                        "SELECT count(*) FROM person WHERE id = \(id)", of: bench.path("replica.sqlite"))
                        == "1\n")
            }
            // Its own is nothing to be told of; it passes it all the same.
            let own = try await bench.commit("INSERT INTO person (id) VALUES (11)", as: "MainApp")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", own)

            try await bench.steer("pause")
            let late = try await bench.commit("INSERT INTO person (id) VALUES (12)")
            let timedOut = try await bench.ctl(
                "wait", "--consumer", "MainApp", "--token", late, "--timeout", "200ms")
            #expect(timedOut.status == .exited(75))
            #expect(timedOut.errors.contains("did not reach \(late) in time: it is at \(own)"))
            // One that waits already is told.
            let waiting = try bench.startCtl(["wait", "--consumer", "MainApp", "--token", late])
            try await bench.steer("resume")
            #expect(try await waiting.succeed() == "\(late)\n")

            let store = try #require(late.split(separator: ":").first)
            for (token, status) in [("\(store):999", Int32(65)), ("0-0:1", 64), ("nonsense", 64)] {
                let wrong = try await bench.ctl("wait", "--consumer", "MainApp", "--token", token)
                #expect(wrong.status == .exited(status), "\(token): \(wrong.errors)")
            }
            let nobody = try await bench.ctl("wait", "--consumer", "Nobody", "--token", late)
            #expect(nobody.status == .exited(66))
            #expect(
                nobody.errors == "historyctl: There is no consumer \"Nobody\". Consumers: \"MainApp\".\n")
            let writer = try await bench.ctl("wait", "--consumer", "Nightly", "--token", late)
            #expect(writer.errors.contains("\"Nightly\". That author only writes (\"batch\"). Consumers:"))
            try await daemon.stop()
        }
    }

    @Test(
        "Who follows gets each transaction once, and goes on after the last one it had",
        arguments: Journal.allCases)
    func follow(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Widget")))
            let daemon = try await bench.startDaemon()
            let first = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            let all = try bench.startCtl(["follow", "--after", first])
            let own = try bench.startCtl(["follow", "--after", first, "--consumer", "Widget"])
            for id in 2...5 {
                try await bench.write(
                    "INSERT INTO person (id) VALUES (\(id))", as: id.isMultiple(of: 2) ? "Widget" : "MainApp")
            }
            func tokens(_ program: RunningProgram, _ count: Int) async throws -> [String] {
                let lines = try await eventually("\(count) lines", state: { program.output + program.errors }) {
                    program.output.wholeLines.count >= count ? program.output.wholeLines : nil
                }
                return try lines.compactMap { try Tree($0)["token"].text }
            }
            let seen = try await tokens(all, 4)
            #expect(seen.map { $0.split(separator: ":").last } == ["2", "3", "4", "5"])
            #expect(try await tokens(own, 2).map { $0.split(separator: ":").last } == ["3", "5"])
            all.signal(SIGTERM)
            _ = try await all.end()
            try await bench.write("INSERT INTO person (id) VALUES (6)", as: "Nobody")
            let resumed = try bench.startCtl(["follow", "--after", seen[2]])
            #expect(try await tokens(resumed, 2).map { $0.split(separator: ":").last } == ["5", "6"])

            // It ends with the daemon, and says so.
            try await daemon.stop()
            #expect(try await resumed.end() == .exited(69))
            #expect(resumed.errors.hasPrefix("historyctl: historyd ended"))
        }
    }

    @Test("Who follows a store that is replaced, or from where history was deleted, is told")
    func followExpired() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let first = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            let last = try await bench.commit("INSERT INTO person (id) VALUES (2)")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", last)
            let cleaned = try await bench.report("clean")
            #expect(cleaned["stores"][0]["through"].text == last)
            let expired = try await bench.ctl("follow", "--after", first)
            #expect(expired.status == .exited(69))
            #expect(expired.errors.contains("has been deleted; the oldest token that still works is \(last)"))

            let follower = try bench.startCtl(["follow", "--after", last])
            _ = try await bench.commit("INSERT INTO person (id) VALUES (3)")
            try await eventually("a line") { !follower.output.wholeLines.isEmpty }
            try await bench.sql(
                "PRAGMA journal_mode = wal; " + Workbench.schema, of: bench.path("another.sqlite"))
            try FileManager.default.removeItem(atPath: bench.store + "-wal")
            try FileManager.default.removeItem(atPath: bench.store + "-shm")
            _ = rename(bench.path("another.sqlite"), bench.store)
            #expect(try await follower.end() == .exited(65), "\(follower.errors)")
            #expect(follower.errors.contains("belongs to another store"))
            try await daemon.stop()
        }
    }

    @Test("Dead letters are listed with the call, tried again with the same delivery, and dropped")
    func deadLetters() async throws {
        try await withWorkbench { bench in
            let retry =
                #""retry": {"attempts": 2, "initialDelay": "1ms", "maximumDelay": "1ms"}, "onFailure": "skip""#
            let hooks = [#"{"name": "all", "kind": "observer"}"#, #"{"name": "m", "kind": "merge"}"#]
            try bench.configure(StoreSetup(), plugins: [PluginSetup(more: retry, hooks: hooks)])
            let daemon = try await bench.startDaemon()
            for hook in ["all", "m"] { try bench.misbehave("refuse", hook) }
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", token)
            let letters = try await bench.report("dead-letters", "list")["deadLetters"].list
            #expect(letters.map { $0["id"].text } == ["contacts:1", "contacts:2"])
            #expect(letters.map { $0["hook"].text } == ["audit/all", "audit/m"])
            #expect(letters.map { $0["attempts"].int } == [2, 2])
            #expect(letters[0]["reason"].text == "Plugin \"audit\" answered with an error: refused.")
            let call = try Tree(try #require(letters[0]["call"].text))
            #expect(call["transaction"]["token"].text == token)
            let refused = try bench.calls()

            #expect(letters.map { $0["method"].text } == ["observe", "merge"])

            let failed = try await bench.ctl("dead-letters", "retry", "contacts:1")
            #expect(failed.status == .exited(75))
            #expect(try await bench.report("dead-letters", "list")["deadLetters"][0]["attempts"].int == 3)
            for hook in ["all", "m"] { try bench.behave("refuse", hook) }
            let done = try await bench.report("dead-letters", "retry", "--all")
            #expect(done["delivered"].texts == ["contacts:1", "contacts:2"])
            let again = try bench.calls().suffix(2)
            #expect(again.map(\.manner) == ["ok", "ok"])
            let parameters = { (call: Call) in call.text.components(separatedBy: #""params":"#).last }
            #expect(parameters(try #require(again.first)) == parameters(try #require(refused.first)))
            #expect(try await bench.report("dead-letters", "list")["deadLetters"].list.isEmpty)

            try bench.misbehave("refuse", "all")
            let next = try await bench.commit("INSERT INTO person (id) VALUES (2)")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", next)
            #expect(try await bench.ctl("dead-letters", "drop", "contacts:1").status == .exited(66))
            #expect(try await bench.steer("dead-letters", "drop", "contacts:3") == "contacts:3 dropped\n")
            #expect(try await bench.report("dead-letters", "list")["deadLetters"].list.isEmpty)
            try await daemon.stop()
        }
    }

    @Test("A context is filled again when it is asked for, and goes on from there")
    func resync() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", token)
            try await bench.sql(
                "DELETE FROM person; INSERT INTO person (id) VALUES (77)", of: bench.path("replica.sqlite"))
            #expect(try await bench.steer("resync", "view") == "\(token)\n")
            try await bench.expectReplicaEqualsStore(["person": "id"])
            let next = try await bench.commit("INSERT INTO person (id) VALUES (2)")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", next)
            try await bench.expectReplicaEqualsStore(["person": "id"])
            #expect(try await bench.ctl("resync", "nothing").status == .exited(66))
            try await daemon.stop()
        }
    }

    @Test("The log level changes at once")
    func logLevel() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            #expect(try await bench.steer("log-level") == "info\n")
            #expect(try await bench.steer("log-level", "trace") == "trace\n")
            _ = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await daemon.logged("The cursor of \"MainApp\" is at ")
            #expect(try await bench.report("status")["logLevel"].text == "trace")
            try await daemon.stop()
        }
    }

    @Test("With the log level off nothing more is logged")
    func logLevelOff() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            #expect(try await bench.steer("log-level", "off") == "off\n")
            #expect(try await bench.report("status")["logLevel"].text == "off")
            let before = daemon.log
            _ = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await bench.steer("pause")
            try await bench.steer("resume")
            #expect(daemon.log == before)
            #expect(try await bench.steer("log-level", "info") == "info\n")
            try await bench.steer("pause")
            try await daemon.logged("is paused, by")
            try await daemon.stop()
        }
    }

    @Test("A store that does not start by itself is paused until it is resumed, and stays as it is at a reload")
    func autoStart() async throws {
        try await withWorkbench { bench in
            let setup = StoreSetup(more: #""autoStart": false"#)
            try bench.configure(setup, plugins: [PluginSetup()])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("starts paused")
            #expect(try await bench.report("status")["stores"][0]["state"].text == "paused")
            try await bench.steer("reload")
            #expect(try await bench.report("status")["stores"][0]["state"].text == "paused")
            #expect(try bench.calls().isEmpty)
            try await bench.steer("resume")
            try await bench.calls(1, of: daemon)
            try bench.configure(
                StoreSetup(more: #""autoStart": false, "includingMirroring": true"#), plugins: [PluginSetup()])
            try await bench.steer("reload")
            #expect(try await bench.report("status")["stores"][0]["state"].text == "open")
            try await daemon.stop()
        }
    }

    @Test("Status counts the history that is ignored and kept for ever")
    func unlistedHistory() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(more: #""unlistedAuthors": "ignore""#))
            let daemon = try await bench.startDaemon()
            #expect(try await bench.report("status")["stores"][0]["unlistedChanges"].int == 0)
            _ = try await bench.commit("INSERT INTO person (id) VALUES (1), (2)", as: "Stranger")
            #expect(try await bench.report("status")["stores"][0]["unlistedChanges"].int == 2)
            #expect(
                try await bench.ctl("status").output.contains("keeps 2 changes by unlisted authors"))
            try bench.configure(StoreSetup(more: #""unlistedAuthors": "ignore", "cleanUnlisted": true"#))
            try await bench.steer("reload")
            #expect(try await !bench.ctl("status").output.contains("unlisted"))
            try await bench.steer("clean")
            #expect(try await bench.ctl("history", bench.store, "--format", "json").output == "")
            try await daemon.stop()
        }
    }

    @Test("Two stores with a consumer of one name: which is meant must be said")
    func ambiguous() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), StoreSetup(name: "other", path: "other.sqlite"))
            try await bench.sql(Workbench.schema, of: bench.path("other.sqlite"))
            let daemon = try await bench.startDaemon()
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            let both = try await bench.ctl("wait", "--consumer", "MainApp", "--token", token)
            #expect(both.status == .exited(64))
            #expect(both.errors.contains("\"contacts\", \"other\""))
            try await bench.steer("wait", "--consumer", "MainApp", "--token", token, "--store", "contacts")
            #expect(try await bench.ctl("follow").status == .exited(64))
            try await daemon.stop()
        }
    }
}
