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

    private var benchmarks: [any Benchmark.Type] {
        switch self {
        case .latency: [PacedLatencyBenchmark.self, LatencyBenchmark.self]
        case .backlog: [BacklogBenchmark.self]
        case .replica: [ReplicaBenchmark.self]
        case .scale: [ScaleBenchmark.self]
        case .writer: [WriterBenchmark.self]
        case .recording: [RecordingBenchmark.self]
        case .idle: [IdleBenchmark.self]
        case .cleaning: [CleaningBenchmark.self]
        case .migration: [MigrationBenchmark.self]
        case .coreData: [CoreDataBenchmark.self]
        case .stream: [StreamBenchmark.self]
        case .instructions: [InstructionsBenchmark.self, LoneCommitBenchmark.self]
        }
    }

    func measure(_ workplace: Workplace, _ sizes: Sizes, into findings: inout Findings) throws {
        defer { workplace.clear() }
        for benchmark in benchmarks.map({ $0.init(workplace: workplace, sizes: sizes) }) {
            do {
                findings.figures += try benchmark.measure(&findings.omissions)
            } catch let missing as Tool.Missing {
                findings.omissions.append("\(rawValue): \(missing.reason)")
            }
        }
    }
}

/// Measures one thing in the workplace, where it leaves what it made.
protocol Benchmark {
    init(workplace: Workplace, sizes: Sizes)
    /// - Parameter omissions: What cannot be measured here, and why.
    /// - Throws: `Tool.Missing` where that is all of it.
    func measure(_ omissions: inout [String]) throws -> [Figure]
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
