import Foundation
import TestSupport
import Testing

/// Plugins that say whether another attempt is worth it.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct FailureAdviceTests {
    /// Refuses the calls of transaction 1 as it is told, and notes each.
    private static let coprocess = """
        import json, os, sys
        for line in sys.stdin.buffer:
            request = json.loads(line)
            number = request['params']['transaction']['token'].partition(':')[2]
            with open(os.environ['BENCH'] + '/attempts', 'a') as file: print(number, file=file)
            refuses = number == '1' and os.path.exists(os.environ['BENCH'] + '/refuses')
            error = {'code': 1, 'message': 'not this one', 'data': json.loads(os.environ['DATA'])}
            outcome = {'error': error} if refuses else {'result': None}
            print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], **outcome}), flush=True)
        """
    private static let oneshot = #"""
        number=$(cut -d: -f2- | grep -o '"token":"[^"]*"' | cut -d: -f3 | tr -d '"')
        echo "$number" >>"$BENCH/attempts"
        test "$number" = 1 && test -e "$BENCH/refuses" || exit 0
        echo first >&2
        echo not this one >&2
        exit $STATUS
        """#

    private func configure(_ bench: Workbench, _ advice: String, onFailure: String, retry: String) throws {
        let isOneshot = Int(advice) != nil
        try bench.folder.write("advises", isOneshot ? Self.oneshot : Self.coprocess)
        let interpreter = isOneshot ? "/bin/sh" : Products.python
        try bench.configure(
            StoreSetup(),
            plugins: [
                PluginSetup(
                    name: "a", command: [interpreter, bench.path("advises")],
                    mode: isOneshot ? "oneshot" : "coprocess",
                    environment: [isOneshot ? "STATUS" : "DATA": advice.replacing("\"", with: "\\\"")],
                    // One call at a time: those behind one that fails would be sent again.
                    more: #""window": 1, "onFailure": "\#(onFailure)", "retry": \#(retry)"#)
            ])
        try bench.folder.write("refuses", "")
    }

    private func attempts(_ bench: Workbench) -> [String] {
        RunningProgram.text(bench.path("attempts")).wholeLines
    }

    @Test(
        "What will never succeed is given up, or held, at the first attempt",
        arguments: [#"{"permanent": true}"#, "65"], ["skip", "hold"])
    func permanent(_ advice: String, _ onFailure: String) async throws {
        try await withWorkbench { bench in
            // A second attempt would not come before the end of the test.
            try configure(
                bench, advice, onFailure: onFailure,
                retry: #"{"attempts": 5, "initialDelay": "1h", "maximumDelay": "2h"}"#)
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            if onFailure == "skip" {
                try await daemon.logged("event=deadLetterKept")
                // A coprocess has read it ahead, and gets it again.
                try await eventually("the next call") { attempts(bench).last == "2" }
                #expect(attempts(bench).count { $0 == "1" } == 1)
                let letter = try await bench.report("dead-letters", "list")["deadLetters"][0]
                #expect(letter["attempts"].int == 1)
                #expect(letter["reason"].text?.hasSuffix(": not this one.") == true, "\(letter)")
            } else {
                try await daemon.logged("event=hookHeld")
                #expect(attempts(bench).count { $0 == "1" } == 1)
                try FileManager.default.removeItem(atPath: bench.path("refuses"))
                try await bench.steer("run")
                #expect(attempts(bench).count { $0 == "1" } == 2 && attempts(bench).last == "2")
            }
            try await daemon.stop()
        }
    }

    @Test(
        "What asks for more time gets it",
        arguments: [(#"{"retryAfter": "3h"}"#, "10800"), (#"{"retryAfter": 7200}"#, "7200"), ("75", "3600")])
    func later(_ advice: String, _ seconds: String) async throws {
        try await withWorkbench { bench in
            try configure(
                bench, advice, onFailure: "hold",
                retry: #"{"attempts": 5, "initialDelay": "10ms", "maximumDelay": "1h"}"#)
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await daemon.logged("event=hookFailed")
            #expect(
                daemon.log.contains { $0.contains("event=hookFailed") && $0.contains("\(seconds)") },
                "\(daemon.log)")
            try FileManager.default.removeItem(atPath: bench.path("refuses"))
            try await bench.steer("run")
            #expect(attempts(bench) == ["1", "1"])
            try await daemon.stop()
        }
    }

    @Test("A plugin in Python raises what it advises", arguments: ["coprocess", "oneshot"])
    func python(_ mode: String) async throws {
        try await withWorkbench { bench in
            try bench.folder.write(
                "plugin.py",
                """
                import os, historyd
                plugin = historyd.Plugin()
                @plugin.observer()
                def all(call):
                    key = call.changes[0].key["id"]
                    with open(os.environ["BENCH"] + "/attempts", "a") as file: print(key, file=file)
                    if key == 1: raise historyd.Permanent("There is no\\nsuch person.")
                    if key == 2: raise historyd.RetryAfter(7200, "It is night.")
                plugin.run()
                """)
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        name: "a", command: [Products.python, bench.path("plugin.py")], mode: mode,
                        environment: ["PYTHONPATH": Sources.path("config/python")],
                        more:
                            #""window": 1, "onFailure": "skip", "retry": {"attempts": 5, "initialDelay": "10ms", "maximumDelay": "2h"}"#
                    )
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await daemon.logged("event=hookFailed")
            // A coprocess has read the second ahead, and gets it again.
            #expect(Set(attempts(bench)) == ["1", "2"] && attempts(bench).count { $0 == "1" } == 1)
            let failure = try #require(daemon.log.last { $0.contains("event=hookFailed") })
            #expect(failure.contains("It is night.") && failure.contains("7200"), "\(failure)")
            let letter = try await bench.report("dead-letters", "list")["deadLetters"][0]
            #expect(
                letter["reason"].text?.contains(mode == "oneshot" ? "There is no such person." : "Permanent: ")
                    == true, "\(letter)")
            try await daemon.stop()
        }
    }
}
