import Foundation
import TestSupport
import Testing

/// A coprocess does not cost a round trip for each call.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct PipeliningTests {
    /// Answers nothing before it has read forty requests.
    private static let patient = """
        import json, os, sys
        log = open(os.environ['BENCH'] + '/order', 'a')
        def read():
            line = sys.stdin.readline()
            if not line: sys.exit()
            request = json.loads(line)
            p = request['params']
            context = p['contexts'][0]
            print(p['hook'], context['entityName'], context['operation'], context['objectID'], file=log, flush=True)
            return request['id']
        waiting = [read() for _ in range(40)]
        while True:
            for id in waiting: print(json.dumps({'jsonrpc': '2.0', 'id': id, 'result': None}))
            sys.stdout.flush()
            waiting = [read()]
        """

    @Test(
        "Requests are under way for many groups and transactions at once, in order",
        arguments: [["all"], ["first", "second"]])
    func window(_ hooks: [String]) async throws {
        try await withWorkbench { bench in
            try bench.folder.write("patient.py", Self.patient)
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        name: "p", command: [Products.python, bench.path("patient.py")],
                        more: #""timeout": "30s", "retry": {"attempts": 1}"#,
                        hooks: hooks.map { #"{"name": "\#($0)", "kind": "observer"}"# })
                ])
            // What came while it was down is one batch.
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            var expected: [String] = []
            for id in 1...12 {
                try await bench.write(
                    "INSERT INTO person (id) VALUES (\(id)); INSERT INTO item VALUES ('\(id)', 1); UPDATE person SET age = 2 WHERE id = \(id); DELETE FROM item",
                    as: "Widget")
                for (entity, operation, key) in [
                    ("person", "insert", "'id': \(id)"), ("item", "insert", "'code': '\(id)'"),
                    ("person", "update", "'id': \(id)"), ("item", "delete", "'code': '\(id)'"),
                ] {
                    expected += hooks.map { "p/\($0) \(entity) \(operation) {\(key)}" }
                }
            }
            let daemon = try await bench.startDaemon()
            try await eventually("all calls", state: { daemon.log.joined(separator: "\n") }) {
                RunningProgram.text(bench.path("order")).wholeLines.count >= expected.count
            }
            try await daemon.stop()
            #expect(RunningProgram.text(bench.path("order")).wholeLines == expected)
            #expect(daemon.problems(bench) == [])
        }
    }
}
