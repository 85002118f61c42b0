import ArgumentParser

/// What historyd costs, in figures. `make bench` builds and runs it; it is not a test.
@main
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "historyd-bench",
        abstract: "Measures historyd, each figure against a baseline in the same run.",
        subcommands: [Run.self, WatchCommand.self, PluginCommand.self, IdleCommand.self, CleanCommand.self],
        defaultSubcommand: Run.self)
}

/// The parts of a run.
enum Part: String, CaseIterable, ExpressibleByArgument {
    case latency, backlog, recording, rest, cleaning
}

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Runs the benchmarks, and prints one table.",
        discussion: """
            latency: from a commit to its observer. backlog: transactions worked off in a second, and the \
            memory afterwards. recording: what the triggers cost a writer. rest: memory, threads and \
            wake-ups of an idle daemon. cleaning (not unless asked for: it takes long): what a writer feels of a \
            cleanup.

            Stores are made in a folder of their own under $TMPDIR, or /tmp. Where that is a memory file \
            system, what synchronous=FULL costs is not seen.
            """)

    @Option(help: ArgumentHelp("Run this part only; may be given more than once.", valueName: "name"))
    var only: [Part] = []

    @Option(help: "Transactions of each latency figure (default: 2000) and of the backlog (default: 200000).")
    var transactions: Int?

    @Option(help: ArgumentHelp("Keep the results as JSON.", valueName: "file"))
    var json: String?

    @Option(
        help: ArgumentHelp("The daemon to measure (default: the one beside this program).", valueName: "file"))
    var historyd: String?

    func validate() throws {
        if let transactions, transactions < 1 { throw ValidationError("--transactions must be at least 1.") }
    }

    func run() throws {
        let workplace = try Workplace(historyd: historyd)
        defer { workplace.leave() }
        let machine = Machine()
        print(machine.text)
        var figures: [Figure] = []
        for part in Part.allCases where only.isEmpty ? part != .cleaning : only.contains(part) {
            Progress.note("measuring: \(part.rawValue)")
            switch part {
            case .latency: figures += try LatencyBenchmark(workplace, commits: transactions ?? 2000).run()
            case .backlog:
                figures += try BacklogBenchmark(workplace, transactions: transactions ?? 200_000).run()
            case .recording: figures += try RecordingBenchmark(workplace).run()
            case .rest: figures += try RestBenchmark(workplace).run()
            case .cleaning:
                figures += try CleaningBenchmark(workplace, changes: 5_000_000, commits: transactions ?? 2000)
                    .run()
            }
        }
        print(FigureTable(figures).text)
        print("Load average before and after: \(machine.load), \(Machine().load).")
        if let json { try FigureJSON.write(figures, machine, to: json) }
    }
}
