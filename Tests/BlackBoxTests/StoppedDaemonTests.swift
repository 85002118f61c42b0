import Foundation
import TestSupport
import Testing

/// The daemon stands still for longer than a plugin may take: it is stopped, or the machine is.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct StoppedDaemonTests {
    /// Notes that a call has come, and answers when the daemon stands still.
    private static let plugin = """
        import json, os, sys, time
        bench = os.environ['BENCH']
        for line in sys.stdin:
            request = json.loads(line)
            with open(bench + '/received', 'a') as file: file.write(str(request['id']) + '\\n')
            while not os.path.exists(bench + '/stopped'): time.sleep(0.005)
            print(json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'result': None}), flush=True)
            with open(bench + '/answered', 'w'): pass
        """

    @Test("An answer that lies in the pipe is read before it is late")
    func answerInThePipe() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("patient.py", Self.plugin)
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        command: [Products.python, bench.path("patient.py")],
                        more: #""timeout": "4s", "onFailure": "skip", "retry": {"attempts": 1}"#)
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await eventually("the call") { FileManager.default.fileExists(atPath: bench.path("received")) }
            // On a busy machine that comes a second later.
            daemon.program.signal(SIGSTOP)
            try bench.folder.write("stopped", "")
            try await eventually("the answer") {
                FileManager.default.fileExists(atPath: bench.path("answered"))
            }
            try await observe(for: .milliseconds(4500))
            daemon.program.signal(SIGCONT)
            try await bench.waitForCursor(at: 1, daemon)
            #expect(RunningProgram.text(bench.path("received")).wholeLines.count == 1)
            #expect(try await bench.report("dead-letters", "list")["deadLetters"].list.isEmpty)
            #expect(!daemon.log.contains { $0.contains("event=hookTimedOut") }, "\(daemon.log)")
            try await daemon.stop()
        }
    }
}
