import CSimulation
import FoundationEssentials
import Glibc
import PersistentHistory

/// One run of a scenario of mirrors: one process, with a thread for each program.
struct MirrorRun {
    let scenario: Scenario
    let files: Files

    /// No run takes longer, in simulated time.
    private static let limit: Int64 = 4 * 3_600_000_000_000

    func perform() throws -> Run.Outcome {
        try? FileManager.default.removeItem(atPath: files.folder)
        try FileManager.default.createDirectory(atPath: files.folder, withIntermediateDirectories: true)
        guard let shared = csimulation_share() else { throw SystemError(call: "mmap", number: errno) }
        defer { csimulation_unshare(shared) }
        shared.pointee.random = scenario.seed
        let descriptor = open(files.record, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        let record = Record(descriptor: descriptor, folder: files.folder, life: 1)
        let process = csimulation_fork()
        if process == 0 { live(record, shared) }
        var signal: Int32 = 0
        let status = csimulation_wait(process, &signal)
        let text = try String(contentsOfFile: files.record, encoding: .utf8)
        var violations = text.split(separator: "\n").compactMap(Record.Line.init)
            .filter { $0.kind == "violation" }
            .compactMap { line in Violation.Kind(rawValue: line[0]).map { Violation($0, line[1]) } }
        switch status {
        case 0: break
        case csimulation_stuck:
            violations.append(Violation(.stuck, "All threads wait, and no time will wake one."))
        case csimulation_endless: violations.append(Violation(.stuck, "The run does not end."))
        default:
            violations.append(Violation(.crash, "The programs ended with status \(status), signal \(signal)."))
        }
        return Run.Outcome(violations: violations, reached: Reached(scenario, text), record: text)
    }

    private func live(_ record: Record, _ shared: UnsafeMutablePointer<csimulation_shared>) -> Never {
        csimulation_limit(60)
        csimulation_take_clock(shared)
        shared.pointee.now += 100_000_000
        csimulation_take_threads(scenario.switches, shared.pointee.now + Self.limit)
        csimulation_be_world()
        do {
            var world = try MirrorWorld(scenario, files, record)
            try world.run()
        } catch {
            record.write("violation", Violation.Kind.crash.rawValue, "The world itself failed: \(error)")
        }
        csimulation_exit(0)
    }
}
