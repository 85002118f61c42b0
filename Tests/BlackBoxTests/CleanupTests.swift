import Foundation
import PersistentHistory
import TestSupport
import Testing

/// History is deleted when everybody has had it, and not before.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct CleanupTests {
    private static let strategies = [
        #""clean": {"strategy": "byNotification", "times": 1}"#,
        #""clean": {"strategy": "byDuration", "seconds": "100ms"}"#,
    ]

    private func history(_ bench: Workbench) async throws -> [String] {
        // A void keeps the newest number.
        try await bench.sql(
            "SELECT id || CASE WHEN kind & 3 = 3 THEN '' ELSE ' ' || coalesce(CAST(origin AS TEXT), '') END FROM historyd_change ORDER BY id"
        )
        .wholeLines.map { line in
            // key TAB process TAB time TAB author
            let fields = line.split(separator: "\t", omittingEmptySubsequences: false)
            return (line.split(separator: " ").first.map(String.init) ?? "")
                + (fields.count > 3 ? " \(fields[3])" : line.contains(" ") ? " -" : "")
        }
    }

    @Test("A store of authors that only write is opened once, tracked and cleaned")
    func withoutConsumers() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: #"[{"name": "Nightly", "batch": true}]"#,
                    more: #""clean": {"strategy": "byDuration", "seconds": "100ms"}"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1), (2), (3)", as: "Nightly")
            try await bench.steer("clean", "--force")
            #expect(try await history(bench) == ["3"])
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Nightly")
            try await eventually("the cleanup", state: { daemon.log.joined(separator: "\n") }) {
                try await history(bench) == ["4"]
            }
            #expect(try await bench.report("status")["stores"][0]["state"].text == "open")
            #expect(daemon.log.count { $0.contains("is open at") } == 1, "\(daemon.log)")
            try await daemon.stop()
        }
    }

    @Test("By duration, the first turn comes with the first pass after which something may go")
    func firstTurn() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.named("MainApp"),
                    more: #""clean": {"strategy": "byDuration", "seconds": "7d"}"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1), (2), (3)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await eventually("the cleanup", state: { daemon.log.joined(separator: "\n") }) {
                try await self.history(bench) == ["3"]
            }
            // That was the turn.
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await daemon.stop()
            #expect(try await history(bench).last == "4 Widget")
        }
    }

    @Test(
        "What everybody has had goes, but not mirroring authors' history; no number comes again",
        arguments: strategies)
    func cleaned(_ strategy: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Widget"), more: strategy))
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", as: "NSCloudKitMirroringDelegate.import")
            try await bench.write("INSERT INTO person (id) VALUES (2), (3)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "MainApp")
            try await bench.calls(2, of: daemon)
            try await bench.write("INSERT INTO person (id) VALUES (5)")
            try await bench.calls(4, of: daemon)
            try await eventually("the cleanup", state: { daemon.log.joined(separator: "\n") }) {
                try await self.history(bench) == ["1 NSCloudKitMirroringDelegate.import", "5"]
            }
            try await daemon.stop()

            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
                .trimmingCharacters(in: .newlines)
            let reader = try HistoryReader(path: bench.store)
            #expect(throws: HistoryError.self) { try reader.batch(after: 4) }
            #expect(throws: Never.self) { try reader.batch(after: 5) }
            #expect(try reader.oldestToken().description == "\(id):5")
            try reader.close()

            let again = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (6)", as: "Widget")
            let calls = try await bench.calls(5, of: again)
            try await again.stop()
            #expect(calls.map(\.summary).last == "audit/all MainApp 6 Widget person insert p6")
            #expect(calls.count == 5)
        }
    }

    @Test("A store that cannot be cleaned is named, and the others are cleaned")
    func oneOfTwo() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(name: "gone", path: "gone.sqlite"), StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await bench.steer("wait", "--consumer", "MainApp", "--store", "contacts", "--token", token)
            let clean = try await bench.ctl("clean")
            #expect(clean.status == .exited(75), "\(clean)")
            #expect(clean.errors.contains("Store \"gone\" was not cleaned. The store is not open."), "\(clean)")
            #expect(clean.errors.contains("Store \"contacts\": 1 change deleted."), "\(clean)")
            try await daemon.stop()
        }
    }

    @Test("A cleanup that deletes nothing says why; status says that nothing is ever cleaned")
    func reasons() async throws {
        try await withWorkbench { bench in
            func configure(_ more: String) throws {
                try bench.configure(
                    StoreSetup(authors: StoreSetup.named("MainApp"), more: more),
                    plugins: [
                        PluginSetup(
                            more: #""retry": {"attempts": 1, "maximumDelay": "100ms"}"#,
                            hooks: [#"{"name": "all", "kind": "observer"}"#])
                    ])
            }
            try configure("")
            let daemon = try await bench.startDaemon()
            #expect(
                try await bench.steer("clean").contains("contacts: nothing was deleted: there is no history"))
            try await bench.write("INSERT INTO person (id) VALUES (1), (2)", as: "Widget")
            try await bench.calls(1, of: daemon)
            #expect(
                try await bench.steer("status").contains(
                    "Store contacts is never cleaned and has 2 changes of history."))
            try configure(#""clean": {"strategy": "byDuration", "seconds": "1h", "keep": "1h"}"#)
            try await bench.steer("reload")
            #expect(!(try await bench.steer("status")).contains("never cleaned"))
            let young = try await bench.report("clean", "--force")["stores"][0]
            #expect(young["changes"].int == 0 && young["tooYoung"]["changes"].int == 2)
            let text = try await bench.steer("clean", "--dry-run")
            #expect(text.contains("contacts: nothing would be deleted: 2 changes, since 2"), "\(text)")
            #expect(text.contains(#"are younger than "keep""#), "\(text)")

            try configure("")
            try await bench.steer("reload")
            #expect(try await bench.report("clean")["stores"][0]["changes"].int == 2)
            try bench.misbehave("refuse", "all")
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            let held = try await bench.steer("clean")
            #expect(
                held.contains("contacts: nothing was deleted: MainApp has not processed 1 change"), "\(held)")
            try await daemon.stop()
        }
    }

    @Test("Expiry ends the hold of a failing hook: it is notified of that before anything else")
    func expiryEndsAHold() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.mirrored(),
                    more: #""clean": {"strategy": "byDuration", "seconds": "100ms", "maximumDuration": "1s"}"#),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 1, "maximumDelay": "100ms"}"#,
                        hooks: [#"{"name": "all", "kind": "observer", "entity": "person"}"#])
                ])
            let daemon = try await bench.startDaemon()
            try bench.misbehave("refuse", "all")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            try await daemon.logged("event=consumerPassedBy")
            // The replica has what the deleted transaction brought, while the hook fails on.
            try await eventually(
                "a replica that was filled again", state: { daemon.log.joined(separator: "\n") }
            ) {
                try await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite")) == "1\n"
            }
            try bench.behave("refuse", "all")
            try await eventually("the notice", state: { daemon.log.joined(separator: "\n") }) {
                try bench.calls().contains { $0.params.reason == "expired" }
            }
            try await daemon.stop()
        }
    }

    @Test("A slow consumer's history stays", arguments: strategies)
    func slow(_ strategy: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.named("MainApp", "Slow"), more: strategy),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 1, "maximumDelay": "100ms"}"#,
                        hooks: [
                            #"{"name": "well", "kind": "observer", "consumer": "MainApp"}"#,
                            #"{"name": "slow", "kind": "observer", "consumer": "Slow"}"#,
                        ])
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await eventually("the first cleanup") {
                try await self.history(bench) == ["1"] || strategy.contains("byNotification")
            }
            try bench.misbehave("refuse", "slow")
            for id in 2...6 {
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget")
                try await eventually("the other consumer's") {
                    try bench.calls().filter { $0.params.hook == "audit/well" }.count == id
                }
            }
            // Some turns of the cleaner, in which the consumer is told of when it stands for long.
            try await observe(for: .milliseconds(400))
            #expect(!daemon.log.contains { $0.contains("event=consumerBlocksCleanup") })
            try await bench.sql(
                "UPDATE historyd_change SET origin = replace(origin, substr(origin, 1, instr(origin, 'Widget') - 1), 'x' || char(9) || 1 || char(9) || 1 || char(9)) WHERE id = 2"
            )
            for id in 7...8 {
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget")
                try await eventually("the other consumer's") {
                    try bench.calls().filter { $0.params.hook == "audit/well" }.count == id
                }
            }
            try await daemon.logged("event=consumerBlocksCleanup")
            // The changes are of 1970 now: when that is looked at, a consumer is lagging, too.
            let summary = try await bench.report("status")["summary"].text ?? ""
            #expect(summary.hasPrefix("Watching 1 store, 2 hooks; 1 hook held; "))
            #expect(summary.hasSuffix("history kept for \"Slow\""))
            try await observe(for: .milliseconds(400))
            #expect(
                daemon.log.filter { $0.contains("event=consumerBlocksCleanup") }.map { $0.prefix { $0 != "." } }
                    == [
                        #"warning: History of store "contacts" is kept for "Slow", which has not processed it"#
                    ])
            #expect(try await history(bench).suffix(7) == (2...8).map { "\($0) Widget" })
            try bench.behave("refuse", "slow")
            // Calls that were under way behind a refused one are made again: the last time counts.
            func had() throws -> [String] {
                var had: [String] = []
                for call in try bench.calls() where call.params.hook == "audit/slow" && call.manner == "ok" {
                    had.removeAll { $0 == call.summary }
                    had.append(call.summary)
                }
                return had
            }
            try await eventually("all that it missed") { try had().count == 8 }
            try await eventually("a status without it") {
                try await bench.report("status")["summary"].text == "Watching 1 store, 2 hooks"
            }
            try await bench.write("INSERT INTO person (id) VALUES (9)", as: "Widget")
            try await bench.write("INSERT INTO person (id) VALUES (10)", as: "Widget")
            try await eventually("the cleanup", state: { daemon.log.joined(separator: "\n") }) {
                try await self.history(bench).allSatisfy { !$0.contains("Widget") || $0.hasPrefix("10") }
            }
            try await daemon.stop()
            #expect(
                try had()
                    == (1...10).map { "audit/slow Slow \($0) Widget person insert p\($0)" })
        }
    }

    @Test("Where nobody is slow, the log is quiet")
    func quiet() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.named("One", "Two", "Three"),
                    more: #""clean": {"strategy": "byNotification", "times": 1}"#))
            let daemon = try await bench.startDaemon()
            for id in 1...20 {
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget", from: .shell)
                try await bench.calls(3 * id, of: daemon)
            }
            try await daemon.stop()
            #expect(daemon.problems(bench) == [])
        }
    }

    @Test("A consumer that has not moved for too long blocks no more; it starts over")
    func passedBy() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors:
                        #"[{"name": "MainApp"}, {"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "replica.sqlite"}]}]"#,
                    more:
                        #""clean": {"strategy": "byDuration", "seconds": "100ms", "maximumDuration": "500ms"}"#),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 1, "maximumDelay": "100ms"}"#,
                        hooks: [#"{"name": "slow", "kind": "observer", "consumer": "Mirror"}"#])
                ])
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try bench.misbehave("refuse", "slow")
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            for id in 2...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await eventually("the cleanup", state: { daemon.log.joined(separator: "\n") }) {
                try await self.history(bench) == ["3"]
            }
            try await daemon.logged("event=consumerPassedBy")
            // The hold ends although the hook goes on failing. The hook is notified of the loss before anything else,
            // and never receives what was deleted.
            try await daemon.logged("event=tokenExpired")
            try bench.behave("refuse", "slow")
            try await daemon.logged("event=contextRefilled")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            try await bench.expectReplicaEqualsStore(["person": "id"])
            let calls = try bench.calls().filter { $0.manner == "ok" }.map(\.summary)
            // How much was deleted at first is a matter of time.
            #expect(calls.first?.hasPrefix("audit/slow Mirror expired 0 > ") == true, "\(calls)")
            #expect(calls.last == "audit/slow Mirror 4 Widget person insert p4", "\(calls)")
            #expect(!calls.contains { $0.hasSuffix(" p1") || $0.hasSuffix(" p2") }, "\(calls)")
        }
    }
}
