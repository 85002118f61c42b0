import ArgumentParser

/// What historyd costs, in figures. `make bench` builds and runs it; it is not a test.
@main
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "historyd-bench",
        abstract: "Measures historyd, each figure against a baseline in the same run.",
        subcommands: [
            Run.self, Compare.self, Aims.self, IdleCommand.self, WriteCommand.self,
        ],
        defaultSubcommand: Run.self)
}

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Runs the benchmarks, and prints one table.",
        discussion: Part.allCases.map { "\($0.rawValue): \($0.summary)." }.joined(separator: "\n") + """


            Each figure is the median of some rounds, in which all that are compared take turns; "±" is half of \
            what the rounds lie apart.

            Stores are made in a folder of their own under $TMPDIR, or /tmp. Where that is a memory file \
            system, what synchronous=FULL costs is not seen.
            """)

    @Argument(help: ArgumentHelp("The parts to run (default: all).", valueName: "part"))
    var parts: [Part] = []

    @OptionGroup var sizes: Sizes

    @Option(
        help: ArgumentHelp("The folder of the results, with a JSON file for each run.", valueName: "folder"))
    var results = RunFolder.usual

    @Option(help: "The name of the results (default: the time).")
    var name: String?

    @Option(
        help: ArgumentHelp("The daemon to measure (default: the one beside this program).", valueName: "file"))
    var historyd: String?

    func run() throws {
        let workplace = try Workplace(historyd: historyd)
        defer { workplace.leave() }
        let machine = Machine()
        let facts =
            try machine.facts() + [
                .init(
                    name: "rounds",
                    value: "\(sizes.rounds), of \(sizes.commits) commits where commits are timed")
            ]
        print(facts.map { "\($0.name): \($0.value)\n" }.joined())
        var findings = Findings()
        var hasFailed = false
        for part in Part.allCases where parts.isEmpty || parts.contains(part) {
            Progress.note("measuring: \(part.rawValue)")
            do { try part.measure(workplace, sizes, into: &findings) } catch {
                // What the other parts took minutes for is kept.
                findings.omissions.append("\(part.rawValue): \(error)")
                hasFailed = true
            }
        }
        print(FigureTable(findings.figures).text)
        for omission in findings.omissions { print("Not measured: \(omission)") }
        print("Load average before and after: \(machine.load), \(Machine().load).")
        let file = try RunFolder(path: results).save(
            RunRecord(machine: facts, figures: findings.figures, omissions: findings.omissions),
            as: name ?? machine.time)
        print("Kept as \(file).")
        if hasFailed { throw ExitCode.failure }
    }
}

/// What a part found.
struct Findings {
    var figures: [Figure] = []
    /// What could not be measured here, and why.
    var omissions: [String] = []
}
