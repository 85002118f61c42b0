import ArgumentParser
import CSimulation
import FoundationEssentials
import Glibc
import PersistentHistory

/// Runs scenarios one after the other, and finds the shortest that shows the same.
struct Runs {
    let folder: String
    let templates: String
    /// Where each run's record goes.
    let record: String?

    /// By a program of its own: what one run leaves in memory would make the next one another, also in processes that are
    /// forked from this one.
    func perform(_ scenario: Scenario) throws -> (violations: [Violation], reached: Reached) {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw SystemError(call: "pipe", number: errno) }
        let process = spawn(
            [
                "historyd-simulation", "--from", "\(scenario.seed)", "--kind", scenario.kind.rawValue,
                "--without", scenario.leftOut.map(String.init).joined(separator: ","),
                "--run-in", folder, "--templates", templates, "--record", record ?? "",
            ], reportingTo: ends[1])
        csimulation_close(ends[1])
        defer { csimulation_close(ends[0]) }
        var report: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = csimulation_read(ends[0], &buffer, buffer.count), count > 0 {
            report += buffer.prefix(count)
        }
        var signal: Int32 = 0
        guard csimulation_wait(process, &signal) == 0 else { throw ExitCode.failure }
        // What it has reached comes first.
        let lines = String(decoding: report, as: UTF8.self)
            .split(separator: "\n", omittingEmptySubsequences: false)
        return (lines.dropFirst().compactMap(Violation.init), Reached(lines.first ?? ""))
    }

    private func spawn(_ arguments: [String], reportingTo descriptor: Int32) -> pid_t {
        // Where a thread's stack begins depends on the arguments' length: that is the same each time.
        let length = arguments.reduce(0) { $0 + $1.utf8.count }
        let padding = ["--padding", String(repeating: "x", count: max(1, (1 << 14) - length))]
        let texts = (arguments + padding).map { strdup($0) }
        defer { for text in texts { free(text) } }
        return csimulation_spawn(texts + [nil], descriptor)
    }

    /// Runs a scenario, and says what came of it to who has started this program for it.
    func report(_ scenario: Scenario) -> Never {
        let descriptor = Int32(csimulation_report)
        do {
            let files = Files(folder: folder, isShared: scenario.isShared)
            let outcome =
                scenario.kind == .mirrors
                ? try MirrorRun(scenario: scenario, files: files).perform()
                : try Run(scenario: scenario, files: files).perform(templates: templates)
            if let record, !record.isEmpty {
                try outcome.record.write(toFile: record, atomically: false, encoding: .utf8)
            }
            var report = Array(
                ([outcome.reached.text] + outcome.violations.map(\.description)).joined(separator: "\n").utf8)
            csimulation_exit(csimulation_write_all(descriptor, &report, report.count) ? 0 : 1)
        } catch {
            print("The simulation itself failed: \(error)")
            csimulation_exit(1)
        }
    }

    /// Leaves out steps, many at a time and then single ones, for as long as what is left shows a violation of the same
    /// kind.
    func shortened(_ scenario: Scenario, showing kind: Violation.Kind) throws -> Scenario {
        var shortest = scenario
        var size = shortest.steps.count / 2
        while size > 0 {
            var start = 0
            while start < shortest.steps.count {
                let numbers = shortest.steps[start..<min(start + size, shortest.steps.count)].map(\.number)
                let shorter = shortest.leavingOut(Set(numbers))
                if try perform(shorter).violations.contains(where: { $0.kind == kind }) {
                    shortest = shorter
                } else {
                    start += size
                }
            }
            size /= 2
        }
        return shortest
    }
}

extension Scenario {
    /// The numbers of the seed's steps that are not in it.
    var leftOut: [Int] {
        let left = Set(steps.map(\.number))
        return Scenario(seed: seed, kind: kind).steps.map(\.number).filter { !left.contains($0) }
    }

    /// How to run it, and what is left of it.
    var advice: String {
        let without = leftOut.map(String.init).joined(separator: ",")
        let command = "make simulate KIND=\(kind.rawValue) FROM=\(seed) SEEDS=1"
        return "  shortest: \(command)\(without.isEmpty ? "" : " WITHOUT=\(without)")\n"
            + steps.map { "    \($0.number): \($0)" }.joined(separator: "\n")
    }
}
