import Foundation
import PersistentHistory
import TestSupport
import Testing

/// A new configuration, by SIGHUP or by historyctl: all or nothing, and what is the same is left alone.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ReloadTests {
    @Test("A new configuration is in force at once, and nothing is lost or repeated over it")
    func reload() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp")))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)

            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Second")))
            daemon.program.signal(SIGHUP)
            try await daemon.logged("event=ready", times: 2)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            let calls = try await bench.calls(4, of: daemon).map(\.summary)
            #expect(
                calls.filter { $0.contains(" MainApp ") } == [
                    "audit/all MainApp 1 Widget person insert p1",
                    "audit/all MainApp 2 Widget person insert p2",
                ])
            #expect(
                calls.filter { $0.contains(" Second ") } == [
                    "audit/all Second 1 Widget person insert p1", "audit/all Second 2 Widget person insert p2",
                ])
            try await daemon.stop()
        }
    }

    @Test("A consumer whose name only looks the same is another one")
    func otherBytes() async throws {
        try await withWorkbench { bench in
            let (one, two) = ("caf\u{e9}", "cafe\u{301}")
            try bench.configure(StoreSetup(authors: StoreSetup.named(one)))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: two)
            try await bench.calls(1, of: daemon)
            try bench.configure(StoreSetup(authors: StoreSetup.named(two)))
            #expect(try await bench.report("reload")["stores"]["changed"].texts == ["contacts"])
            try await daemon.logged("is no longer configured")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: one)
            let calls = try await bench.calls(2, of: daemon)
            #expect(calls.map { BinaryText($0.params.consumer) } == [one, two].asBinary)
            #expect(calls.compactMap(\.params.transaction?.number) == [1, 2])
            try await daemon.stop()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
        }
    }

    @Test("A wrong one is refused with its place, and the old one stays in force")
    func refused() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp")))
            let daemon = try await bench.startDaemon()
            let good = try String(contentsOfFile: bench.path("historyd.json"), encoding: .utf8)
            try #"{"version": 1, "storrs": []}"#.write(
                toFile: bench.path("historyd.json"), atomically: true, encoding: .utf8)
            daemon.program.signal(SIGHUP)
            try await daemon.logged("historyd.json:1:16: storrs: ")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            #expect(
                try await bench.calls(1, of: daemon).map(\.summary) == [
                    "audit/all MainApp 1 Widget person insert p1"
                ])
            #expect(daemon.log.filter { $0.contains("event=ready") }.count == 1)
            // And a right one is taken after it.
            try good.write(toFile: bench.path("historyd.json"), atomically: true, encoding: .utf8)
            daemon.program.signal(SIGHUP)
            try await daemon.logged("event=ready", times: 2)
            try await daemon.stop()
        }
    }

    @Test("Plugins' processes that are the same go on, those that changed are others, and so are their hooks")
    func processes() async throws {
        try await withWorkbench { bench in
            let hook = #"{"name": "h", "kind": "observer"}"#
            func plugins(_ names: String..., changed: String? = nil) -> [PluginSetup] {
                names.map { name in
                    PluginSetup(
                        name: name, environment: name == changed ? ["CHANGED": "1"] : [:], hooks: [hook])
                }
            }
            try bench.configure(StoreSetup(), plugins: plugins("a", "b", "c"))
            let daemon = try await bench.startDaemon()
            let before = try await bench.processes(of: "a", "b", "c")
            // New hooks and another policy of one need no other process.
            var next = plugins("a", "b", "d", changed: "b")
            next[0].hooks.append(#"{"name": "more", "kind": "observer"}"#)
            next[0].more = #""onFailure": "skip""#
            try bench.configure(StoreSetup(), plugins: next)
            let report = try await bench.report("reload")
            #expect(report["plugins"]["unchanged"].texts == ["a"])
            #expect(report["plugins"]["changed"].texts == ["b"])
            #expect(report["plugins"]["begun"].texts == ["d"])
            #expect(report["plugins"]["ended"].texts == ["c"])
            #expect(report["stores"]["unchanged"].texts == ["contacts"])
            let after = try await bench.processes(of: "a", "b", "d")
            #expect(after[0] == before[0])
            #expect(after[1] != before[1])
            #expect(!Processes.isAlive(before[1]) && !Processes.isAlive(before[2]))

            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            #expect(
                try await bench.calls(4, of: daemon).map(\.params.hook) == ["a/h", "a/more", "b/h", "d/h"])
            // The store was never closed.
            #expect(daemon.log.filter { $0.contains("Store \"contacts\" is open") }.count == 1)
            try await daemon.stop()
        }
    }

    @Test("Stores come, go and change, and the others are not disturbed")
    func stores() async throws {
        try await withWorkbench { bench in
            for name in ["one", "two", "three"] {
                try await bench.sql(Workbench.schema, of: bench.path("\(name).sqlite"))
            }
            func store(_ name: String, _ authors: String...) -> StoreSetup {
                let list = "[" + authors.map { #"{"name": "\#($0)"}"# }.joined(separator: ", ") + "]"
                return StoreSetup(name: name, path: "\(name).sqlite", authors: list)
            }
            try bench.configure(store("one", "A"), store("two", "A"))
            let daemon = try await bench.startDaemon()
            try bench.configure(store("three", "A"), store("one", "A", "B"))
            let report = try await bench.report("reload")
            #expect(report["stores"]["begun"].texts == ["three"])
            #expect(report["stores"]["changed"].texts == ["one"])
            #expect(report["stores"]["ended"].texts == ["two"])
            for name in ["one", "two", "three"] {
                try await bench.write(
                    "INSERT INTO person (id) VALUES (1)", as: "Widget", to: bench.path("\(name).sqlite"))
            }
            let calls = try await bench.calls(3, of: daemon)
            #expect(
                Set(calls.map { "\($0.params.store) \($0.params.consumer)" }) == ["one A", "one B", "three A"])
            let status = try await bench.report("status")
            #expect(status["stores"].list.map { $0["name"].text } == ["three", "one"])
            #expect(status["summary"].text == "Watching 2 stores, 1 hook")
            try await daemon.stop()
        }
    }

    @Test("Reloads in the middle of deliveries lose nothing, and repeat nothing that was answered")
    func underLoad() async throws {
        try await withWorkbench { bench in
            func configure(_ round: Int) throws {
                try bench.configure(
                    StoreSetup(authors: StoreSetup.mirrored("MainApp")),
                    plugins: [
                        PluginSetup(name: "same"),
                        PluginSetup(name: "other", environment: ["ROUND": "\(round)", "DELAY": "0.002"]),
                    ])
            }
            try configure(0)
            let daemon = try await bench.startDaemon()
            let same = try await bench.processes(of: "same")
            let writer = try await bench.startPython(
                """
                c = connect(store, 'Widget')
                for i in range(1, 301): c.execute('INSERT INTO person (id) VALUES (?)', (i,))
                """)
            for round in 1...4 {
                try configure(round)
                try await bench.steer("reload")
            }
            try await writer.succeed()
            try await eventually("all calls", state: { daemon.log.suffix(5).joined(separator: "\n") }) {
                try Set(bench.calls().map(\.params.delivery)).count == 600
            }
            let last = try await bench.commit("INSERT INTO person (id) VALUES (301)")
            try await bench.steer("wait", "--consumer", "MainApp", "--token", last)
            for name in ["same", "other"] {
                let numbers = try bench.calls().filter { $0.params.hook == "\(name)/all" }.compactMap {
                    $0.params.transaction?.number
                }
                #expect(numbers == Array(1...301), "\(name)")
            }
            #expect(try await bench.processes(of: "same") == same)
            #expect(daemon.problems(bench).isEmpty, "\(daemon.problems(bench))")
            try await bench.expectReplicaEqualsStore(["person": "id"])
            try await daemon.stop()
        }
    }

    @Test(
        "A hook that hangs does not hold up a reload for longer than a few seconds",
        arguments: ["observer", "merge"])
    func hanging(_ kind: String) async throws {
        try await withWorkbench { bench in
            func configure(_ authors: String, changed: String) throws {
                try bench.configure(
                    StoreSetup(authors: authors),
                    plugins: [
                        PluginSetup(
                            environment: ["CHANGED": changed], more: #""timeout": "1h""#,
                            hooks: [#"{"name": "all", "kind": "\#(kind)"}"#])
                    ])
            }
            try configure(StoreSetup.named("MainApp"), changed: "0")
            let daemon = try await bench.startDaemon()
            try bench.misbehave("hang", "all")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            // First the store changes, and then the plugin.
            try await bench.steer("reload")
            try configure(StoreSetup.named("MainApp", "Second"), changed: "0")
            try await bench.steer("reload")
            try bench.behave("hang", "all")
            try configure(StoreSetup.named("MainApp", "Second"), changed: "1")
            try await bench.steer("reload")
            try await eventually("the calls of both", state: { daemon.log.joined(separator: "\n") }) {
                try Set(bench.calls().filter { $0.manner == "ok" }.map(\.params.consumer)) == [
                    "MainApp", "Second",
                ]
            }
            // Its end was nobody's failure.
            #expect(
                daemon.log.filter { $0.contains("event=hookFailed") || $0.contains("event=hookHeld") } == [])
            try await daemon.stop()
        }
    }

    @Test("A refused one is told with all that is wrong: to whoever asked, in the log and in the status")
    func refusedWithReasons() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let process = try await bench.processes(of: "audit")
            let good = try String(contentsOfFile: bench.configuration, encoding: .utf8)
            try #"{"version": 1, "storrs": [], "logLevel": "loud"}"#.write(
                toFile: bench.configuration, atomically: true, encoding: .utf8)
            let refused = try await bench.ctl("reload")
            #expect(refused.status == .exited(78))
            let lines = refused.errors.split(separator: "\n").map(String.init)
            #expect(lines[0] == "historyctl: The configuration was refused; the old one stays in force.")
            #expect(lines.contains { $0.hasPrefix("historyctl: \(bench.configuration):1:16: storrs: ") })
            #expect(lines.contains { $0.contains(": logLevel: ") })
            #expect(daemon.log.filter { $0.contains("event=reloadRefused") }.count == lines.count - 1)
            let status = try await bench.report("status")
            #expect(status["summary"].text?.contains("; reload refused: \(bench.configuration):1:1: ") == true)
            #expect(status["reload"]["problems"].texts.count == lines.count - 1)
            let http = try await bench.http("POST", "/v1/reload")
            #expect(http.status == 409)
            #expect(http.body["error"]["problems"].texts.count == lines.count - 1)

            // A hook that was added, and does not fit what is new, is an error as well.
            try good.write(toFile: bench.configuration, atomically: true, encoding: .utf8)
            let plugin = PluginSetup(
                name: "more", hooks: [#"{"name": "h", "kind": "observer", "consumer": "MainApp"}"#])
            try bench.folder.write(
                "more.json", #"{"version": 1, "plugins": [\#(plugin.json(folder: bench.folder.path))]}"#)
            try await bench.steer("hooks", "add", bench.path("more.json"))
            try bench.configure(StoreSetup(authors: StoreSetup.named("Renamed")))
            let unfit = try await bench.ctl("reload")
            #expect(unfit.status == .exited(78))
            #expect(unfit.errors.contains("(hooks added to the running daemon)"), "\(unfit.errors)")

            #expect(try await bench.processes(of: "audit") == process)
            try good.write(toFile: bench.configuration, atomically: true, encoding: .utf8)
            try await bench.steer("reload")
            #expect(try await bench.report("status")["summary"].text == "Watching 1 store, 2 hooks")
            try await daemon.stop()
        }
    }
}

extension Workbench {
    /// The process of each plugin, by the calls' environment that it was started with.
    fileprivate func processes(of names: String...) async throws -> [pid_t] {
        try await eventually("a process for each of \(names)") {
            let found = names.map { name in
                Processes.naming(path("record.py")).filter {
                    (try? String(contentsOfFile: "/proc/\($0)/environ", encoding: .utf8))?
                        .contains("PLUGIN=\(name)\0") == true
                }
            }
            return found.allSatisfy { $0.count == 1 } ? found.map { $0[0] } : nil
        }
    }
}
