import Foundation
import TestSupport
import Testing

/// A daemon that runs as a process of its own.
struct DaemonUnderTest: Sendable {
    let program: RunningProgram
    /// Where its part of the log begins, in bytes.
    private let start: Int

    init(_ program: RunningProgram, logFrom start: Int) {
        self.program = program
        self.start = start
    }

    var processID: pid_t { program.processID }

    /// The lines of its log so far.
    var log: [String] {
        String(decoding: program.errors.utf8.dropFirst(start), as: UTF8.self).wholeLines
    }

    /// Waits for a line with a text in it, and gives it.
    @discardableResult
    func logged(_ text: String, times: Int = 1, within limit: Duration = .seconds(240)) async throws -> String {
        try await eventually(
            "\"\(text)\" in the log", within: limit, state: { "\n" + log.joined(separator: "\n") }
        ) {
            if program.hasError(text, from: start) {
                let lines = log.filter { $0.contains(text) }
                if lines.count >= times { return lines[times - 1] }
            }
            if let ended = program.ended {
                throw WaitedTooLong(
                    description:
                        "The daemon ended, \(ended), without \"\(text)\" in its log:\n\(log.joined(separator: "\n"))"
                )
            }
            return nil
        }
    }

    func ready() async throws { try await logged("event=ready") }

    /// Waits until it has gone to sleep.
    func quiet() async throws {
        try await eventually("quiet", state: { "\n" + log.suffix(20).joined(separator: "\n") }) {
            try await wakeUps(in: .milliseconds(300)) == 0
        }
    }

    /// How often it wakes in a time, beside the thread sanitizer.
    func wakeUps(in period: Duration) async throws -> Int {
        let before = Processes.switches(processID)
        try await observe(for: period)
        let count = Processes.switches(processID) - before
        return Sanitizers.watchThreads ? max(0, count - 4 - Int(period / .milliseconds(100))) : count
    }

    /// Stops it, as a service manager does; it must end well.
    func stop(within limit: Duration = .seconds(120), sourceLocation: SourceLocation = #_sourceLocation)
        async throws
    {
        program.signal(SIGTERM)
        let ending = try await program.end(within: limit)
        #expect(ending == .exited(0), "\(log.joined(separator: "\n"))", sourceLocation: sourceLocation)
    }

    /// Ends it without a warning.
    func kill() async throws {
        program.signal(SIGKILL)
        _ = try await program.end()
    }

    /// Runs the body, and what comes after, for at least some time, in which the daemon must
    /// not use more than a tenth of a processor.
    func sparing(for period: Duration = .seconds(2), _ body: () async throws -> Void = {}) async throws {
        let before = Processes.processorTime(processID)
        let clock = ContinuousClock()
        let start = clock.now
        try await body()
        if clock.now - start < period { try await observe(for: period - (clock.now - start)) }
        let used = Processes.processorTime(processID) - before
        #expect(used <= (clock.now - start) / 10, "\(log.suffix(20).joined(separator: "\n"))")
        #expect(program.ended == nil)
    }

    /// The lines of its log that are worse than a notice, without what differs from run to run: on a busy machine the
    /// loop is held up without any fault of the daemon (see `LoopStalls`).
    func problems(_ bench: Workbench) -> [String] {
        log.filter {
            ($0.hasPrefix("warning") || $0.hasPrefix("error")) && !$0.contains("event=loopStalled")
        }.map { line in
            var line = line.replacing(bench.folder.path + "/", with: "")
            line.replace(/\ store=contacts$/, with: "")
            return line
        }
    }
}
