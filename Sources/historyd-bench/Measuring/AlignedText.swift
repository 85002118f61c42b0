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
