import ArgumentParser

/// The parts of a run.
enum Part: String, CaseIterable, ExpressibleByArgument {
    case latency, backlog, replica, scale, idle, writer, recording, cleaning, migration, coreData, instructions,
        stream

    var summary: String {
        switch self {
        case .latency: "from a commit to its observer, at several paces"
        case .backlog: "transactions worked off in a second, and the memory afterwards"
        case .replica: "changed rows that a replica takes in"
        case .scale: "what many consumers, many stores or a long history cost"
        case .writer: "how a daemon that delivers commits or a backlog slows a writer"
        case .recording: "what the triggers cost a writer"
        case .idle: "memory, threads and wake-ups of a daemon that has nothing to do"
        case .cleaning: "what a writer feels of a cleanup"
        case .migration: "for how long changes go unrecorded after a table was rebuilt"
        case .coreData: "changes of a Core Data history that are read in a second"
        case .stream: "from a commit to its mirror over NATS, a backlog, and a new mirror"
        case .instructions: "how many the daemon runs, as valgrind counts them"
        }
    }

    func measure(_ workplace: Workplace, _ sizes: Sizes) throws -> Findings {
        switch self {
        case .latency:
            Findings(figures: try PacedLatencyBenchmark(workplace: workplace, sizes: sizes).run())
                + (try LatencyBenchmark(workplace: workplace, sizes: sizes).run())
        case .backlog: try BacklogBenchmark(workplace: workplace, sizes: sizes).run()
        case .replica: Findings(figures: try ReplicaBenchmark(workplace, sizes).run())
        case .scale: Findings(figures: try ScaleBenchmark(workplace, sizes).run())
        case .writer: Findings(figures: try WriterBenchmark(workplace: workplace, sizes: sizes).run())
        case .recording: Findings(figures: try RecordingBenchmark(workplace).run())
        case .idle: Findings(figures: try IdleBenchmark(workplace, sizes).run())
        case .cleaning: Findings(figures: try CleaningBenchmark(workplace: workplace, sizes: sizes).run())
        case .migration: Findings(figures: try MigrationBenchmark(workplace: workplace, sizes: sizes).run())
        case .coreData: Findings(figures: try CoreDataBenchmark(workplace: workplace, sizes: sizes).run())
        case .stream: try StreamBenchmark(workplace: workplace, sizes: sizes).run()
        case .instructions: try InstructionsBenchmark(workplace, sizes).run()
        }
    }
}

/// How much is measured; the defaults take some minutes in all.
struct Sizes: ParsableArguments {
    @Option(help: "The number of rounds; each figure is their median.")
    var rounds = 5

    @Option(help: "Commits in each round of a latency figure.")
    var commits = 400

    @Option(help: "Single-row transactions of the backlog.")
    var backlog = 500_000

    @Option(help: "Changes in the backlog of transactions of 1,000 rows, and rows that a replica merges.")
    var changes = 1_000_000

    @Option(help: "Consumers of one store.")
    var consumers = 1000

    @Option(help: "Stores of one daemon.")
    var stores = 1000

    @Option(help: "Transactions of a long history. It takes a gigabyte for 10,000,000.")
    var history = 1_000_000

    @Option(help: "Seconds for which an idle daemon is watched.")
    var seconds = 20

    @Option(help: "Changes that are cleaned while a program writes.")
    var cleaned = 2_000_000

    func validate() throws {
        let smallest =
            [rounds, commits, backlog, changes, consumers, stores, history, seconds, cleaned].min() ?? 0
        guard smallest >= 1 else { throw ValidationError("Numbers must be at least 1.") }
        guard changes.isMultiple(of: 1000), cleaned.isMultiple(of: 1000) else {
            throw ValidationError("--changes and --cleaned must be multiples of 1,000.")
        }
    }
}
