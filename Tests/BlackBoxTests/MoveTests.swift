import Foundation
import TestSupport
import Testing

/// Consumers that an operator moves back or forward.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MoveTests {
    private static func insert(_ id: Int) -> String { "INSERT INTO person (id) VALUES (\(id))" }

    /// The calls as `number` or, where they are repeated, `number replay-n`.
    private func deliveries(_ bench: Workbench, from start: Int = 0) throws -> [String] {
        try bench.calls().dropFirst(start).map { call in
            let replay = call.params.delivery.split(separator: "/").last.map(String.init) ?? ""
            let isReplay = replay.hasPrefix("replay-")
            #expect(call.text.contains(#""replay":true"#) == isReplay, "\(call.text)")
            return "\(call.params.transaction?.number ?? 0)\(isReplay ? " \(replay)" : "")"
        }
    }

    @Test("What lies behind a token is called again, under other ids; what comes then is as ever")
    func back() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let tokens = try await [1, 2, 3].asyncMap { try await bench.commit(Self.insert($0)) }
            try await bench.calls(3, of: daemon)

            let plan = try await bench.report("consumers", "move", "MainApp", "--to", tokens[0], "--dry-run")
            #expect(plan["transactions"].int == 2 && plan["calls"].int == 2, "\(plan)")
            #expect(plan["isForward"].bool == false && plan["isDryRun"].bool == true, "\(plan)")
            #expect(plan["from"].text == tokens[2] && plan["to"].text == tokens[0], "\(plan)")
            #expect(try bench.calls().count == 3)

            let said = try await bench.steer("consumers", "move", "MainApp", "--to", tokens[0])
            #expect(
                said == """
                    MainApp from \(tokens[2]) to \(tokens[0]): 2 transactions, 2 calls to repeat.
                    MainApp is at \(tokens[0])

                    """)
            try await bench.calls(5, of: daemon)
            _ = try await bench.commit(Self.insert(4))
            try await bench.calls(6, of: daemon)
            try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
            try await bench.calls(10, of: daemon)
            #expect(
                try deliveries(bench) == [
                    "1", "2", "3", "2 replay-1", "3 replay-1", "4", "1 replay-2", "2 replay-2", "3 replay-2",
                    "4 replay-2",
                ])
            let line = try await daemon.logged("event=consumerMoved", times: 2)
            #expect(line.contains("by process") && line.contains("uid"), "\(line)")
            // Where nothing lies between, nothing is done.
            #expect(
                try await bench.steer("consumers", "move", "MainApp", "--to", "newest").contains("already"))
            try await daemon.stop()
            #expect(daemon.problems(bench) == [])
        }
    }

    @Test("What was cleaned, another store's, what is to come, and the way forward are refused")
    func refusals() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let tokens = try await [1, 2].asyncMap { try await bench.commit(Self.insert($0)) }
            try await bench.calls(2, of: daemon)
            try await bench.steer("clean")
            try await bench.steer("pause", "--consumer", "MainApp")
            let late = try await bench.commit(Self.insert(3))
            let store = try #require(late.split(separator: ":").first)
            let foreign = "00000000-0000-4000-8000-000000000001:1"
            for (target, status, text) in [
                (tokens[0], Int32(69), "tokenExpired"), (foreign, 65, "another store"),
                ("\(store):99", 65, "newer"),
                (late, 64, "--skip"), ("newest", 64, "--skip"), ("yesterday", 64, "no position"),
            ] {
                let refused = try await bench.ctl("consumers", "move", "MainApp", "--to", target)
                #expect(refused.status == .exited(status), "\(target): \(refused.errors)")
                if text != "tokenExpired", text != "newer", text != "another store" {
                    #expect(refused.errors.contains(text), "\(target): \(refused.errors)")
                }
            }
            let http = try await bench.http("POST", "/v1/consumers/move?consumer=MainApp&to=\(tokens[0])")
            #expect(http.status == 410 && http.body["error"]["code"].text == "tokenExpired", "\(http)")
            #expect(try await bench.ctl("consumers", "move", "Nobody", "--to", "oldest").status == .exited(66))
            let consumer = try await bench.report("consumers")["consumers"][0]
            #expect(consumer["cursor"].text == tokens[1], "\(consumer)")

            // What is left out never comes.
            try await bench.steer("consumers", "move", "MainApp", "--to", late, "--skip")
            _ = try await bench.commit(Self.insert(4))
            try await bench.steer("resume", "--consumer", "MainApp")
            try await bench.calls(3, of: daemon)
            #expect(try deliveries(bench) == ["1", "2", "4"])
            try await daemon.stop()
        }
    }

    @Test("A date means the first transaction that was made then or later")
    func dates() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let tokens = try await [1, 2].asyncMap { try await bench.commit(Self.insert($0)) }
            try await bench.calls(2, of: daemon)
            let history = try await bench.start(
                [Products.historyctl, "history", bench.store, "--format", "json"], "history"
            ).succeed()
            let second = try #require(try Tree(String(history.split(separator: "\n")[1]))["timestamp"].text)
            for (date, position) in [(second, tokens[0]), ("2001-01-01", nil), ("2999-01-01", tokens[1])] {
                let plan = try await bench.report("consumers", "move", "MainApp", "--to", date, "--dry-run")
                #expect(
                    position == nil ? plan["to"].text?.hasSuffix(":0") == true : plan["to"].text == position)
            }
            try await daemon.stop()
        }
    }

    @Test("Contexts and feeds keep their positions, whichever way the consumer goes")
    func contexts() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors:
                        #"[{"name": "MainApp", "contexts": [{"name": "view", "kind": "replica", "path": "replica.sqlite"}, {"name": "live", "kind": "feed"}]}]"#
                ))
            let daemon = try await bench.startDaemon()
            let program = try bench.listen("--acknowledge")
            try await bench.insert(1...3)
            try await bench.calls(3, of: daemon)
            _ = try await program.lines(4, of: daemon)
            try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
            try await bench.calls(6, of: daemon)
            try await bench.insert(4...4)
            try await bench.calls(7, of: daemon)
            // A pause, so that it is moved past what its hooks have not had.
            try await bench.steer("pause", "--consumer", "MainApp")
            try await bench.insert(5...6)
            try await bench.steer("consumers", "move", "MainApp", "--to", "newest", "--skip")
            try await bench.steer("resume", "--consumer", "MainApp")
            try await bench.insert(7...7)
            try await bench.calls(8, of: daemon)
            #expect(
                try deliveries(bench) == [
                    "1", "2", "3", "1 replay-1", "2 replay-1", "3 replay-1", "4", "7",
                ])
            // The first says where it begins.
            let lines = try await program.lines(8, of: daemon)
            #expect(
                lines.dropFirst().map { $0.split(separator: " ").first }
                    == ["1", "2", "3", "4", "5", "6", "7"])
            try await bench.steer("run")
            try await bench.expectReplicaEqualsStore(["person": "id"])
            try await daemon.stop()
            #expect(daemon.problems(bench) == [])
        }
    }

    @Test("History that a consumer was moved back to is kept, and health counts what is repeated as no lag")
    func cleaning() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let tokens = try await [1, 2, 3].asyncMap { try await bench.commit(Self.insert($0)) }
            try await bench.calls(3, of: daemon)
            try await bench.steer("pause", "--consumer", "MainApp")
            try await bench.steer("consumers", "move", "MainApp", "--to", tokens[0])
            let cleaned = try await bench.report("clean")["stores"][0]
            #expect(cleaned["through"].text == tokens[0], "\(cleaned)")
            #expect(cleaned["keptFor"][0]["consumer"].text == "MainApp", "\(cleaned)")
            let consumer = try await bench.report("consumers")["consumers"][0]
            #expect(consumer["replayThrough"].text == tokens[2], "\(consumer)")
            #expect(consumer["lag"]["transactions"].int == 0, "\(consumer)")
            #expect(consumer["behind"].int == 2, "\(consumer)")
            try await bench.steer("resume", "--consumer", "MainApp")
            try await bench.calls(5, of: daemon)
            // Who waits waits for what is repeated.
            try await bench.steer("wait", "--consumer", "MainApp", "--token", tokens[2])
            let after = try await bench.report("consumers")["consumers"][0]
            #expect(after["replayThrough"].text == nil && after["state"].text == "level", "\(after)")
            #expect(try deliveries(bench) == ["1", "2", "3", "2 replay-1", "3 replay-1"])
            try await daemon.stop()
        }
    }

    @Test("A consumer that a hook holds is moved, both ways", arguments: ["back", "forward"])
    func held(_ way: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 1, "initialDelay": "1h", "maximumDelay": "1h"}"#)
                ])
            let daemon = try await bench.startDaemon()
            _ = try await bench.commit(Self.insert(1))
            try await bench.calls(1, of: daemon)
            try bench.misbehave("refuse", "all")
            let held = try await bench.commit(Self.insert(2))
            try await daemon.logged("event=hookHeld")
            try bench.behave("refuse", "all")
            if way == "back" {
                try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
                try await bench.calls(4, of: daemon)
                // It never succeeded: it is no repetition.
                #expect(try deliveries(bench) == ["1", "2", "1 replay-1", "2"])
            } else {
                try await bench.steer("consumers", "move", "MainApp", "--to", held, "--skip")
                _ = try await bench.commit(Self.insert(3))
                try await bench.calls(3, of: daemon)
                #expect(try deliveries(bench) == ["1", "2", "3"])
            }
            try await eventually("health") {
                try await bench.report("health")["verdict"].text == "healthy"
            }
            try await daemon.stop()
        }
    }

    @Test("A move does not wait for a call that does not end, which is made again")
    func whileCalling() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), more: #""stopTimeout": "200ms""#)
            let daemon = try await bench.startDaemon()
            _ = try await bench.commit(Self.insert(1))
            try await bench.calls(1, of: daemon)
            try bench.misbehave("hang", "all")
            _ = try await bench.commit(Self.insert(2))
            try await bench.calls(2, of: daemon)
            try bench.behave("hang", "all")
            try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
            try await eventually("the calls", state: { RunningProgram.text(bench.path("calls")) }) {
                try deliveries(bench, from: 2).suffix(2) == ["1 replay-1", "2"]
            }
            try await daemon.stop()
        }
    }

    @Test("A call that was given up stays a dead letter, and so does each repetition that is given up")
    func deadLetters() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        more:
                            #""onFailure": "skip", "retry": {"attempts": 1, "initialDelay": "1ms", "maximumDelay": "1ms"}"#
                    )
                ])
            try bench.misbehave("refuse", "all")
            let daemon = try await bench.startDaemon()
            _ = try await bench.commit(Self.insert(1))
            try await daemon.logged("event=deadLetterKept")
            // It is made again by the move, although it has a letter; given up again, it has another one.
            try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
            try await daemon.logged("event=deadLetterKept", times: 2)
            let letters = try await bench.report("dead-letters", "list")["deadLetters"].list
                .compactMap(\.["delivery"].text)
            #expect(letters.map { $0.hasSuffix("/replay-1") } == [false, true], "\(letters)")
            try bench.behave("refuse", "all")
            try await bench.steer("consumers", "move", "MainApp", "--to", "oldest")
            try await eventually("the call", state: { RunningProgram.text(bench.path("calls")) }) {
                try deliveries(bench, from: 1).last == "1 replay-2"
            }
            let stay = try await bench.report("dead-letters", "list")["deadLetters"].list
                .compactMap(\.["delivery"].text)
            #expect(stay == letters)
            try await daemon.stop()
        }
    }

    /// Whatever is committed, moved, killed and refused: after the last move, what lies behind it comes once more.
    @Test(
        "Random commits, moves, kills and failures",
        arguments: (0..<3).map { _ in UInt64.random(in: 0...UInt64.max) })
    func random(_ number: UInt64) async throws {
        try await withWorkbench { bench in
            var seed = Seed(number)
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored("MainApp")),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 2, "initialDelay": "1ms", "maximumDelay": "20ms"}"#)
                ])
            var daemon = try await bench.startDaemon()
            var tokens: [String] = []
            var refuses = false
            for round in 0..<25 {
                switch Int.random(in: 0..<10, using: &seed) {
                case 0..<4: tokens.append(try await bench.commit(Self.insert(tokens.count + 1), as: "Widget"))
                case 4:
                    try await daemon.kill()
                    daemon = try await bench.startDaemon()
                case 5:
                    try bench.misbehave("refuse", "all")
                    refuses = true
                case 6:
                    if refuses { try bench.behave("refuse", "all") }
                    refuses = false
                default:
                    guard let token = tokens.randomElement(using: &seed) else { continue }
                    let moved = try await bench.ctl(
                        "consumers", "move", "MainApp", "--to", token, "--skip", "--format", "json")
                    #expect(moved.status == .exited(0), "\(seed) \(round): \(moved.errors)")
                }
            }
            if refuses { try bench.behave("refuse", "all") }
            let last = try await bench.report("consumers", "move", "MainApp", "--to", "oldest")
            tokens.append(try await bench.commit(Self.insert(tokens.count + 1), as: "Widget"))
            let end = try #require(tokens.last)
            try await bench.steer("wait", "--consumer", "MainApp", "--token", end)
            try await daemon.stop()
            let calls = try bench.calls().filter { $0.manner == "ok" }
            // One id is one call, and the highest replay is what came after the last move.
            let byDelivery = Dictionary(grouping: calls, by: \.params.delivery)
            #expect(byDelivery.values.allSatisfy { Set($0.map(\.summary)).count == 1 }, "\(seed)")
            let numbers = calls.compactMap { call in
                call.params.delivery.firstMatch(of: /\/replay-(\d+)$/).flatMap { Int($0.1) }
            }
            let replay = numbers.max() ?? 0
            let repeated = calls.filter { $0.params.delivery.hasSuffix("/replay-\(replay)") }
                .compactMap(\.params.transaction?.number)
            let first = calls.filter { !$0.params.delivery.contains("/replay-") }
                .compactMap(\.params.transaction?.number)
            // It was there already, and an earlier move is the last.
            if last["from"].text == last["to"].text { return }
            // The last move began at the start: what it repeats and what never came before is everything.
            let distinct = Set(repeated)
            #expect(distinct == Set(1...(distinct.max() ?? 1)), "\(seed): \(repeated)")
            #expect(
                Set(first).isSuperset(of: Set(((distinct.max() ?? 0) + 1)...tokens.count)), "\(seed): \(first)")
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }
}

extension Sequence {
    fileprivate func asyncMap<T>(_ body: (Element) async throws -> T) async throws -> [T] {
        var all: [T] = []
        for element in self { all.append(try await body(element)) }
        return all
    }
}
