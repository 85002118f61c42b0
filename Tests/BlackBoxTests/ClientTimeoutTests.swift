import Foundation
import TestSupport
import Testing

/// A daemon that is stopped as a debugger or a hung disk stops it: it accepts connections, and answers nothing.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(15)))
struct ClientTimeoutTests {
    private func withStoppedDaemon(_ body: (Workbench) async throws -> Void) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            daemon.program.signal(SIGSTOP)
            let result: Result<Void, any Error>
            do { result = .success(try await body(bench)) } catch { result = .failure(error) }
            daemon.program.signal(SIGCONT)
            try result.get()
            try await daemon.stop()
        }
    }

    @Test("Health fails with the reason when the daemon does not answer")
    func health() async throws {
        try await withStoppedDaemon { bench in
            let text = try await bench.ctl("health", "--timeout", "300ms")
            #expect(text.status == .exited(2))
            #expect(text.output.hasPrefix("failing\n"))
            #expect(text.output.contains("has not answered GET /v1/health"))
            #expect(text.output.contains("within 300 ms"), "\(text.output)")
            // Its own limit, without being told.
            let report = try await bench.ctl("health", "--format", "json")
            #expect(report.status == .exited(2))
            #expect(
                try report.json()["reasons"].list.first?["cause"].text == "notAnswering", "\(report.output)")
        }
    }

    @Test(
        "No command that asks waits for ever",
        arguments: [
            ["status"], ["consumers"], ["hooks", "list"], ["plugins", "list"], ["metrics"], ["doctor"],
            ["reload"],
            ["pause"], ["resume"], ["clean"], ["resync", "view"], ["dead-letters", "list"], ["log-level"],
            ["run"], ["wait", "--consumer", "MainApp", "--token", "x:1"],
        ])
    func commands(_ arguments: [String]) async throws {
        try await withStoppedDaemon { bench in
            let program = try bench.startCtl(arguments + ["--timeout", "100ms"])
            #expect(try await program.end(within: .seconds(40)) == .exited(75))
            #expect(program.errors.contains("historyctl: historyd has not answered"), "\(program.errors)")
        }
    }

    @Test("A daemon that accepts no further connection is not taken for one that does not run")
    func backlog() async throws {
        try await withStoppedDaemon { bench in
            let fill = """
                import socket, sys, time
                waiting = []
                while True:
                    s = socket.socket(socket.AF_UNIX)
                    s.setblocking(False)
                    try: s.connect(sys.argv[1])
                    except BlockingIOError: break
                    waiting.append(s)
                print("full", flush=True)
                time.sleep(100)
                """
            let filler = try bench.start([Products.python, "-c", fill, bench.controlSocket], "fill")
            try await eventually("a full backlog") { filler.output.contains("full") }
            let outcome = try await bench.ctl("status", "--timeout", "300ms")
            #expect(outcome.status == .exited(75))
            #expect(outcome.errors.contains("accepts no connections"), "\(outcome.errors)")
            try await filler.destroy()
        }
    }
}
