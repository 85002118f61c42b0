import Foundation
import Glibc
import TestSupport
import Testing

/// Starting, stopping, running once.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct LifeCycleTests {
    @Test("A second daemon on one state is refused at once, naming the first one's process")
    func second() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let first = try await bench.startDaemon()
            for arguments in [[], ["--once"]] {
                let second = try bench.launchDaemon(arguments, name: "second\(arguments.joined())")
                #expect(try await second.program.end() == .exited(75))
                #expect(
                    second.log == [
                        "error: Another historyd, process \(first.processID), uses the state folder \"\(bench.path("state"))\". Stop it, or set another STATE_DIRECTORY for this one. event=stateInUse"
                    ])
            }
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: first)
            try await first.stop()
            // Its place is free again, also after a kill.
            try await bench.startDaemon().kill()
            try await bench.startDaemon().stop()
        }
    }

    @Test("A stop opens no state in which nothing is to be saved")
    func closedStates() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await daemon.quiet()
            func changedAt() throws -> Date? {
                let attributes = try FileManager.default.attributesOfItem(atPath: try bench.stateDatabase())
                return attributes[.modificationDate] as? Date
            }
            let before = try changedAt()
            try await daemon.stop()
            #expect(try changedAt() == before)
        }
    }

    @Test("A hook that fails has failed, also where the daemon was started with SIGCHLD ignored")
    func childrenAreHeardOf() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [PluginSetup(command: ["/bin/false"], mode: "oneshot")])
            let daemon = try bench.launchDaemon(under: ["/bin/sh", "-c", #"trap '' CHLD; exec "$@""#, "sh"])
            try await daemon.ready()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged(#"Hook "audit/all" ended with status 1."#)
            try await daemon.stop()
        }
    }

    @Test("A second signal breaks off what a stop waits for", arguments: [SIGTERM, SIGINT])
    func secondSignal(_ signal: Int32) async throws {
        try await withWorkbench { bench in
            try bench.folder.write(
                "deaf.py",
                """
                import os, signal, time
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                open('\(bench.path("deaf"))', 'w').write(f'{os.getpid()} ')
                time.sleep(1000)
                """)
            try bench.configure(
                StoreSetup(),
                plugins: [PluginSetup(command: [Products.python, bench.path("deaf.py")], mode: "coprocess")])
            let daemon = try await bench.startDaemon()
            try await eventually("the plugin") { RunningProgram.text(bench.path("deaf")).hasSuffix(" ") }
            daemon.program.signal(signal)
            try await daemon.logged("event=stopping")
            daemon.program.signal(signal)
            #expect(try await daemon.program.end() == .exited(0))
            #expect(daemon.log.contains { $0.contains("A second signal: ") })
            let plugin = try #require(Int32(RunningProgram.text(bench.path("deaf")).dropLast()))
            #expect(kill(plugin, 0) == -1 && errno == ESRCH)
        }
    }

    /// A plugin whose calls take some seconds: `begun` and `done` get a line for each.
    private func slowPlugin(_ bench: Workbench, _ mode: String, _ kind: String, seconds: Int) throws
        -> PluginSetup
    {
        try bench.folder.write(
            "slow.py",
            """
            import json, sys, time
            for line in sys.stdin:
                print('call', file=open('\(bench.path("begun"))', 'a'))
                time.sleep(\(seconds))
                print('call', file=open('\(bench.path("done"))', 'a'))
                if sys.argv[1] == 'oneshot': break
                result = 'goOn' if json.loads(line)['method'] == 'merge' else None
                print(json.dumps({'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': result}), flush=True)
            """)
        return PluginSetup(
            command: [Products.python, bench.path("slow.py"), mode], mode: mode, more: #""window": 1"#,
            hooks: [#"{"name": "slow", "kind": "\#(kind)"}"#])
    }

    @Test(
        "A stop waits for the call in flight, which does not come again, and begins no other",
        arguments: ["coprocess", "oneshot"], ["observer", "merge"])
    func stopWaits(_ mode: String, _ kind: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [try slowPlugin(bench, mode, kind, seconds: 3)])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await eventually("the call") { !RunningProgram.text(bench.path("begun")).isEmpty }
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await daemon.stop()
            #expect(RunningProgram.text(bench.path("begun")) == "call\n")
            #expect(RunningProgram.text(bench.path("done")) == "call\n")
            #expect(daemon.problems(bench) == [])
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            #expect(RunningProgram.text(bench.path("done")) == "call\ncall\n", "the second one alone")
        }
    }

    @Test("A stop waits no longer than stopTimeout, also where a reload has set it")
    func stopTimeout() async throws {
        try await withWorkbench { bench in
            let plugin = try slowPlugin(bench, "coprocess", "observer", seconds: 1000)
            try bench.configure(StoreSetup(), plugins: [plugin])
            let daemon = try await bench.startDaemon()
            try bench.configure(StoreSetup(), plugins: [plugin], more: #""stopTimeout": "100ms""#)
            try await bench.steer("reload")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await eventually("the call") { !RunningProgram.text(bench.path("begun")).isEmpty }
            // Less than the 20 s that it takes otherwise.
            try await daemon.stop(within: .seconds(18))
            #expect(RunningProgram.text(bench.path("done")) == "")
        }
    }

    @Test("--once works off what came while nothing ran, and nothing twice")
    func once() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Widget")))
            func run() async throws {
                let run = try await bench.runDaemon("--once")
                #expect(run.status == .exited(0), "\(run.log.joined(separator: "\n"))")
            }
            try await run()
            for id in 1...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await run()
            let first = (1...3).map { "audit/all MainApp \($0) Widget person insert p\($0)" }
            #expect(try bench.calls().map(\.summary) == first)
            try await run()
            #expect(try bench.calls().count == 3)
            try await bench.write("DELETE FROM person WHERE id = 2")
            try await run()
            #expect(
                try Set(bench.calls().map(\.summary).dropFirst(3)) == [
                    "audit/all MainApp 4 - person delete p2", "audit/all Widget 4 - person delete p2",
                ])
            #expect(try bench.calls().count == 5)
        }
    }

    @Test("--once ends with 75 where a hook is held, and takes it up again the next time")
    func onceHeld() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 2, "initialDelay": "10ms", "maximumDelay": "1h"}"#)
                ])
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            for id in 1...2 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try bench.misbehave("refuse", "all")
            #expect(try await bench.runDaemon("--once").status == .exited(75))
            // The plugin may have been written more than one request ahead.
            let refused = try bench.calls()
            #expect(refused.first?.summary == "audit/all MainApp 1 Widget person insert p1")
            #expect(refused.allSatisfy { $0.manner == "refuse" })
            try bench.behave("refuse", "all")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            let calls = try bench.calls().filter { $0.manner == "ok" }
            #expect(
                calls.map(\.summary) == (1...2).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
            #expect(calls.first?.params.delivery == refused.first?.params.delivery)
        }
    }

    @Test(
        "Stopped in the middle of a backlog, it ends soon and goes on where it was",
        arguments: ["coprocess", "oneshot"], ["observer", "merge"])
    func stop(_ mode: String, _ kind: String) async throws {
        try await withWorkbench { bench in
            let hooks = [#"{"name": "slow", "kind": "\#(kind)"}"#]
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored()),
                plugins: [
                    PluginSetup(
                        mode: mode, environment: ["DELAY": "0.1"], more: #""window": 8"#, hooks: hooks)
                ])
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            for id in 1...60 {
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget", from: .shell)
            }
            let daemon = try await bench.startDaemon()
            try await bench.calls(kind == "observer" ? 5 : 1, of: daemon)
            try await daemon.stop(within: .seconds(60))
            let before = try bench.calls()
            if kind == "observer" { #expect(before.count < 60) }

            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored()), plugins: [PluginSetup(mode: mode, hooks: hooks)])
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            let all = try bench.calls()
            func keys(_ calls: some Sequence<Call>) -> [Int] {
                calls.flatMap { call in
                    call.params.transaction.map { [$0.number] } ?? call.params.transactions?.map(\.number) ?? []
                }
            }
            let repeated = Set(keys(before)).intersection(keys(all.dropFirst(before.count)))
            // The stop has waited for what was under way.
            #expect(repeated.isEmpty)
            #expect(Set(keys(all)) == Set(1...60))
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }
}
