/// All figures of a run, aligned, in their groups.
struct FigureTable {
    private let figures: [Figure]

    init(_ figures: [Figure]) { self.figures = figures }

    var text: String {
        let rows = figures.map(Row.init)
        let widths = (0..<4).map { column in
            ([Row.head] + rows).map { $0.cells[column].count }.max() ?? 0
        }
        var lines = [line(Row.head, widths)]
        var group: String?
        for (figure, row) in zip(figures, rows) {
            if figure.group != group { lines += ["", figure.group] }
            group = figure.group
            lines.append(line(row, widths))
        }
        return lines.joined(separator: "\n") + "\n"
    }

    private struct Row {
        /// Name, value, baseline, ratio, the baseline's name.
        let cells: [String]

        static let head = Row(cells: ["", "measured", "baseline", "ratio", "baseline is"])

        init(cells: [String]) { self.cells = cells }

        init(_ figure: Figure) {
            func amount(_ value: Double) -> String {
                let unit = figure.unit.rawValue
                return NumberText.text(value) + (unit.isEmpty ? "" : " \(unit)")
            }
            cells = [
                "  " + figure.name, amount(figure.value), figure.baseline.map { amount($0.value) } ?? "-",
                figure.ratio.map { NumberText.text($0, decimals: 2) } ?? "-", figure.baseline?.name ?? "",
            ]
        }
    }

    private func line(_ row: Row, _ widths: [Int]) -> String {
        var line = row.cells[0] + padding(row.cells[0], widths[0])
        for column in 1..<4 { line += "  " + padding(row.cells[column], widths[column]) + row.cells[column] }
        return row.cells[4].isEmpty ? line : "\(line)  \(row.cells[4])"
    }

    private func padding(_ text: String, _ width: Int) -> String {
        String(repeating: " ", count: max(width - text.count, 0))
    }
}
