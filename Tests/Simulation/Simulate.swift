import ArgumentParser
import CSimulation
import FoundationEssentials
import Glibc
import PersistentHistory

/// Runs seeds, and says which of them show something that must not happen.
@main struct Simulate: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "historyd-simulation", abstract: "Simulate daemons, each from a seed.")

    @Option(help: "How many seeds to run.") var seeds = 100
    @Option(help: "The first seed.") var from: UInt64 = 1
    @Option(help: "What may happen: \(Kind.allCases.map(\.rawValue).joined(separator: ", ")).")
    var kind = Kind.faults
    @Option(help: "Numbers of steps to leave out, separated by commas.") var without = ""
    @Option(help: "Write the record of the last run to this file.") var record: String?
    @Option(help: "How many processes run seeds side by side.") var jobs = 1
    @Option(help: .hidden) var runIn: String?
    @Option(help: .hidden) var templates: String?
    @Option(help: .hidden) var padding: String?
    @Option(help: "Tell of what this file says was reached as well, and add to it.") var reached: String?
    @Flag(help: "Do not shorten what fails.") var asIs = false
    @Flag(help: "Print each step of a scenario.") var steps = false
    @Flag(help: "Name what no seed has reached.") var unreached = false

    static func main() {
        csimulation_be_repeatable(CommandLine.unsafeArgv)
        // As the daemon does. Counting memory takes a lock, which would be a point at which threads take turns.
        ProcessMemory.keepSmall()
        main(nil)
    }

    mutating func run() throws {
        if let runIn, let templates {
            Runs(folder: runIn, templates: templates, record: record).report(
                Scenario(seed: from, kind: kind).leavingOut(leftOut))
        }
        let folder = "/dev/shm/historyd-simulation-\(csimulation_process())"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        if kind != .mirrors { try makeTemplates(folder) }
        var processes: [pid_t] = []
        for job in 0..<max(1, jobs) {
            let process = csimulation_fork()
            if process == 0 { work(job, folder) }
            processes.append(process)
        }
        var (failed, signal): (Int32, Int32) = (0, 0)
        for process in processes {
            let status = csimulation_wait(process, &signal)
            failed += status < 0 ? 1 : status
        }
        var all = Reached()
        for file in (0..<max(1, jobs)).map({ "\(folder)/reached-\($0)" }) + [reached].compactMap({ $0 }) {
            all.add(Reached(Substring((try? String(contentsOfFile: file, encoding: .utf8)) ?? "")))
        }
        if let reached { try all.text.write(toFile: reached, atomically: true, encoding: .utf8) }
        print(
            "\(seeds) seeds of \(kind.rawValue) from \(from): \(failed) failed; reached:\n\(all.summary(namingTheRest: unreached))"
        )
        if failed > 0 { throw ExitCode.failure }
    }

    private var leftOut: Set<Int> { Set(without.split(separator: ",").compactMap { Int($0) }) }

    /// Every n-th seed. A status tells how many failed.
    private func work(_ job: Int, _ templates: String) -> Never {
        var failed: Int32 = 0
        var reached = Reached()
        do {
            for offset in stride(from: job, to: seeds, by: max(1, jobs)) {
                let scenario = Scenario(seed: from + UInt64(offset), kind: kind).leavingOut(leftOut)
                let runs = Runs(folder: "\(templates)/run-\(job)", templates: templates, record: record)
                if steps { say(scenario.text) }
                let outcome = try runs.perform(scenario)
                reached.add(outcome.reached)
                guard let violation = outcome.violations.first else { continue }
                failed += 1
                let shortened = asIs ? nil : try runs.shortened(scenario, showing: violation.kind)
                say("seed \(scenario.seed): \(violation)\(shortened.map { "\n" + $0.advice } ?? "")")
            }
            try reached.text.write(toFile: "\(templates)/reached-\(job)", atomically: false, encoding: .utf8)
        } catch {
            say("The simulation itself failed: \(error)")
            failed += 1
        }
        csimulation_exit(min(failed, 100))
    }

    /// At once, for the process ends without ceremony.
    private func say(_ text: String) {
        var bytes = Array((text + "\n").utf8)
        _ = csimulation_write_all(1, &bytes, bytes.count)
    }

    /// With the same chance each time. In a process of its own: Dispatch's threads, which closing a database may begin,
    /// must not be counted on in the processes that are forked from this one.
    private func makeTemplates(_ folder: String) throws {
        guard let shared = csimulation_share() else { throw SystemError(call: "mmap", number: errno) }
        defer { csimulation_unshare(shared) }
        let process = csimulation_fork()
        if process == 0 {
            csimulation_take_clock(shared)
            let count = kind == .applications ? Scenario.mostStores : 3
            do { try Run.prepareTemplates(in: folder, count: count) } catch {
                say("The stores cannot be made: \(error)")
                csimulation_exit(1)
            }
            csimulation_exit(0)
        }
        var signal: Int32 = 0
        if csimulation_wait(process, &signal) != 0 { throw ExitCode.failure }
    }
}

extension Kind: ExpressibleByArgument {}
