import HistoryBase
import HistoryConfiguration

/// Rows in aligned columns, for readers.
///
/// Rows are written in blocks, so that a long table needs only the memory of one block. A later block may widen
/// a column, but never narrows it.
///
/// On a terminal, the last column gets the rest of the window. If it holds problems, text that is cut there is
/// written in full below the table. Other tables are fitted into the window: their widest columns are cut.
struct TextTable {
    private let titles: [String]
    private var widths: [Int]
    private var isTitled = false
    /// The width of the terminal's window; nil if nothing is cut.
    private let columns: Int?
    /// The columns that identify a row; nil if cut text is not kept.
    private let names: [Int]?
    /// The titles of columns that are not fitted: a part of a time, or of an object's id, is of no use.
    private let whole: Set<String>
    private var cut: [(name: String, text: String)] = []

    /// The longest cell of the other columns.
    private static let longest = 50
    /// The minimum width of the last column, and of others that are cut.
    private static let shortest = 20
    private static let shortestOther = 10

    init(
        _ titles: [String], names: [Int]? = nil, whole: Set<String> = [], columns: Int? = StandardOutput.columns
    ) {
        (self.titles, self.names, self.whole, self.columns) = (titles, names, whole, columns)
        widths = titles.map(\.width)
    }

    mutating func write(_ rows: [[String]], to output: inout StandardOutput) throws(StreamError) {
        var rows = rows.map { $0.map(Self.printable) }
        var needed = widths
        for row in rows {
            for (column, cell) in row.dropLast().enumerated() {
                needed[column] = max(needed[column], cell.width)
            }
        }
        if columns != nil {
            let most = limits(for: needed)
            widths = widths.indices.map { max(widths[$0], min(needed[$0], most[$0])) }
            rows = rows.map { row in
                row.dropLast().enumerated().map { $1.cut(toWidth: max(widths[$0], most[$0])) } + row.suffix(1)
            }
        } else {
            widths = needed
        }
        if !isTitled { try output.writeLine(line(titles)) }
        isTitled = true
        for row in rows { try output.writeLine(line(fitted(row))) }
    }

    /// How wide each column but the last may be.
    private func limits(for needed: [Int]) -> [Int] {
        func limits(_ most: Int) -> [Int] { titles.map { whole.contains($0) ? Self.longest : most } }
        guard let columns, names == nil else { return limits(Self.longest) }
        let fitting = (Self.shortestOther...Self.longest).last { most in
            zip(needed, limits(most)).dropLast().reduce(Self.shortest) { $0 + min($1.0, $1.1) + 2 } <= columns
        }
        return limits(fitting ?? Self.shortestOther)
    }

    /// Writes what was cut in the last column.
    mutating func writeCut(to output: inout StandardOutput) throws(StreamError) {
        for (name, text) in cut { try output.writeLine("\n\(name): \(text)") }
        cut = []
    }

    /// The row, with its last cell cut to the window.
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
