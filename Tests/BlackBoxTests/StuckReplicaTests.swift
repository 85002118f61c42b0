import Foundation
import TestSupport
import Testing

/// A replica that can be opened and not be written: nothing stops in silence.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: SmallDisk.canMount, Comment(rawValue: SmallDisk.missing)), .timeLimit(.minutes(60)))
struct StuckReplicaTests {
    private static let authors =
        #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "disk/replica.sqlite"}]}]"#

    @Test(
        "The disk of a replica is full, with a merge hook that the consumer waits with",
        arguments: [true, false])
    func full(_ hasMergeHook: Bool) async throws {
        try await withWorkbench { bench in
            let hooks = hasMergeHook ? [#"{"name": "all", "kind": "merge"}"#] : []
            try bench.configure(
                StoreSetup(authors: Self.authors), plugins: hooks.isEmpty ? [] : [PluginSetup(hooks: hooks)])
            let disk = try await bench.startDaemon(withDisk: "disk")
            let daemon = disk.daemon
            try await daemon.logged("was filled from the store")
            try await disk.fill()
            try await bench.write(
                "INSERT INTO person (id, name) VALUES (1, hex(zeroblob(300000)))", as: "Widget")

            let told = try await daemon.logged("event=contextFailed")
            #expect(told.hasPrefix("error") && told.contains("full"), "\(told)")
            var consumer = try await bench.report("consumers")["consumers"][0]
            #expect(consumer["state"].text == "retrying")
            #expect(consumer["problem"].text?.contains("full") == true, "\(consumer)")
            #expect(consumer["contexts"][0]["problem"].text?.contains("full") == true, "\(consumer)")
            let table = try await bench.steer("status")
            #expect(table.contains("1 context failing"), "\(table)")
            #expect(table.contains("Mirror: The replica"), "\(table)")
            // What failed is tried at once, and fails at once.
            let run = try await bench.ctl("run", "--timeout", "30s")
            #expect(run.status == .exited(75), "\(run)")
            #expect(run.output.contains("full"), "\(run)")

            try await disk.makeRoom()
            try await daemon.logged("event=contextRecovered", within: .seconds(60))
            // Without another commit.
            try await eventually("a level consumer", state: { daemon.log.joined(separator: "\n") }) {
                consumer = try await bench.report("consumers")["consumers"][0]
                return consumer["state"].text == "level" && consumer["problem"].text == nil
            }
            #expect(
                try await disk.shell(
                    "sqlite3 '\(disk.folder)/replica.sqlite' 'SELECT length(name) FROM person'")
                    == "600000\n")
            try await daemon.stop()
            #expect(daemon.log.filter { $0.contains("event=contextFailed") }.count == 1, "told once")
        }
    }

    @Test("A pass that does not end within the timeout: status 75, and what it waits for")
    func timeout() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(), plugins: [PluginSetup(more: #""timeout": "5m""#)],
                more: #""stopTimeout": "100ms""#)
            let daemon = try await bench.startDaemon()
            try bench.misbehave("hang", "all")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            let run = try await bench.ctl("run", "--timeout", "500ms")
            #expect(run.status == .exited(75))
            #expect(
                run.errors.contains(#"within 500 ms: "MainApp" of store "contacts" is behind by 1 change"#),
                "\(run.errors)")
            let (status, body) = try await bench.http("POST", "/v1/run?timeout=500ms")
            #expect(status == 504)
            #expect(body["error"]["code"].text == "timedOut")
            let wrong = try await bench.http("POST", "/v1/run?timeout=soon")
            #expect(wrong.status == 400)
            try await daemon.stop()
        }
    }

    @Test("Dead letters are counted in status and consumers")
    func deadLetters() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(), plugins: [PluginSetup(more: #""onFailure": "skip", "retry": {"attempts": 1}"#)])
            let daemon = try await bench.startDaemon()
            #expect(try await bench.report("consumers")["consumers"][0]["deadLetters"].int == nil)
            try bench.misbehave("refuse", "all")
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await daemon.logged("event=deadLetterKept", times: 2)
            #expect(try await bench.report("consumers")["consumers"][0]["deadLetters"].int == 2)
            #expect(try await bench.report("status")["stores"][0]["consumers"][0]["deadLetters"].int == 2)
            for verb in ["status", "consumers"] {
                #expect(try await bench.steer(verb).contains("DEAD LETTERS"))
            }
            try await bench.steer("dead-letters", "drop", "--all")
            #expect(try await bench.report("consumers")["consumers"][0]["deadLetters"].int == nil)
            try await daemon.stop()
        }
    }
}
