/// All figures of a run, aligned, in their groups.
struct FigureTable {
    private let figures: [Figure]

    init(_ figures: [Figure]) { self.figures = figures }

    var text: String {
        var table = AlignedText(head: ["", "measured", "±", "baseline", "ratio", "aim", "", "baseline is"])
        var group: String?
        for figure in figures {
            if figure.group != group { table.add(.heading(figure.group)) }
            group = figure.group
            table.add(.cells(Self.cells(figure)))
        }
        return table.text
    }

    private static func cells(_ figure: Figure) -> [String] {
        [
            "  " + figure.name, amount(figure.value, figure.unit),
            Distribution(figure.rounds).spread.map { "\(NumberText.text($0 * 100, decimals: 0))%" } ?? "",
            figure.baseline.map { amount($0.value, figure.unit) } ?? "",
            figure.ratio.map { NumberText.text($0, decimals: 2) } ?? "", figure.aim?.text ?? "",
            figure.aim.map { $0.isMet(by: figure) ? "met" : "not met" } ?? "", figure.baseline?.name ?? "",
        ]
    }

    static func amount(_ value: Double, _ unit: Figure.Unit) -> String {
        NumberText.text(value) + (unit == .count ? "" : " \(unit.rawValue)")
    }
}
