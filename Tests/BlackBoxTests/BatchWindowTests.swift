import Foundation
import TestSupport
import Testing

/// Consumers that gather commits for a while before they are called.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct BatchWindowTests {
    /// A oneshot hook that is called once for a batch, and keeps what it was given.
    private static let plugin = PluginSetup(
        name: "keep", command: ["/bin/sh", "-c", #"{ cat; echo; } >> \"$BENCH/given\""#], mode: "oneshot",
        hooks: [#"{"name": "all", "kind": "observer", "calls": "batch"}"#])

    private static func author(_ window: String, more: String = "") -> StoreSetup {
        StoreSetup(authors: #"[{"name": "MainApp", "batchWindow": "\#(window)"}]"#, more: more)
    }

    private static func insert(_ id: Int) -> String { "INSERT INTO person (id) VALUES (\(id))" }

    /// The numbers of the transactions of each call.
    private func given(_ bench: Workbench) throws -> [[Int]] {
        // The last line may be half written.
        let lines = RunningProgram.text(bench.path("given")).split(
            separator: "\n", omittingEmptySubsequences: false)
        return try lines.dropLast().filter { !$0.isEmpty }.map { line in
            try Tree(String(line))["groups"].list.map { group in
                Int(group["transaction"]["token"].text?.split(separator: ":").last ?? "") ?? -1
            }
        }
    }

    private func consumer(_ bench: Workbench) async throws -> Tree {
        try await bench.report("consumers")["consumers"][0]
    }

    @Test("What comes within a window is one call; it is said until when it is gathered, and nobody is alarmed")
    func gathers() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                Self.author("1h", more: #""healthyLag": "1s""#), plugins: [Self.plugin])
            let daemon = try await bench.startDaemon()
            for id in 1...3 { try await bench.write(Self.insert(id), as: "Widget") }
            try await eventually("a window") { try await consumer(bench)["state"].text == "gathering" }
            let end = try await consumer(bench)["windowEndsAt"].text
            #expect(end != nil)
            for id in 4...5 { try await bench.write(Self.insert(id), as: "Widget") }
            try await eventually("a lag") { try await consumer(bench)["lag"]["seconds"].int ?? 0 > 2 }
            // The window is the first commit's.
            let still = try await consumer(bench)
            #expect(still["state"].text == "gathering" && still["windowEndsAt"].text == end, "\(still)")
            #expect(try await bench.ctl("health").status == .exited(0))
            #expect(try await bench.steer("consumers").contains("gathering"))
            try await bench.steer("run")
            try await eventually("the call") { try !given(bench).isEmpty }
            #expect(try given(bench) == [[1, 2, 3, 4, 5]])
            try await daemon.stop()
            #expect(daemon.problems(bench) == [])
        }
    }

    @Test("A steady stream does not put the call off")
    func steady() async throws {
        try await withWorkbench { bench in
            try bench.configure(Self.author("500ms"), plugins: [Self.plugin])
            let daemon = try await bench.startDaemon()
            var id = 0
            // Commits come until three windows are over: what waits for a pause would wait for ever.
            while try given(bench).count < 3 {
                id += 1
                try await bench.write(Self.insert(id), as: "Widget")
            }
            try await eventually("all") { try given(bench).joined().count == id }
            #expect(try Array(given(bench).joined()) == Array(1...id))
            try await daemon.stop()
        }
    }

    @Test(
        "run, a full batch and a single run do not wait; a wait does; and a stop loses nothing",
        arguments: [
            "run", "full", "once", "restart", "move",
        ])
    func begins(_ how: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(Self.author("1h"), plugins: [Self.plugin])
            let daemon = try await bench.startDaemon()
            let token = try await bench.commit(Self.insert(1))
            try await eventually("a window") { try await consumer(bench)["state"].text == "gathering" }
            let early = try await bench.ctl(
                "wait", "--consumer", "MainApp", "--token", token, "--timeout", "1s")
            #expect(early.status != .exited(0))
            #expect(try given(bench) == [])
            var expected = [1]
            switch how {
            case "run": try await bench.steer("run")
            case "full":
                try await bench.write(
                    "WITH n(id) AS (SELECT 2 UNION ALL SELECT id + 1 FROM n WHERE id < 5100) INSERT INTO person (id) SELECT id FROM n",
                    as: "Widget")
                expected.append(5100)
            case "move": try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
            default:
                try await daemon.stop()
                #expect(try given(bench) == [])
            }
            if how == "once" { #expect(try await bench.runDaemon("--once").status == .exited(0)) }
            if how == "move" {
                // It stays where it is, and gathers on.
                #expect(try await consumer(bench)["state"].text == "gathering")
                try await bench.steer("run")
            }
            let next = how == "restart" ? try await bench.startDaemon() : daemon
            try await eventually("the calls", state: { next.log.joined(separator: "\n") }) {
                try Set(given(bench).joined()) == Set(expected)
            }
            if how == "run" {
                // The next one has a window of its own.
                try await bench.write(Self.insert(2), as: "Widget")
                try await eventually("a window") { try await consumer(bench)["state"].text == "gathering" }
                #expect(try given(bench) == [[1]])
            }
            if how != "once" { try await next.stop() }
        }
    }
}
