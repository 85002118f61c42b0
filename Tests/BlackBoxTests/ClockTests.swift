import Foundation
import TestSupport
import Testing

/// The system's clock is set while the programs run, by an hour, forward and back.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: PreloadedLibrary.compiler != nil, PreloadedLibrary.missing), .timeLimit(.minutes(60)))
struct ClockTests {
    private static let hour = 3600

    private func withClock(_ body: (Workbench, SteppedClock) async throws -> Void) async throws {
        try await withWorkbench { bench in try await body(bench, try await SteppedClock(bench)) }
    }

    private func start(_ bench: Workbench, _ clock: SteppedClock) async throws -> DaemonUnderTest {
        let daemon = try bench.launchDaemon(environment: clock.environment)
        try await daemon.ready()
        return daemon
    }

    /// What the programs read from the clock.
    private func now(_ bench: Workbench, _ clock: SteppedClock) async throws -> Int {
        let output = try await bench.start(
            [Products.python, "-c", "import time; print(int(time.time()))"], "now-\(UUID().uuidString)",
            environment: clock.environment
        ).succeed()
        return Int(output.trimmingCharacters(in: .whitespacesAndNewlines)) ?? 0
    }

    /// Waits for a program to end, while the clock goes back further and further.
    private func end(_ program: RunningProgram, _ clock: SteppedClock, from start: Int) async throws
        -> RunningProgram.Ending
    {
        var step = start
        return try await eventually("the end of \(program.arguments)", state: { program.errors }) {
            step -= 1
            try clock.set(step)
            return program.ended
        }
    }

