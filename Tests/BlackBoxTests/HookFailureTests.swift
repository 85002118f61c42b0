import Foundation
import TestSupport
import Testing

/// Hooks that fail.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct HookFailureTests {
    private static let quick = #""retry": {"attempts": 3, "initialDelay": "20ms", "maximumDelay": "50ms"}"#

    /// What the log tells of hooks, without tokens and times.
    private func events(_ daemon: DaemonUnderTest) -> [String] {
        daemon.log.filter { $0.contains("event=hook") || $0.contains("event=deadLetter") }.map { line in
            let event = line.firstMatch(of: /event=(\w+)/).map { String($0.1) } ?? ""
            let attempt = line.firstMatch(of: /attempt (\d+)/).map { " \($0.1)" } ?? ""
            return "\(line.prefix { $0 != ":" }) \(event)\(attempt)"
        }
    }

    @Test(
        "A hook that fails is called again without a new commit, and what succeeded is not",
        arguments: [
            ("refuse", "coprocess"), ("refuse", "oneshot"), ("die", "coprocess"), ("die", "oneshot"),
            ("nonsense", "coprocess"),
        ])
    func retried(_ manner: String, _ mode: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(name: "a", hooks: [#"{"name": "before", "kind": "observer"}"#]),
                    PluginSetup(
                        name: "b", mode: mode, more: Self.quick,
                        hooks: [#"{"name": "fails", "kind": "observer", "entity": "item"}"#]),
                    PluginSetup(name: "c", hooks: [#"{"name": "after", "kind": "observer"}"#]),
                ])
            try bench.misbehave(manner, "fails")
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1); INSERT INTO item VALUES ('x', 1); DELETE FROM person",
                as: "Widget")
            try await daemon.logged("event=hookFailed", times: 2)
            try bench.behave(manner, "fails")
            try await bench.calls(5, of: daemon)
            try await eventually("the last call", state: { RunningProgram.text(bench.path("calls")) }) {
                try bench.calls().last?.summary == "c/after MainApp 3 Widget person delete p1"
            }
            try await daemon.stop()
            let calls = try bench.calls().map { "\($0.manner) \($0.summary)" }
            let failures = calls.filter { $0.hasPrefix("\(manner) b/fails") }
            #expect(
                calls.filter { !failures.contains($0) } == [
                    "ok a/before MainApp 3 Widget person insert p1",
                    "ok c/after MainApp 3 Widget person insert p1",
                    "ok a/before MainApp 3 Widget item insert tx", "ok b/fails MainApp 3 Widget item insert tx",
                    "ok c/after MainApp 3 Widget item insert tx",
                    "ok a/before MainApp 3 Widget person delete p1",
                    "ok c/after MainApp 3 Widget person delete p1",
                ])
            #expect(
                failures.count >= 2 && Set(failures) == ["\(manner) b/fails MainApp 3 Widget item insert tx"])
            #expect(
                try Set(bench.calls().filter { $0.params.hook == "b/fails" }.map(\.params.delivery)).count == 1)
        }
    }

    @Test("A merge hook that fails is called again, and those before it are not; then it is merged")
    func mergeRetried() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored()),
                plugins: [
                    PluginSetup(
                        name: "a",
                        hooks: [
                            #"{"name": "seen", "kind": "observer"}"#, #"{"name": "first", "kind": "merge"}"#,
                        ]),
                    PluginSetup(name: "b", more: Self.quick, hooks: [#"{"name": "fails", "kind": "merge"}"#]),
                ])
            // A new replica is filled with what there is; this one is there.
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try bench.misbehave("refuse", "fails")
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            #expect(
                try await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite")) == "0\n")
            try bench.behave("refuse", "fails")
            try await daemon.logged("event=hookRecovered")
            try await eventually("the merge") {
                try await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite")) == "1\n"
            }
            try await daemon.stop()
            let calls = try bench.calls()
            #expect(
                calls.filter { $0.manner == "ok" }.map(\.summary) == [
                    "a/seen Mirror 1 Widget person insert p1", "a/first Mirror [1 Widget]",
                    "b/fails Mirror [1 Widget]",
                ])
            #expect(Set(calls.filter { $0.params.hook == "b/fails" }.map(\.params.delivery)).count == 1)
        }
    }

    @Test(
        "A hook that does not answer in its time is killed with all its processes",
        arguments: ["coprocess", "oneshot"])
    func timeout(_ mode: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [PluginSetup(mode: mode, more: #""timeout": "700ms", "# + Self.quick)])
            try bench.misbehave("hang", "all")
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookTimedOut")
            try bench.behave("hang", "all")
            try await eventually("a call that succeeds") { try bench.calls().last?.manner == "ok" }
            let hung = RunningProgram.text(bench.path("hanging")).split(whereSeparator: \.isWhitespace)
                .compactMap { pid_t($0) }
            #expect(hung.count >= 2)
            try await eventually("the end of the hung processes", within: .seconds(10)) {
                !hung.contains(where: Processes.isAlive)
            }
            try await daemon.stop()
        }
    }

    @Test("A hook that is held holds back its consumer and nobody else, and recovers")
    func hold() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.named("MainApp", "Other")),
                plugins: [
                    PluginSetup(
                        name: "a", more: Self.quick,
                        hooks: [
                            #"{"name": "fails", "kind": "observer", "consumer": "MainApp"}"#,
                            #"{"name": "well", "kind": "observer", "consumer": "Other"}"#,
                        ])
                ])
            try bench.misbehave("refuse", "fails")
            let daemon = try await bench.startDaemon()
            var token = ""
            for id in 1...3 {
                token = try await bench.commit("INSERT INTO person (id) VALUES (\(id))", as: "Widget")
            }
            let held = try await daemon.logged("event=hookHeld")
            #expect(held.hasPrefix(#"error: Hook "a/fails" failed for "MainApp", attempt 3: "#))
            #expect(held.contains(#""MainApp" waits; it is tried again every 50 ms."#))
            let wait = try await bench.ctl(
                "wait", "--consumer", "MainApp", "--token", token, "--timeout", "10ms")
            #expect(wait.errors.contains(", and is held by a failure: "), "\(wait)")
            #expect(wait.errors.hasSuffix(".\n") && !wait.errors.hasSuffix("..\n"), "\(wait)")
            try await eventually("what the other consumer gets") {
                try bench.calls().filter { $0.params.hook == "a/well" }.count == 3
            }
            try bench.behave("refuse", "fails")
            try await eventually("what the held consumer gets") {
                try bench.calls().filter { $0.params.hook == "a/fails" && $0.manner == "ok" }.count == 3
            }
            try await daemon.stop()
            let calls = try bench.calls()
            #expect(
                calls.filter { $0.manner == "ok" && $0.params.hook == "a/fails" }.map(\.summary)
                    == (1...3).map { "a/fails MainApp \($0) Widget person insert p\($0)" })
            #expect(
                calls.filter { $0.params.hook == "a/well" }.map(\.summary)
                    == (1...3).map { "a/well Other \($0) Widget person insert p\($0)" })
            // Told when it begins to wait and when it goes on, not each time between.
            #expect(
                events(daemon) == [
                    "warning hookFailed 1", "warning hookFailed 2", "error hookHeld 3", "notice hookRecovered",
                ])
        }
    }

    @Test(
        "A hook that may be skipped is given up after its last attempt, with a dead letter",
        arguments: ["observer", "merge"])
    func skip(_ kind: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored()),
                plugins: [
                    PluginSetup(
                        name: "a", more: Self.quick + #", "onFailure": "skip""#,
                        hooks: [#"{"name": "fails", "kind": "\#(kind)"}"#]),
                    PluginSetup(name: "b", hooks: [#"{"name": "after", "kind": "\#(kind)"}"#]),
                ])
            try bench.misbehave("refuse", "fails")
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=deadLetterKept")
            try await eventually("the hook after it") {
                try bench.calls().filter { $0.params.hook == "b/after" }.count == 1
            }
            try bench.behave("refuse", "fails")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await eventually("the merge") {
                try await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite")) == "2\n"
            }
            try await daemon.stop()
            #expect(
                events(daemon) == ["warning hookFailed 1", "warning hookFailed 2", "error deadLetterKept 3"])
            let calls = try bench.calls().map { "\($0.manner) \($0.params.hook)" }
            #expect(
                calls == [
                    "refuse a/fails", "refuse a/fails", "refuse a/fails", "ok b/after", "ok a/fails",
                    "ok b/after",
                ])
            let letters = try await bench.sql(
                "SELECT consumer, hook, attempts FROM dead_letter", of: bench.stateDatabase())
            #expect(letters == "Mirror|a/fails|3\n")
        }
    }
}

extension Workbench {
    /// The one store's.
    func stateDatabase() throws -> String { try #require(try stateDatabases().first) }

    func stateDatabases() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path("state")).filter { $0.hasSuffix(".sqlite") }
            .map { path("state/" + $0) }
    }
}
