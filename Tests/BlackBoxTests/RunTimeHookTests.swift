import Foundation
import TestSupport
import Testing

/// Hooks that come to a running daemon, and go.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct RunTimeHookTests {
    private static func manifest(_ bench: Workbench, _ name: String, hooks: String...) throws -> String {
        let plugin = PluginSetup(name: name, hooks: hooks).json(folder: bench.folder.path)
        try bench.folder.write("\(name).json", #"{"version": 1, "plugins": [\#(plugin)]}"#)
        return bench.path("\(name).json")
    }

    private static func observer(_ name: String, _ entity: String = "person", _ operation: String = "insert")
        -> String
    {
        #"{"name": "\#(name)", "kind": "observer", "entity": "\#(entity)", "operation": "\#(operation)"}"#
    }

    private static func names(_ bench: Workbench) async throws -> [String] {
        try await bench.report("hooks", "list")["hooks"].list.compactMap { $0["name"].text }
    }

    private static func id(_ name: String, _ bench: Workbench) async throws -> String {
        let hooks = try await bench.report("hooks", "list")["hooks"].list
        return try #require(hooks.first { $0["name"].text == name }?["id"].text)
    }

    /// The hooks that a transaction is told to, in their order.
    private static func told(_ id: Int, _ bench: Workbench, _ daemon: DaemonUnderTest) async throws -> [String]
    {
        let before = try bench.calls().count
        let token = try await bench.commit("INSERT INTO person (id) VALUES (\(id))")
        try await bench.steer("wait", "--consumer", "MainApp", "--token", token, "--timeout", "60s")
        return try bench.calls().dropFirst(before).map(\.params.hook)
    }

    @Test("Hooks are called in the order in which they were registered; one of three is removed, two stay")
    func threeHooks() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let added = try await bench.report(
                "hooks", "add",
                try Self.manifest(
                    bench, "three", hooks: Self.observer("a"), Self.observer("b"), Self.observer("c")))
            #expect(added["added"].list.map { $0["name"].text } == ["three/a", "three/b", "three/c"])
            #expect(try await Self.names(bench) == ["audit/all", "three/a", "three/b", "three/c"])
            #expect(
                try await Self.told(1, bench, daemon) == ["audit/all", "three/a", "three/b", "three/c"])

            let id = try #require(added["added"][1]["id"].text)
            let removed = try await bench.report("hooks", "remove", id)
            #expect(removed["removed"].list.map { $0["name"].text } == ["three/b"])
            #expect(try await Self.told(2, bench, daemon) == ["audit/all", "three/a", "three/c"])

            let again = try await bench.ctl("hooks", "remove", id)
            #expect(again.status == .exited(66))
            #expect(again.errors == "historyctl: There is no hook \(id).\n")
            #expect(try await Self.told(3, bench, daemon) == ["audit/all", "three/a", "three/c"])
            try await daemon.logged("event=hooksChanged", times: 2)

            // Counts, of each hook since it was there.
            let hooks = try await bench.report("hooks", "list")["hooks"].list
            #expect(hooks.map { $0["calls"].int } == [3, 3, 3])
            #expect(hooks.map { $0["origin"].text } == ["manifest", "added", "added"])
            #expect(hooks.map { $0["position"].int } == [1, 2, 3])
            try await daemon.stop()
        }
    }

    @Test("Removal by entity and operation takes exactly that pair's observers, and --all takes all of a kind")
    func pairs() async throws {
        try await withWorkbench { bench in
            let hooks = [
                Self.observer("a"), Self.observer("b"), Self.observer("other", "person", "delete"),
                Self.observer("item", "item"),
                #"{"name": "two", "kind": "observer", "entity": "person", "operation": ["insert", "update"]}"#,
                #"{"name": "m", "kind": "merge"}"#,
            ]
            try bench.configure(StoreSetup(), plugins: [PluginSetup(), PluginSetup(name: "p", hooks: hooks)])
            let daemon = try await bench.startDaemon()
            try await bench.steer("hooks", "remove", "--entity", "person", "--operation", "insert")
            #expect(
                try await Self.names(bench) == ["audit/all", "p/other", "p/item", "p/two", "p/m"],
                "those of every entity stay, and so does what is left of one with two operations")
            #expect(try await Self.told(1, bench, daemon) == ["audit/all", "p/m"])
            let nothing = try await bench.ctl("hooks", "remove", "--entity", "person", "--operation", "insert")
            #expect(nothing.status == .exited(66))
            #expect(
                try await bench.ctl(
                    "hooks", "remove", "--entity", "item", "--operation", "insert", "--kind", "merge"
                )
                .status == .exited(66))

            try await bench.steer("hooks", "remove", "--all", "--kind", "observer")
            #expect(try await Self.names(bench) == ["p/m"])
            #expect(try await Self.told(2, bench, daemon) == ["p/m"])
            try await bench.steer("hooks", "remove", "--all")
            #expect(try await bench.steer("hooks", "remove", "--all") == "")
            #expect(try await Self.told(3, bench, daemon) == [])
            // The plugins have nothing to do any more.
            try await eventually("the plugins' end") { Processes.naming(bench.path("record.py")).isEmpty }

            // What the manifest says comes back with it.
            try await bench.steer("reload")
            #expect(try await Self.names(bench).count == 7)
            try await daemon.stop()
        }
    }

    @Test("A merge hook may be put in front of another one, and finish then skips that")
    func before() async throws {
        try await withWorkbench { bench in
            let merge = #"{"name": "m", "kind": "merge"}"#
            try bench.configure(StoreSetup(), plugins: [PluginSetup(hooks: [merge])])
            let daemon = try await bench.startDaemon()
            let id = try await Self.id("audit/m", bench)
            let first = try Self.manifest(bench, "first", hooks: merge)
            try await bench.steer("hooks", "add", first, "--before", id)
            try await bench.steer(
                "hooks", "add", try Self.manifest(bench, "second", hooks: merge), "--before", id)
            #expect(try await Self.names(bench) == ["first/m", "second/m", "audit/m"])
            #expect(try await Self.told(1, bench, daemon) == ["first/m", "second/m", "audit/m"])

            let plugin = PluginSetup(name: "end", environment: ["RESULT": #"\"finish\""#], hooks: [merge])
            try bench.folder.write(
                "end.json", #"{"version": 1, "plugins": [\#(plugin.json(folder: bench.folder.path))]}"#)
            try await bench.steer(
                "hooks", "add", bench.path("end.json"), "--before", try await Self.id("second/m", bench))
            #expect(try await Self.told(2, bench, daemon) == ["first/m", "end/m"])

            let unknown = try await bench.ctl(
                "hooks", "add", try Self.manifest(bench, "late", hooks: merge), "--before", UUID().uuidString)
            #expect(unknown.status == .exited(66))
            #expect(try await Self.names(bench) == ["first/m", "end/m", "second/m", "audit/m"])
            try await daemon.stop()
        }
    }

    @Test("Only what is to be kept is there after a restart, and what was removed of it is not")
    func persist() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            var daemon = try await bench.startDaemon()
            let kept = try Self.manifest(bench, "kept", hooks: Self.observer("a"), Self.observer("b"))
            try await bench.steer("hooks", "add", kept, "--persist")
            try await bench.steer("hooks", "add", try Self.manifest(bench, "gone", hooks: Self.observer("c")))
            try await bench.steer("hooks", "remove", try await Self.id("kept/a", bench))
            // A reload is no restart.
            try await bench.steer("reload")
            #expect(try await Self.names(bench) == ["audit/all", "kept/b", "gone/c"])
            let before = try await Self.id("kept/b", bench)
            try await daemon.stop()

            daemon = try await bench.startDaemon()
            #expect(try await Self.names(bench) == ["audit/all", "kept/b"])
            #expect(try await Self.id("kept/b", bench) == before)
            #expect(try await Self.told(1, bench, daemon) == ["audit/all", "kept/b"])
            try await bench.steer("hooks", "remove", before)
            try await daemon.stop()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            daemon = try await bench.startDaemon()
            #expect(try await Self.names(bench) == ["audit/all"])
            try await daemon.stop()
        }
    }

    @Test("A manifest with an error adds nothing, and says what is wrong and where")
    func refused() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try bench.folder.write(
                "bad.json",
                #"{"version": 1, "plugins": [{"name": "x", "command": ["./x"], "hooks": [{"name": "o", "kind": "observer", "consumer": "Nobody"}, {"kind": "nothing"}]}]}"#
            )
            let bad = try await bench.ctl("hooks", "add", bench.path("bad.json"))
            #expect(bad.status == .exited(78))
            #expect(bad.errors.contains("historyctl: \(bench.path("bad.json")):1:"), "\(bad.errors)")
            #expect(bad.errors.split(separator: "\n").count >= 3)
            // A name that is there already.
            let twice = try await bench.ctl(
                "hooks", "add", try Self.manifest(bench, "audit", hooks: Self.observer("a")))
            #expect(twice.status == .exited(78))
            #expect(try await Self.names(bench) == ["audit/all"])
            // To be kept, but in front of one that is not.
            let merge = #"{"name": "m", "kind": "merge"}"#
            try await bench.steer("hooks", "add", try Self.manifest(bench, "fleeting", hooks: merge))
            let lasting = try await bench.ctl(
                "hooks", "add", try Self.manifest(bench, "lasting", hooks: merge), "--persist", "--before",
                try await Self.id("fleeting/m", bench))
            #expect(lasting.status == .exited(78), "\(lasting)")
            #expect(try await Self.names(bench) == ["audit/all", "fleeting/m"])
            try await daemon.stop()
        }
    }

    @Test(
        "Who waits for a hook that fails goes on as soon as it is gone, and who waits for him who is gone is told"
    )
    func gone() async throws {
        try await withWorkbench { bench in
            let stuck = PluginSetup(more: #""retry": {"attempts": 1, "maximumDelay": "1h"}"#)
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Second")), plugins: [stuck])
            let daemon = try await bench.startDaemon()
            try bench.misbehave("refuse", "all")
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await daemon.logged("event=hookHeld", times: 2)
            let waiting = try bench.startCtl(["wait", "--consumer", "Second", "--token", token])
            try await daemon.quiet()
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp")), plugins: [stuck])
            try await bench.steer("reload")
            #expect(try await waiting.end() == .exited(66), "\(waiting.errors)")
            #expect(waiting.errors.contains("There is no consumer \"Second\""))

            try await daemon.logged("event=hookHeld", times: 3)
            let hook = try await bench.report("hooks", "list")["hooks"][0]["id"].text ?? ""
            try await bench.steer("hooks", "remove", hook)
            try await bench.steer("wait", "--consumer", "MainApp", "--token", token, "--timeout", "60s")
            try await daemon.stop()
        }
    }

    @Test("A hook that fails is listed with its last error, and how often it failed")
    func lastError() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 2, "initialDelay": "10ms", "maximumDelay": "1h"}"#)
                ])
            let daemon = try await bench.startDaemon()
            try bench.misbehave("refuse", "all")
            _ = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await daemon.logged("event=hookHeld")
            let hook = try await bench.report("hooks", "list")["hooks"][0]
            #expect(hook["failures"].int == 2)
            #expect(hook["lastError"].text == "Plugin \"audit\" answered with an error: refused.")
            #expect(hook["lastErrorAt"].text != nil)
            let consumer = try await bench.report("consumers")["consumers"][0]
            #expect(consumer["state"].text == "held")
            #expect(consumer["hook"].text == "audit/all")
            #expect(consumer["behind"].int == 1)

            // A pass now does not wait for the hour to be over.
            let failed = try await bench.ctl("run")
            #expect(failed.status == .exited(75))
            try bench.behave("refuse", "all")
            let passed = try await bench.ctl("run")
            #expect(passed.status == .exited(0), "\(passed)")
            #expect(try await bench.report("consumers")["consumers"][0]["state"].text == "level")
            try await daemon.stop()
        }
    }
}