    @Test("Nothing comes early when the clock is set forward") func forward() async throws {
        try await withClock { bench, clock in
            let slow = #""retry": {"attempts": 3, "initialDelay": "30m", "maximumDelay": "30m"}"#
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.feeding("live", and: "Slow"),
                    more: #""clean": {"strategy": "byDuration", "seconds": "30m", "maximumDuration": "30m"}"#),
                plugins: [
                    PluginSetup(hooks: [#"{"name": "all", "kind": "observer", "consumer": "MainApp"}"#]),
                    PluginSetup(
                        name: "slow", more: slow,
                        hooks: [#"{"name": "fails", "kind": "observer", "consumer": "Slow"}"#]),
                ])
            let daemon = try await start(bench, clock)
            let before = try await now(bench, clock)
            let feed = try bench.listen()
            try await feed.lines(1, of: daemon)
            try bench.misbehave("refuse", "fails")
            let token = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await daemon.logged("event=hookFailed")
            let waiting = try bench.startCtl(
                ["wait", "--consumer", "Slow", "--token", token, "--timeout", "30m"],
                environment: clock.environment)
            try await eventually("the wait's connection") {
                Processes.sockets(daemon.processID, bench.controlSocket) >= 2
            }

            for (number, step) in [(2, Self.hour), (3, -Self.hour)] {
                try clock.set(step)
                #expect(try await abs(now(bench, clock) - before - step) < Self.hour / 2)
                _ = try await bench.commit("INSERT INTO person (id) VALUES (\(number))")
                try await feed.lines(number + 1, of: daemon)
                try await bench.acknowledge(number)
                // It is looked at again, with the clock as it is.
                _ = try await bench.steer("clean", "--dry-run")
            }
            #expect(waiting.ended == nil, "\(waiting.errors)")
            #expect(try bench.calls().filter { $0.params.hook == "slow/fails" }.count == 1)
            #expect(daemon.log.filter { $0.contains("event=consumerPassedBy") } == [])
            #expect(try await bench.sql("SELECT min(id) FROM historyd_change") == "1\n")

            try bench.behave("refuse", "fails")
            try await bench.steer("run")
            // It prints how far the consumer is by then: what came after it may be in the same batch.
            #expect(try await waiting.succeed().hasPrefix("\(token.prefix { $0 != ":" }):"))
            try await daemon.stop()
        }
    }

    @Test("Nothing hangs when the clock is set back") func back() async throws {
        try await withClock { bench, clock in
            let quick =
                #""timeout": "1s", "retry": {"attempts": 3, "initialDelay": "1s", "maximumDelay": "1s"}"#
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.feeding("live", and: "Slow"),
                    more: #""clean": {"strategy": "byDuration", "seconds": "1s"}"#),
                plugins: [
                    PluginSetup(
                        name: "slow", more: quick,
                        hooks: [#"{"name": "fails", "kind": "observer", "consumer": "Slow"}"#])
                ])
            let daemon = try await start(bench, clock)
            let feed = try bench.listen()
            try await feed.lines(1, of: daemon)
            _ = try await bench.commit("INSERT INTO person (id) VALUES (1)")
            try await eventually("the cleanup") {
                try await bench.acknowledge(1)
                return try await bench.sql("SELECT count(*) FROM historyd_change") == "1\n"
            }

            // A call that hangs, a hook that is called again, who waits for it, and who asks.
            try bench.misbehave("hang", "fails")
            let token = try await bench.commit("INSERT INTO person (id) VALUES (2)")
            try await eventually("the call") { FileManager.default.fileExists(atPath: bench.path("hanging")) }
            let wait = ["wait", "--consumer", "Slow", "--token", token, "--timeout"]
            let (short, long) = try (
                bench.startCtl(wait + ["2s"], environment: clock.environment),
                bench.startCtl(wait + ["10m"], environment: clock.environment)
            )
            try clock.set(-Self.hour)
            try await daemon.logged("event=hookTimedOut")
            #expect(try await end(short, clock, from: -Self.hour) == .exited(75))
            let calls = try bench.calls().count
            try bench.behave("hang", "fails")
            try await bench.calls(calls + 1, of: daemon)
            #expect(try await long.succeed() == "\(token)\n")
            try await feed.lines(3, of: daemon)

            // The cleanup's turns come as before.
            for number in 3...4 {
                _ = try await bench.commit("INSERT INTO person (id) VALUES (\(number))")
                try await feed.lines(number + 1, of: daemon)
                try await bench.acknowledge(number)
                try await eventually("the cleanup up to \(number)") {
                    try await bench.sql("SELECT min(id) FROM historyd_change") == "\(number)\n"
                }
            }

            daemon.program.signal(SIGSTOP)
            let health = try bench.startCtl(["health", "--timeout", "2s"], environment: clock.environment)
            let status = try bench.startCtl(["status", "--timeout", "2s"], environment: clock.environment)
            #expect(try await end(health, clock, from: -3 * Self.hour) == .exited(2))
            #expect(try await end(status, clock, from: -6 * Self.hour) == .exited(75))
            daemon.program.signal(SIGCONT)
            try await daemon.stop()
        }
    }

    /// What is limited by the system's clock waits for an hour too long when it is set back.
    @Test("No source waits by the system's clock") func sources() throws {
        let waits = [
            "wait(timeout:", "DispatchTime", "DispatchWallTime", "asyncAfter", "pthread_cond_timedwait",
            "sem_timedwait", "pthread_mutex_timedlock", "Thread.sleep", "RunLoop", "CFAbsoluteTime",
            "TFD_TIMER_CANCEL_ON_SET", "timeIntervalSinceNow", "addingTimeInterval", "CLOCK_REALTIME",
        ]
        // What asks for the time of day, or is notified when it is set.
        let known = [
            "CSQLiteHistory/history.c": ["CLOCK_REALTIME"],
            "historyd-nats/ClockSteps.swift": ["CLOCK_REALTIME", "TFD_TIMER_CANCEL_ON_SET"],
        ]
        let folder = Sources.path("Sources")
        let files = try #require(FileManager.default.enumerator(atPath: folder)).compactMap { $0 as? String }
            .filter { $0.hasSuffix(".swift") || $0.hasSuffix(".c") || $0.hasSuffix(".h") }
        #expect(files.count > 300)
        for file in files {
            let text = try Sources.text("Sources/\(file)")
            let found = waits.filter { text.contains($0) }
            #expect(found.sorted() == (known[file] ?? []).sorted(), "\(file)")
        }
    }
}
