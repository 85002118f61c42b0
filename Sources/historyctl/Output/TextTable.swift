import HistoryBase
import HistoryConfiguration

/// Rows in aligned columns, for readers.
///
/// Rows are written in blocks, so that a long table needs only the memory of one block. A later block may widen
/// a column, but never narrows it.
///
/// On a terminal, the last column gets the rest of the window. If it holds problems, text that is cut there is
/// written in full below the table. A table with firm columns fits into the window: columns without content are left
/// out, then spare ones, and the widest of the others are cut.
struct TextTable {
    private let titles: [String]
    private var widths: [Int]
    private var isTitled = false
    /// The width of the terminal's window; nil if nothing is cut.
    private let columns: Int?
    /// The columns that identify a row; nil if cut text is not kept.
    private let names: [Int]?
    /// The columns that are never cut; nil if the table may be wider than the window.
    private let firm: Set<Int>?
    /// The columns to leave out if all of them would get too narrow, the least important first.
    private let spare: [Int]
    /// The columns with content so far.
    private var filled: Set<Int> = []
    /// The columns that are shown, and their widths.
    private var shown: [Int]
    private var cut: [(name: String, text: String)] = []

    /// The longest cell of the other columns.
    private static let longest = 50
    /// The minimum width of the last column.
    private static let shortest = 20

    /// The smallest width of a column that is cut, and the smallest one as long as others can be left out.
    private static let narrowest = 4
    private static let readable = 12

    init(
        _ titles: [String], names: [Int]? = nil, firm: Set<Int>? = nil, spare: [Int] = [],
        columns: Int? = StandardOutput.columns
    ) {
        (self.titles, self.names, self.columns) = (titles, names, columns)
        self.firm = columns == nil ? nil : firm
        self.spare = spare
        widths = titles.map(\.width)
        shown = Array(titles.indices)
    }

    mutating func write(_ rows: [[String]], to output: inout StandardOutput) throws(StreamError) {
        var rows = rows.map { $0.map(Self.printable) }
        if firm != nil {
            rows = rows.map { $0 + [String](repeating: "", count: max(0, titles.count - $0.count)) }
        }
        if columns != nil {
            rows = rows.map { row in row.dropLast().map { $0.cut(toWidth: Self.longest) } + row.suffix(1) }
        }
        for row in rows {
            for (column, cell) in row.dropLast().enumerated() {
                widths[column] = max(widths[column], cell.width)
            }
        }
        var widths = widths
        if let firm, let columns {
            widths = fit(rows, into: columns, firm)
            rows = rows.map { row in shown.map { row[$0].cut(toWidth: $0 == shown.last ? .max : widths[$0]) } }
            widths = shown.map { widths[$0] }
        }
        if !isTitled {
            try output.writeLine(
                line(zip(shown.map { titles[$0] }, widths).map { $0.cut(toWidth: $1) }, widths))
        }
        isTitled = true
        for row in rows { try output.writeLine(line(fitted(row, widths), widths)) }
    }

    /// Chooses the columns to show, and their widths. If other columns are shown than before, the titles are written
    /// again.
    private mutating func fit(_ rows: [[String]], into window: Int, _ firm: Set<Int>) -> [Int] {
        for row in rows { filled.formUnion(row.indices.filter { !row[$0].isEmpty }) }
        var visible = titles.indices.filter { filled.contains($0) || firm.contains($0) }
        var widths = widths
        // The last column needs no more than its content.
        if let last = visible.last {
            let content = rows.map { $0[last].width }.max() ?? 0
            widths[last] = min(max(widths[last], content), Self.shortest)
        }
        func width(softAtMost most: Int) -> Int {
            visible.reduce(-2) { $0 + 2 + (firm.contains($1) ? widths[$1] : min(widths[$1], most)) }
        }
        for column in spare where width(softAtMost: Self.readable) > window {
            visible.removeAll { $0 == column }
        }
        if visible != shown { (shown, isTitled) = (visible, false) }
        let soft = visible.dropLast().filter { !firm.contains($0) }
        while width(softAtMost: .max) > window, let widest = soft.max(by: { widths[$0] < widths[$1] }),
            widths[widest] > Self.narrowest
        {
            widths[widest] -= 1
        }
        return widths
    }

    /// Writes what was cut in the last column.
    mutating func writeCut(to output: inout StandardOutput) throws(StreamError) {
        for (name, text) in cut { try output.writeLine("\n\(name): \(text)") }
        cut = []
    }

    /// The row, with its last cell cut to the window.
    private mutating func fitted(_ row: [String], _ widths: [Int]) -> [String] {
        guard let columns, let last = row.last else { return row }
        let room = columns - widths.dropLast().reduce(0) { $0 + $1 + 2 }
        let least = firm != nil ? Self.narrowest : names == nil ? Self.longest : Self.shortest
        let shown = last.cut(toWidth: max(least, room))
        if shown != last, let names {
            cut.append((names.filter(row.indices.contains).map { row[$0] }.joined(separator: "/"), last))
        }
        return row.dropLast() + [shown]
    }

    private func line(_ cells: [String], _ widths: [Int]) -> String {
        var line = ""
        var blanks = 0
        for (cell, width) in zip(cells, widths) {
            if !cell.isEmpty {
                line += String(repeating: " ", count: blanks) + cell
                blanks = 0
            }
            blanks += max(0, width - cell.width) + 2
        }
        return line
    }

    /// Nearly all cells consist of characters that need no escaping.
    private static func printable(_ cell: String) -> String {
        cell.utf8.allSatisfy { (0x20...0x7e).contains($0) } ? cell : cell.printable
    }
}

extension String {
    /// A token in a context where its store is known: at a terminal, only the number.
    var tokenNumber: String {
        guard StandardOutput.isTerminal, let number = split(separator: ":").last else { return self }
        return String(number)
    }
}
