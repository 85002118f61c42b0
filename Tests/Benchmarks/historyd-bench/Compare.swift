import ArgumentParser

struct Compare: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "compare",
        abstract: "Compares two runs.",
        discussion: """
            Figures that have a baseline are compared by their ratio to it, so that a slower hour of the machine \
            does not count. What moved further than the rounds of either run lie apart is marked as better or worse.
            """)

    @Argument(help: "The earlier run: its name, or a file (default: the one before that has such figures).")
    var before: String?

    @Argument(help: "The later one (default: the newest).")
    var after: String?

    @Option(help: ArgumentHelp("The folder of the results.", valueName: "folder"))
    var results = RunFolder.usual

    func run() throws {
        let folder = RunFolder(path: results)
        let names = try folder.names()
        guard let newest = after ?? names.first else {
            throw BenchError("There are no runs in '\(results)'; `make bench` creates one.")
        }
        let later = try RunRecord.load(folder.file(newest))
        let earlier = try before ?? earlierName(names, than: newest, in: folder, like: later)
        let first = try RunRecord.load(folder.file(earlier))
        print("Before: \(earlier)\nAfter: \(newest)\n")
        for fact in later.machine {
            let old = first.machine.first { $0.name == fact.name }?.value ?? "not there"
            if old != fact.value { print("\(fact.name): \(old), then \(fact.value)") }
        }
        print("")
        print(Comparison(first.figures, later.figures).text)
    }

    private func earlierName(
        _ names: [String], than newest: String, in folder: RunFolder, like record: RunRecord
    ) throws -> String {
        let older = names.drop { $0 != newest }.dropFirst()
        for name in older
        where Comparison.share(try RunRecord.load(folder.file(name)).figures, record.figures) { return name }
        throw BenchError("No run before '\(newest)' in '\(results)' has figures of the same kind.")
    }
}
