/// How an update states which columns changed: one bit for each column in an integer, or for a wide table
/// in several integers separated by commas.
enum ChangedColumns {
    /// Columns that fit into the bits of an integer.
    static let mostBits = 62

    /// The positions of the changed columns, in table order.
    static func positions(_ detail: HistoryValue) -> [Int] {
        switch detail {
        case .integer(let bits): return positions(bits)
        case .text(let text):
            return text.utf8.split(separator: UInt8(ascii: ",")).enumerated().flatMap { group, digits in
                positions(Int64(String(decoding: digits, as: UTF8.self)) ?? 0).map { group * mostBits + $0 }
            }
        case .null, .real, .invalidText, .blob: return []
        }
    }

    private static func positions(_ bits: Int64) -> [Int] { (0..<mostBits).filter { bits >> $0 & 1 == 1 } }
}

extension TriggerWriter {
    /// The columns of the key; empty if the rowid identifies rows.
    var keyColumns: [String] { entity.key.columns }

    /// The names through which a statement can set a new key; nil if it may use any.
    var keyNames: [String]? {
        let isRowid = table.keyIsRowid || keyColumns.isEmpty || table.keyMayBeNull
        return isRowid ? rowidNames.map { keyColumns + $0 } : keyColumns
    }

    /// The names through which a statement can set the rowid, if none is a column's; nil if one is. Such
    /// a column may be renamed at any time, and its name would then mean the rowid.
    var rowidNames: [String]? {
        let names = ["rowid", "_rowid_", "oid"]
        guard table.rowid != nil else { return [] }
        return table.columns.contains { names.contains(SQLText.folded($0.name)) } ? nil : names
    }

    var sameKey: String {
        guard !keyColumns.isEmpty else { return "(\(rowid("OLD")) = \(rowid("NEW")))" }
        let same = keyColumns.map { name in "NOT \(differs(name))" }
        // The rowid identifies a row whose key contains a null.
        let sameRow = table.keyMayBeNull ? same + ["\(rowid("OLD")) = \(rowid("NEW"))"] : same
        return "(" + sameRow.joined(separator: " AND ") + ")"
    }

    /// An exact comparison. The column's own may not be: with `COLLATE NOCASE`, 'a' equals 'A'.
    func differs(_ name: String) -> String {
        let (old, new) = (old(name), new(name))
        let values = "\(old) IS NOT \(new) COLLATE BINARY"
        // Of equal values only numbers, which sort before all text, can differ in type.
        return columnsThatKeepStorageClass.contains(name)
            ? "(\(values) OR (\(old) < '' COLLATE BINARY AND typeof(\(old)) <> typeof(\(new))))" : "(\(values))"
    }

    /// The condition for an update that changes something: one that does not is not recorded.
    var somethingChanged: String {
        let known = compared.map { differs($0.name) }
        return "(" + (known.isEmpty ? "" : SQLText.balanced(known, "OR") + " OR ") + isAltered + ")"
    }

    /// Whether a column may have been added after the triggers. It cannot be compared, and its changes
    /// must not be lost.
    private var isAltered: String {
        "(SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = \(SQLText.literal(table.name))) IS NOT \(SQLText.literal(table.sql))"
    }

    /// Whether computing the bits first, and then testing them, is cheaper than comparing twice.
    var isWide: Bool { compared.count > 16 }

    /// The bits of the changed columns as `detail`, if any.
    var changesOfWideTable: (from: String, condition: String) {
        let groups = (table.columns.count - 1) / ChangedColumns.mostBits + 1
        let none = Array(repeating: "0", count: groups).joined(separator: ",")
        return (
            "(SELECT \(changedColumns) AS detail)",
            "(detail IS NOT \(groups > 1 ? SQLText.literal(none) : none) OR \(isAltered))"
        )
    }

    var changedColumns: String {
        let compared = compared
        let groups = stride(from: 0, to: table.columns.count, by: ChangedColumns.mostBits).map { first in
            bits(of: compared.filter { first..<first + ChangedColumns.mostBits ~= $0.position }, from: first)
        }
        // A chain of as many terms as a table can have columns would exceed SQLite's limit on expression
        // depth.
        return SQLText.balanced(groups.enumerated().flatMap { $0 == 0 ? [$1] : ["','", $1] }, "||")
    }

    /// A bit for each changed column. Most updates of a wide table change few columns, and comparing is
    /// the cheaper half, so bits are computed only for a part in which a column changed.
    private func bits(of columns: [(position: Int, name: String)], from first: Int) -> String {
        let isWide = isWide
        let parts = stride(from: 0, to: columns.count, by: 16).map { columns[$0..<min($0 + 16, columns.count)] }
        let bits = parts.map { part in
            let bits = SQLText.balanced(
                part.map { "CASE WHEN \(differs($0.name)) THEN \(1 << ($0.position - first)) ELSE 0 END" }
                    .map { "(\($0))" }, "|")
            guard isWide else { return bits }
            return
                "(CASE WHEN \(SQLText.balanced(part.map { differs($0.name) }, "OR")) THEN \(bits) ELSE 0 END)"
        }
        return bits.isEmpty ? "0" : SQLText.balanced(bits, "|")
    }

    /// All columns except those of the key: a changed key makes another row. (The rowid identifies a
    /// known row with a null in its key.)
    private var compared: [(position: Int, name: String)] {
        let key = keepsKnownRows && table.keyMayBeNull ? [] : Set<BinaryText>(names: keyColumns)
        return table.columns.enumerated().map { ($0, $1.name) }.filter { !key.contains($0.1) }
    }
}
