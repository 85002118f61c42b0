import ArgumentParser

struct Aims: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "aims",
        abstract: "Prints the aims and whether a run meets them, as a table in Markdown.")

    @Argument(help: "The run: its name, or a file (default: the newest).")
    var name: String?

    @Option(help: ArgumentHelp("The folder of the results.", valueName: "folder"))
    var results = RunFolder.usual

    func run() throws {
        let folder = RunFolder(path: results)
        guard let name = try name ?? folder.names().first else {
            throw BenchError("There are no runs in '\(results)'; `make bench` creates one.")
        }
        let record = try RunRecord.load(folder.file(name))
        print(record.machine.map { "\($0.name): \($0.value)" }.joined(separator: "; ") + ".\n")
        print(AimTable(record.figures).text)
    }
}

/// The figures that have an aim, in Markdown.
struct AimTable {
    private let figures: [Figure]

    init(_ figures: [Figure]) { self.figures = figures.filter { $0.aim != nil } }

    var text: String {
        var lines = ["| | measured | beside | ratio | aim | |", "|---|---|---|---|---|---|"]
        var group: String?
        for figure in figures {
            if figure.group != group { lines.append("| **\(figure.group)** | | | | | |") }
            group = figure.group
            lines.append(Self.line(figure))
        }
        let met = figures.count { $0.aim?.isMet(by: $0) ?? true }
        return lines.joined(separator: "\n") + "\n\nMet: \(met) of \(figures.count).\n"
    }

    private static func line(_ figure: Figure) -> String {
        let beside = figure.baseline.map {
            "\(FigureTable.amount($0.value, figure.unit)), \($0.name)"
        }
        let ratio = figure.ratio.map { NumberText.text($0, decimals: 2) }
        let cells = [
            figure.name, FigureTable.amount(figure.value, figure.unit), beside ?? "", ratio ?? "",
            figure.aim?.text ?? "", figure.aim.map { $0.isMet(by: figure) ? "met" : "**not met**" } ?? "",
        ]
        return "| \(cells.joined(separator: " | ")) |"
    }
}
