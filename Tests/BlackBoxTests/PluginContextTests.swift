import Foundation
import Glibc
import TestSupport
import Testing

/// A consumer's changes are merged into a context that a plugin keeps.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct PluginContextTests {
    @Test("It is filled first, and then gets what others commit, in order, also after a restart")
    func merged() async throws {
        try await withWorkbench { bench in
            try await bench.sql("INSERT INTO person (id) VALUES (1)")
            try bench.configureContext()
            let first = try await bench.startDaemon()
            try await first.logged(#"Context "index" of "Mirror" was filled from the store"#)
            try await bench.write(
                "INSERT INTO person (id) VALUES (2); INSERT INTO item VALUES ('x', 1.5)",
                "UPDATE person SET name = 'Ann' WHERE id = 1", "DELETE FROM person WHERE id = 2", as: "Widget")
            try await bench.waitForContext(at: 4, first)
            try await first.stop()
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Mirror")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Importer")
            let second = try await bench.startDaemon()
            try await bench.waitForContext(at: 6, second)
            try await second.stop()
            let calls = bench.contextCalls()
            #expect(Array(calls.prefix(3)) == ["checkpoint", "refill item person", "checkpoint"])
            #expect(
                Self.transactions(calls) == ["2:Widget:2", "3:Widget:1", "4:Widget:1", "6:Importer:1"],
                "\(calls)")
            // Its own changes a consumer has.
            #expect(try await bench.rowIDs() == "1,4")
            #expect((first.problems(bench) + second.problems(bench)) == [])
        }
    }

    @Test("Only its entities, and with the decisions of merge hooks; it is seen in status, and filled by hand")
    func asAReplica() async throws {
        try await withWorkbench { bench in
            let hook = PluginSetup(
                environment: ["REJECT": "Banned"], hooks: [#"{"name": "decide", "kind": "merge"}"#])
            try bench.configureContext(entities: #"["person"]"#, besides: [hook])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("was filled from the store")
            try await bench.write(
                "INSERT INTO person (id) VALUES (1); INSERT INTO item VALUES ('x', 1)", as: "Widget")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Banned")
            try await bench.write("INSERT INTO item VALUES ('y', 1)", as: "Widget")
            try await bench.waitForContext(at: 4, daemon)
            #expect(Self.transactions(bench.contextCalls()) == ["2:Widget:1"])
            #expect(bench.contextCalls().contains("refill person"))
            let call = try #require(try bench.calls().last)
            #expect(
                call.text.contains(#""contexts":[{"name":"index","kind":"plugin","path":null}]"#),
                "\(call.text)")

            let context = try await bench.report("consumers")["consumers"][0]["contexts"][0]
            #expect(context["kind"].text == "plugin" && context["plugin"].text == "copier", "\(context)")
            #expect(context["problem"].text == nil && context["lag"]["transactions"].int == 0, "\(context)")
            // What a hook has rejected is in the store all the same.
            #expect(try await bench.rowIDs() == "1")
            try await bench.steer("resync", "index")
            #expect(try await bench.rowIDs() == "1,2")
            #expect(bench.contextCalls().suffix(3) == ["checkpoint", "refill person", "checkpoint"])
            #expect(!bench.contextCalls().contains { $0.hasPrefix("expired") })

            try bench.misbehave("hang", "context.merge")
            try bench.misbehave("refuse", "context.refill")
            let refused = try await bench.ctl("resync", "index")
            #expect(refused.status != .exited(0))
            #expect(
                refused.errors.contains(
                    #"Plugin "copier" answered to context.refill with an error: not now."#), "\(refused.errors)"
            )
            try bench.behave("hang", "context.merge")
            try await daemon.stop()
        }
    }

    @Test("A plugin that fails is tried again; the consumer goes on, and says what is wrong")
    func failing() async throws {
        try await withWorkbench { bench in
            try bench.configureContext(besides: [PluginSetup()])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("was filled from the store")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForContext(at: 1, daemon)
            for manner in ["refuse", "die"] { try bench.misbehave(manner, "context.merge") }
            let token = try await bench.commit("INSERT INTO person (id) VALUES (2)")
            try await bench.steer("wait", "--consumer", "Mirror", "--token", token, "--timeout", "30s")
            try await bench.waitForContext(at: 2, daemon)
            try await bench.expectContextEqualsStore()
            // In place of its process comes one that knows where it is.
            let process = try #require(bench.contextProcess)
            kill(process, SIGKILL)
            try await eventually("another process") { bench.contextProcess != process }
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.waitForContext(at: 3, daemon)
            try await bench.expectContextEqualsStore()
            try await bench.steer("plugins", "restart", "copier")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await bench.waitForContext(at: 4, daemon)
            // A reload that takes the plugin's hooks away, or gives it another process, leaves the context as it is.
            try bench.configureContext(more: #""timeout": "7s""#)
            try await bench.steer("reload")
            try await bench.write("INSERT INTO person (id) VALUES (5)", as: "Widget")
            try await bench.waitForContext(at: 5, daemon)
            try await bench.expectContextEqualsStore()
            #expect(bench.contextCalls().filter { $0.hasPrefix("refill") }.count == 1)
            let sample = try await bench.ctl("plugins", "test", "copier")
            #expect(
                sample.errors.contains(#"Plugin "copier" has no hooks: it keeps contexts"#), "\(sample.errors)")
            try await daemon.stop()
        }
    }

    @Test(
        "Killed at random instants, plugin and daemon, each transaction counts exactly once",
        arguments: 1...2 as ClosedRange<UInt64>)
    func killed(_ number: UInt64) async throws {
        var seed = Seed(number)
        try await withWorkbench { bench in
            try bench.configureContext()
            var daemon = try await bench.startDaemon()
            try await daemon.logged("was filled from the store")
            let writers = [
                try await bench.startPython(Self.writer(seed: number, author: "Widget")),
                try await bench.startPython(Self.writer(seed: number + 100, author: "Importer")),
            ]
            var kills = (daemon: 0, plugin: 0)
            for number in 0..<9 {
                // Amid the calls, or after one.
                let calls = bench.contextCalls().count
                try await eventually(
                    "a merge", state: { daemon.log.suffix(20).joined(separator: "\n") }
                ) { bench.contextCalls().dropFirst(calls).contains { $0.hasPrefix("merge") } }
                try await observe(for: .milliseconds(Int.random(in: 0...40, using: &seed)))
                if number % 3 == 0 {
                    try await daemon.kill()
                    kills.daemon += 1
                    daemon = try bench.launchDaemon()
                } else if let process = bench.contextProcess {
                    kill(process, SIGKILL)
                    kills.plugin += 1
                }
            }
            try bench.folder.write("enough", "")
            for writer in writers { try await writer.succeed() }
            try await daemon.kill()
            let last = try await bench.runDaemon("--once")
            #expect(last.status == .exited(0), "\(last.log.joined(separator: "\n"))")
            print("\(seed): \(kills), \(bench.contextCalls().count) calls")
            #expect(kills.daemon > 0 && kills.plugin > 0)
            try await bench.expectContextEqualsStore()
            let taken = try await bench.sql(
                "SELECT token FROM taken ORDER BY rowid", of: bench.path("index.sqlite"))
            let filled = bench.contextCalls().filter { $0.hasPrefix("refill") }.count
            #expect(filled == 1, "\(seed)")
            let tokens = try await bench.tokens()
            #expect(tokens.count > 50 && taken.wholeLines.count == tokens.count, "\(seed)")
            #expect(taken.wholeLines == tokens, "\(seed) \(bench.contextCalls().prefix(5))")
        }
    }

    /// Transactions of one author, in bursts.
    private static func writer(seed: UInt64, author: String) -> String {
        """
        dice = random.Random(\(seed))
        connection = connect(store, '\(author)', None, 'synchronous = OFF')
        while not os.path.exists(bench + '/enough'):
            key = dice.randrange(40)
            connection.execute('BEGIN IMMEDIATE')
            connection.execute('INSERT OR REPLACE INTO person (id, name, age) VALUES (?, ?, ?)', (key, dice.choice('abc'), dice.randrange(9999)))
            connection.execute('DELETE FROM person WHERE id = ?', (dice.randrange(40),))
            connection.execute('INSERT INTO item VALUES (?, 1) ON CONFLICT DO UPDATE SET price = price + 1', (f'c{key}',))
            connection.execute('COMMIT')
            if dice.randrange(3) == 0: time.sleep(dice.random() * 0.02)
        """
    }

    fileprivate static func transactions(_ calls: [String]) -> [String] {
        calls.filter { $0.hasPrefix("merge") }.flatMap {
            $0.split(separator: " ").dropFirst(2).map(String.init)
        }
    }
}

extension Workbench {
    fileprivate var contextProcess: pid_t? {
        (try? String(contentsOfFile: path("context.pid"), encoding: .utf8)).flatMap { pid_t($0) }
    }

    fileprivate func rowIDs() async throws -> String {
        try await sql(
            "SELECT group_concat(id) FROM (SELECT id FROM person ORDER BY id)", of: path("index.sqlite")
        )
        .trimmingCharacters(in: .newlines)
    }

    /// Of all transactions, in order.
    fileprivate func tokens() async throws -> [String] {
        try await start(
            [Products.historyctl, "history", store, "--format", "json"], "history-\(UUID().uuidString)"
        ).succeed().wholeLines.compactMap { try Tree($0)["token"].text }
    }
}
