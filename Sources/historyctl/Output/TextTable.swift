import HistoryConfiguration

/// Rows in aligned columns, for people.
///
/// Rows come in blocks, so that a long table needs no more memory than one of them: a later block
/// may widen a column, and does not narrow it.
///
/// On a terminal, the last column gets what the others leave of the window. Where it has the problems, what is cut there
/// is written below the table, whole.
struct TextTable {
    private let titles: [String]
    private var widths: [Int]
    private var isTitled = false
    /// Of the terminal's window; nil if nothing is cut.
    private let columns: Int?
    /// The columns that say which row it is; nil where nothing is kept of what is cut.
    private let names: [Int]?
    private var cut: [(name: String, text: String)] = []

    /// The longest cell of another column.
    private static let longest = 50
    /// What the last column has at least.
    private static let shortest = 20

    init(_ titles: [String], names: [Int]? = nil, columns: Int? = StandardOutput.columns) {
        (self.titles, self.names, self.columns) = (titles, names, columns)
        widths = titles.map(\.width)
    }

    mutating func write(_ rows: [[String]], to output: inout StandardOutput) throws(StreamError) {
        var rows = rows.map { $0.map(Self.printable) }
        if columns != nil {
            rows = rows.map { row in row.dropLast().map { $0.cut(toWidth: Self.longest) } + row.suffix(1) }
        }
        for row in rows {
            for (column, cell) in row.dropLast().enumerated() {
                widths[column] = max(widths[column], cell.width)
            }
        }
        if !isTitled { try output.writeLine(line(titles)) }
        isTitled = true
        for row in rows { try output.writeLine(line(fitted(row))) }
    }

    /// Writes what was cut in the last column.
    mutating func writeCut(to output: inout StandardOutput) throws(StreamError) {
        for (name, text) in cut { try output.writeLine("\n\(name): \(text)") }
        cut = []
    }

    /// The row with as much of its last cell as the window has room for.
    private mutating func fitted(_ row: [String]) -> [String] {
        guard let columns, let last = row.last else { return row }
        let room = columns - widths.dropLast().reduce(0) { $0 + $1 + 2 }
        let shown = last.cut(toWidth: max(names == nil ? Self.longest : Self.shortest, room))
        if shown != last, let names {
            cut.append((names.filter(row.indices.contains).map { row[$0] }.joined(separator: "/"), last))
        }
        return row.dropLast() + [shown]
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

    /// Nearly all are of characters that need nothing.
    private static func printable(_ cell: String) -> String {
        cell.utf8.allSatisfy { (0x20...0x7e).contains($0) } ? cell : cell.printable
    }
}

extension String {
    /// A token where its store is known: to people, the number alone.
    var tokenNumber: String {
        guard StandardOutput.isTerminal, let number = split(separator: ":").last else { return self }
        return String(number)
    }
}
