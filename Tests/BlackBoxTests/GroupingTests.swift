import Foundation
import Testing

/// An undeclared writer's changes are grouped by time, and more of the same millisecond may come
/// while a group is on its way: what was called a transaction once stays one.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct GroupingTests {
    /// Commits each of many rows, some dozens in a millisecond.
    private static let burst = """
        connection = connect(store, None, None, 'synchronous = OFF')
        for number in range(1, 1501): connection.execute('INSERT INTO person (id) VALUES (?)', (number,))
        """

    private static let quick = #""retry": {"attempts": 2, "initialDelay": "20ms", "maximumDelay": "50ms"}"#

    @Test("In a retry what succeeded is not called again, and what is called again is the same")
    func retry() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(name: "a", hooks: [#"{"name": "first", "kind": "observer"}"#]),
                    PluginSetup(
                        name: "b", more: Self.quick, hooks: [#"{"name": "fails", "kind": "observer"}"#]),
                ])
            try bench.misbehave("refuse", "fails")
            let daemon = try await bench.startDaemon()
            let writer = try await bench.startPython(Self.burst)
            try await daemon.logged("event=hookHeld")
            try await writer.succeed()
            try bench.behave("refuse", "fails")
            try await Self.expectAll(bench, daemon, hook: "b/fails")
            try await daemon.stop()
            let calls = try bench.calls().filter { $0.params.hook == "a/first" }
            #expect(calls.flatMap { $0.params.contexts.map(\.key) } == (1...1500).map { "p\($0)" })
            Self.expectSameIfSameID(try bench.calls())
        }
    }

    @Test("After a kill what is called again is the same", arguments: 1...3)
    func kill(_ number: Int) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        more: Self.quick,
                        hooks: [
                            #"{"name": "all", "kind": "observer"}"#, #"{"name": "fails", "kind": "merge"}"#,
                        ])
                ])
            try bench.misbehave("refuse", "fails")
            let first = try await bench.startDaemon()
            let writer = try await bench.startPython(Self.burst)
            try await first.logged("event=hookHeld")
            try await writer.succeed()
            try await first.kill()
            try bench.behave("refuse", "fails")
            let second = try await bench.startDaemon()
            try await Self.expectAll(bench, second, hook: "audit/all")
            try await second.stop()
            Self.expectSameIfSameID(try bench.calls())
            // Each row belongs to one delivery, however often that came.
            var deliveries: [String: Set<String>] = [:]
            for call in try bench.calls() where !call.isMerge {
                for context in call.params.contexts {
                    deliveries[context.key, default: []].insert(call.params.delivery)
                }
            }
            #expect(deliveries.filter { $0.value.count != 1 } == [:])
        }
    }

    private static func expectAll(_ bench: Workbench, _ daemon: DaemonUnderTest, hook: String) async throws {
        try await eventually("all rows", state: { daemon.log.joined(separator: "\n") }) {
            let keys = try bench.calls().filter { $0.manner == "ok" && $0.params.hook == hook }.flatMap {
                $0.params.contexts.map(\.key)
            }
            return Set(keys).count == 1500
        }
    }

    private static func expectSameIfSameID(_ calls: [Call]) {
        var seen: [String: String] = [:]
        for call in calls where !call.isMerge {
            if let before = seen.updateValue(call.summary, forKey: call.params.delivery) {
                #expect(before == call.summary)
            }
        }
    }
}
