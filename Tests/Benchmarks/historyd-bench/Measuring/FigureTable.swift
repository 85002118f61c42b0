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

/// Rows of text in columns: the first and the last to the left, numbers between them to the right.
struct AlignedText {
    enum Row {
        case cells([String])
        /// A line of its own, which does not widen the columns.
        case heading(String)
    }

    private let columns: Int
    private var rows: [Row] = []

    init(head: [String]) {
        columns = head.count
        rows.append(.cells(head))
    }

    mutating func add(_ row: Row) { rows.append(row) }

    var text: String {
        var widths = [Int](repeating: 0, count: columns)
        for case .cells(let cells) in rows {
            for (index, cell) in cells.enumerated() { widths[index] = max(widths[index], cell.count) }
        }
        return rows.map { line($0, widths) + "\n" }.joined()
    }

    private func line(_ row: Row, _ widths: [Int]) -> String {
        guard case .cells(let cells) = row else {
            if case .heading(let text) = row { return "\n\(text)" }
            return ""
        }
        var line = cells.enumerated().map { index, cell in
            let padding = String(repeating: " ", count: widths[index] - cell.count)
            return index == 0 || index == columns - 1 ? cell + padding : padding + cell
        }.joined(separator: "  ")
        while line.last == " " { line.removeLast() }
        return line
    }
}

/// Numbers for people: three significant digits, with commas between thousands.
enum NumberText {
    static func text(_ value: Double) -> String {
        let size = abs(value)
        let decimals = size == size.rounded() || size >= 100 ? 0 : size >= 10 ? 1 : 2
        return text(value, decimals: decimals)
    }

    static func text(_ value: Double, decimals: Int) -> String {
        var scale = 1
        for _ in 0..<decimals { scale *= 10 }
        let scaled = Int((abs(value) * Double(scale)).rounded())
        let sign = value < 0 && scaled > 0 ? "-" : ""
        let whole = sign + grouped(scaled / scale)
        guard decimals > 0 else { return whole }
        let fraction = String(scaled % scale)
        return "\(whole).\(String(repeating: "0", count: decimals - fraction.count))\(fraction)"
    }

    private static func grouped(_ number: Int) -> String {
        let digits = String(number)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text += "," }
            text.append(digit)
        }
        return text
    }
}
