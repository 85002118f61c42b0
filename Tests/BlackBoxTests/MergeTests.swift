import Foundation
import TestSupport
import Testing

/// The pipeline of merge hooks, and what it leaves for the replica.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MergeTests {
    private static let setup = StoreSetup(authors: StoreSetup.mirrored())

    /// Writes two transactions while the daemon is down, so that they are one batch; works them
    /// off; and gives the calls and the replica's people.
    private func run(_ plugins: [PluginSetup], _ body: ([String], String, Workbench) async throws -> Void)
        async throws
    {
        try await withWorkbench { bench in
            try bench.configure(Self.setup, plugins: plugins)
            try await expectLevel(bench)
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Batch")
            try await expectLevel(bench)
            let people = try await bench.sql(
                "SELECT group_concat(id) FROM person ORDER BY 1", of: bench.path("replica.sqlite"))
            try await body(try bench.calls().map(\.summary), people.trimmingCharacters(in: .newlines), bench)
        }
    }

    private func expectLevel(_ bench: Workbench) async throws {
        let run = try await bench.runDaemon("--once")
        #expect(run.status == .exited(0), "\(run.log.joined(separator: "\n"))")
    }

    @Test("Observers come before merge hooks, and these in the pipeline's order, with before")
    func order() async throws {
        let plugins = [
            PluginSetup(
                name: "a",
                hooks: [
                    #"{"name": "first", "kind": "merge"}"#, #"{"name": "seen", "kind": "observer"}"#,
                ]),
            PluginSetup(
                name: "b", behaviour: .recordInShell, mode: "oneshot",
                hooks: [#"{"name": "second", "kind": "merge"}"#]),
            PluginSetup(
                name: "c", mode: "oneshot",
                hooks: [
                    #"{"name": "third", "kind": "merge", "before": "a/first"}"#,
                    #"{"name": "fourth", "kind": "merge", "before": "c/third"}"#,
                    #"{"name": "noted", "kind": "observer"}"#,
                ]),
        ]
        try await run(plugins) { calls, people, _ in
            #expect(
                calls == [
                    "a/seen Mirror 1 Widget person insert p1", "c/noted Mirror 1 Widget person insert p1",
                    "a/seen Mirror 2 Batch person insert p2", "c/noted Mirror 2 Batch person insert p2",
                    "c/fourth Mirror [1 Widget, 2 Batch]", "c/third Mirror [1 Widget, 2 Batch]",
                    "a/first Mirror [1 Widget, 2 Batch]", "b/second Mirror [1 Widget, 2 Batch]",
                ])
            #expect(people == "1,2")
        }
    }

    @Test(
        "After finish neither later hooks nor the default merge come, and the cursor moves on",
        arguments: ["coprocess", "oneshot"])
    func finish(_ mode: String) async throws {
        let plugins = [
            PluginSetup(name: "a", hooks: [#"{"name": "first", "kind": "merge"}"#]),
            PluginSetup(
                name: "b", mode: mode, environment: ["RESULT": #"\"finish\""#],
                hooks: [#"{"name": "last", "kind": "merge"}"#]),
            PluginSetup(name: "c", hooks: [#"{"name": "never", "kind": "merge"}"#]),
        ]
        try await run(plugins) { calls, people, bench in
            #expect(calls == ["a/first Mirror [1 Widget, 2 Batch]", "b/last Mirror [1 Widget, 2 Batch]"])
            #expect(people == "")
            // Nothing is left to be done, and what is to come begins behind it.
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await expectLevel(bench)
            #expect(
                try bench.calls().map(\.summary).dropFirst(2) == [
                    "a/first Mirror [3 Widget]", "b/last Mirror [3 Widget]",
                ])
        }
    }

    @Test(
        "What a hook rejects is seen neither by later hooks nor by the default merge",
        arguments: ["coprocess", "oneshot"])
    func reject(_ mode: String) async throws {
        let plugins = [
            PluginSetup(
                name: "a", mode: mode, environment: ["REJECT": "Batch"],
                hooks: [#"{"name": "screen", "kind": "merge"}"#]),
            PluginSetup(
                name: "b",
                hooks: [#"{"name": "later", "kind": "merge"}"#, #"{"name": "seen", "kind": "observer"}"#]),
        ]
        try await run(plugins) { calls, people, _ in
            #expect(
                calls == [
                    "b/seen Mirror 1 Widget person insert p1", "b/seen Mirror 2 Batch person insert p2",
                    "a/screen Mirror [1 Widget, 2 Batch]", "b/later Mirror [1 Widget]",
                ])
            #expect(people == "1")
        }
    }
}
