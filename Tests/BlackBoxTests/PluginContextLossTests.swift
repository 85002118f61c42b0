import Foundation
import Glibc
import TestSupport
import Testing

/// Contexts of plugins that have lost history, or leave their checkpoint to the daemon, and large transactions.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct PluginContextLossTests {
    @Test("History was cleaned past it while it failed: it is told, and filled again")
    func cleaned() async throws {
        try await withWorkbench { bench in
            try bench.configureContext()
            let first = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForContext(at: 1, first)
            try bench.misbehave("hang", "context.merge")
            try await first.stop()
            // Its consumer goes on without it.
            try bench.configure(StoreSetup(authors: StoreSetup.named("Mirror")))
            try await bench.write("DELETE FROM person", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            let between = try await bench.startDaemon()
            try await bench.waitForCursor(at: 3, between)
            try await bench.steer("clean")
            try await between.stop()
            try bench.behave("hang", "context.merge")
            try bench.configureContext()
            let second = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.waitForContext(at: 4, second)
            try await second.stop()
            try await bench.expectContextEqualsStore()
            let calls = bench.contextCalls()
            #expect(
                calls.filter { !$0.hasPrefix("checkpoint") && !$0.hasPrefix("merge") } == [
                    "refill item person", "expired expired", "refill item person",
                ], "\(calls)")
        }
    }

    @Test("The store was restored from a backup: it is told, and filled again")
    func restored() async throws {
        try await withWorkbench { bench in
            try bench.configureContext()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.shell("sqlite3 contacts.sqlite '.backup backup.sqlite'")
            try await bench.write("INSERT INTO person (id) VALUES (2), (3)", as: "Widget")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.shell("rm contacts.sqlite*; mv backup.sqlite contacts.sqlite")
            // So many that its checkpoint is not ahead of them.
            try await bench.write(
                "INSERT INTO person (id) VALUES (4)", "INSERT INTO person (id) VALUES (5)",
                "INSERT INTO person (id) VALUES (6)", as: "Widget")
            let (status, _, log) = try await bench.runDaemon("--once")
            #expect(status == .exited(0), "\(log.joined(separator: "\n"))")
            try await bench.expectContextEqualsStore()
            #expect(
                bench.contextCalls().filter { !$0.hasPrefix("checkpoint") && !$0.hasPrefix("merge") } == [
                    "refill item person", "expired restored", "refill item person",
                ])
        }
    }

    @Test("A table was made again while nothing was recorded: it is told, and filled again")
    func recreated() async throws {
        try await withWorkbench { bench in
            try bench.configureContext()
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO item VALUES ('x', 1)", as: "Widget")
            try await bench.waitForContext(at: 1, daemon)
            try await bench.sql(
                "BEGIN; DROP TABLE item; CREATE TABLE item (code TEXT PRIMARY KEY, price REAL); INSERT INTO item VALUES ('y', 2); COMMIT"
            )
            try await eventually("the notice", state: { daemon.log.joined(separator: "\n") }) {
                bench.contextCalls().suffix(3).starts(with: ["expired recreated", "refill item person"])
            }
            try await bench.write("INSERT INTO item VALUES ('z', 3)", as: "Widget")
            try await eventually("the row", state: { bench.contextCalls().joined(separator: "\n") }) {
                try await bench.sql("SELECT count(*) FROM item", of: bench.path("index.sqlite")) == "2\n"
            }
            try await daemon.stop()
            try await bench.expectContextEqualsStore()
        }
    }

    @Test("A plugin without context.checkpoint goes on at the daemon's, also after both were killed")
    func daemonsCheckpoint() async throws {
        try await withWorkbench { bench in
            try bench.configureContext(checkpoint: "none")
            let first = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForContext(at: 1, first)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.waitForContext(at: 2, first)
            try await bench.waitForSaved(at: 2, first)
            try await first.kill()
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            let second = try await bench.startDaemon()
            try await bench.waitForContext(at: 3, second)
            // A call that was not answered comes again.
            try bench.misbehave("die", "context.merge")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await bench.waitForContext(at: 4, second)
            try await second.stop()
            try await bench.expectContextEqualsStore()
            let calls = bench.contextCalls()
            #expect(calls.filter { $0.hasPrefix("refill") }.count == 1, "\(calls)")
            #expect(calls.filter { $0 == "merge 3>4 4:Widget:1" }.count == 2, "\(calls)")
            #expect(calls.contains("merge 2>3 3:Widget:1"), "\(calls)")
        }
    }

    @Test("A plugin that dies between its commit and the answer has merged, and is no longer in trouble")
    func unanswered() async throws {
        try await withWorkbench { bench in
            try bench.configureContext()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try bench.misbehave("forget", "context.merge")
            let (status, _, log) = try await bench.runDaemon("--once")
            #expect(status == .exited(0), "\(log.joined(separator: "\n"))")
            #expect(bench.contextCalls().suffix(3) == ["checkpoint", "merge 0>1 1:Widget:1", "checkpoint"])
            try await bench.expectContextEqualsStore()
        }
    }

    @Test(
        "Another plugin does not go on at the checkpoint of the one before, also if it could not be filled at once"
    )
    func anotherPlugin() async throws {
        try await withWorkbench { bench in
            try bench.configureContext(checkpoint: "none")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.shell("rm index.sqlite*")
            try bench.misbehave("refuse", "context.refill")
            try bench.configureContext(plugin: "other", checkpoint: "none")
            let (status, _, log) = try await bench.runDaemon("--once")
            #expect(status == .exited(0), "\(log.joined(separator: "\n"))")
            #expect(
                bench.contextCalls().suffix(5) == [
                    "checkpoint", "refill item person", "checkpoint", "refill item person", "checkpoint",
                ])
            try await bench.expectContextEqualsStore()
        }
    }

    @Test("A store whose history was cleaned to its end is one to be filled from")
    func allCleaned() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("Mirror")))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            let first = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.waitForCursor(at: 1, first)
            try await bench.steer("clean")
            try await first.stop()
            try bench.configureContext()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.expectContextEqualsStore()
            #expect(bench.contextCalls() == ["checkpoint", "refill item person", "checkpoint"])
        }
    }

    @Test("A context in memory is filled again as soon as another process runs, without a commit")
    func inMemory() async throws {
        try await withWorkbench { bench in
            try bench.configureContext(checkpoint: "memory")
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForContext(at: 1, daemon)
            let process = try #require(
                pid_t(try String(contentsOfFile: bench.path("context.pid"), encoding: .utf8)))
            func isFilled(_ times: Int) async throws {
                try await eventually("the refill", state: { daemon.log.joined(separator: "\n") }) {
                    bench.contextCalls().filter { $0.hasPrefix("refill") }.count == times
                }
                try await bench.waitForContext(at: 1, daemon)
                try await bench.expectContextEqualsStore()
            }
            kill(process, SIGKILL)
            try await isFilled(2)
            try await bench.steer("plugins", "restart", "copier")
            try await isFilled(3)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.waitForContext(at: 2, daemon)
            try await daemon.stop()
            #expect(bench.contextCalls().last == "merge 1>2 2:Widget:1", "\(bench.contextCalls())")
            try await bench.expectContextEqualsStore()
        }
    }

    @Test("A large transaction comes in parts, all of them again where one failed")
    func large() async throws {
        try await withWorkbench { bench in
            try bench.configureContext()
            let daemon = try await bench.startDaemon()
            try await daemon.logged("was filled from the store")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForContext(at: 1, daemon)
            try await bench.write(
                """
                WITH RECURSIVE n (v) AS (SELECT 2 UNION ALL SELECT v + 1 FROM n WHERE v < 25001)
                INSERT INTO person (id) SELECT v FROM n
                """, as: "Importer")
            try await bench.waitForContext(at: 25001, daemon)
            try await bench.expectContextEqualsStore()
            let parts = [
                "merge 1>1 25001:Importer:10000 part 0", "merge 1>1 25001:Importer:10000 part 1",
                "merge 1>25001 25001:Importer:5000 part 2 last",
            ]
            #expect(bench.contextCalls().suffix(3) == parts)
            // The process ends amid the next one: nothing of it counts.
            try bench.misbehave("die", "context.merge-1")
            try await bench.write("UPDATE person SET age = 1", as: "Importer")
            try await bench.waitForContext(at: 50002, daemon)
            try await bench.expectContextEqualsStore()
            #expect(
                bench.contextCalls().suffix(6).map {
                    $0.split(separator: " ").dropFirst(3).joined(separator: " ")
                }
                    == ["part 0", "part 1", "", "part 0", "part 1", "part 2 last"],
                "\(bench.contextCalls())")
            #expect(
                try await bench.sql("SELECT count(*) FROM taken", of: bench.path("index.sqlite")) == "3\n")
            try await daemon.stop()
        }
    }

    @Test("A stop does not wait for a plugin that hangs")
    func stopped() async throws {
        try await withWorkbench { bench in
            try bench.configureContext(more: #""timeout": "1h""#, settings: #""stopTimeout": "500ms""#)
            let daemon = try await bench.startDaemon()
            try await daemon.logged("was filled from the store")
            try bench.misbehave("hang", "context.merge")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await eventually("the call") { bench.contextCalls().contains { $0.hasPrefix("merge") } }
            try await daemon.stop()
            #expect(!daemon.log.contains { $0.contains("contextFailed") || $0.contains("takes longer") })
            try bench.behave("hang", "context.merge")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.expectContextEqualsStore()
        }
    }

    @Test("What knows no contexts, or does not say where it is, is named")
    func unfit() async throws {
        try await withWorkbench { bench in
            try bench.configureContext()
            let answers = [
                #"{"error": {"code": -32601, "message": "what?"}}"#:
                    #"Plugin "copier" does not know the method context.refill, which a context needs: what?"#,
                #"{"result": "goOn"}"#:
                    #"Plugin "copier" answered to context.checkpoint "goOn", which is not a token."#,
                #"{"result": null}"#: "and then answered to context.checkpoint: null.",
            ]
            for (answer, message) in answers {
                try bench.folder.write(
                    "context.py",
                    """
                    import json, sys
                    for line in sys.stdin:
                        print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], **json.loads('\(answer)')}), flush=True)
                    """)
                let (status, _, log) = try await bench.runDaemon("--once")
                #expect(status != .exited(0))
                #expect(log.contains { $0.contains(message) }, "\(log.joined(separator: "\n"))")
            }
        }
    }
}

extension Workbench {
    /// Waits until the state has the checkpoint of a context.
    fileprivate func waitForSaved(at number: Int, _ daemon: DaemonUnderTest) async throws {
        let state = path("state/\(try await id()).sqlite")
        try await eventually("the checkpoint at \(number)", state: { daemon.log.joined(separator: "\n") }) {
            try await self.sql("SELECT position FROM replica", of: state) == "\(number)\n"
        }
    }
}
