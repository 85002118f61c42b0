import Foundation
import TestSupport
import Testing

/// A daemon that is stopped as a debugger or a hung disk stops it: it accepts connections, and answers nothing.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ClientTimeoutTests {
    private func withStoppedDaemon(_ body: (Workbench) async throws -> Void) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            daemon.program.signal(SIGSTOP)
            // The last of its threads may accept a connection until it is stopped, too.
            try await eventually("all threads stopped") {
                let tasks = "/proc/\(daemon.program.processID)/task"
                return try FileManager.default.contentsOfDirectory(atPath: tasks).allSatisfy { task in
                    let stat = try? String(contentsOfFile: "\(tasks)/\(task)/stat", encoding: .utf8)
                    return stat?.split(separator: ")").last?.hasPrefix(" T") ?? true
                }
            }
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

    @Test(
        "historyd-nats that is stopped: each command says that it does not answer",
        .enabled(if: FileManager.default.isExecutableFile(atPath: BuiltProducts.path("historyd-nats"))))
    func nats() async throws {
        try await withWorkbench { bench in
            try bench.folder.write(
                "nats.json",
                #"{"version": 1, "servers": ["nats://127.0.0.1:1"], "follow": [{"name": "a", "path": "m.sqlite"}]}"#
            )
            let path = BuiltProducts.path("historyd-nats")
            let program = try bench.start(
                [path, "--config", bench.path("nats.json")], "nats",
                environment: ["RUNTIME_DIRECTORY": bench.folder.path])
            let socket = bench.path("status.sock")
            func ask(_ arguments: String...) async throws -> (RunningProgram.Ending, RunningProgram) {
                let client = try bench.start(
                    [path] + arguments + ["--socket", socket], "client-\(UUID().uuidString)")
                return (try await client.end(within: .seconds(40)), client)
            }
            try await eventually("the socket") { FileManager.default.fileExists(atPath: socket) }
            #expect(try await ask("status").0 == .exited(0))
            program.signal(SIGSTOP)
            for command in ["status", "reload", "doctor"] {
                let (ending, client) = try await ask(command, "--timeout", "100ms")
                #expect(ending == .exited(75))
                #expect(
                    client.errors.contains("historyd-nats has not answered")
                        && client.errors.contains("within 100 ms"), "\(client.errors)")
            }
            // Its own limit, without being told.
            let (ending, health) = try await ask("health")
            #expect(ending == .exited(2) && health.output.hasPrefix("failing\n"), "\(health.output)")
            #expect(health.output.contains("has not answered GET /v1/health"), "\(health.output)")
            let (_, report) = try await ask("health", "--format", "json", "--timeout", "100ms")
            #expect(try Tree(report.output)["verdict"].text == "failing")
            program.signal(SIGCONT)
            try await eventually("an answer") { try await ask("status").0 == .exited(0) }
            program.signal(SIGTERM)
            #expect(try await program.end() == .exited(0))
        }
    }
}
