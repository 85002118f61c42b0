import HistoryConfiguration

/// Rows in aligned columns, for people.
///
/// Rows come in blocks, so that a long table needs no more memory than one of them: a later block
/// may widen a column, and does not narrow it.
struct TextTable {
    private let titles: [String]
    private var widths: [Int]
    private var isTitled = false
    /// The width of the longest cell that is shown whole; nil if nothing is cut.
    private let limit: Int?

    init(_ titles: [String], limit: Int? = StandardOutput.isTerminal ? 50 : nil) {
        self.titles = titles
        self.limit = limit
        widths = titles.map(\.width)
    }

    mutating func write(_ rows: [[String]], to output: inout StandardOutput) throws(StreamError) {
        let rows = rows.map { $0.map { shown($0) } }
        for row in rows {
            for (column, cell) in row.enumerated() { widths[column] = max(widths[column], cell.width) }
        }
        if !isTitled { try output.writeLine(line(titles)) }
        isTitled = true
        for row in rows { try output.writeLine(line(row)) }
    }

    private func line(_ cells: [String]) -> String {
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

    private func shown(_ cell: String) -> String {
        // Nearly all are of characters that need nothing.
        let cell = cell.utf8.allSatisfy { (0x20...0x7e).contains($0) } ? cell : cell.printable
        return limit.map { cell.cut(toWidth: $0) } ?? cell
    }
}
