/// How an update says which columns changed: a bit for each, in an integer; for a wide table in
/// several integers, with commas between them.
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
    /// The columns of the key; empty if the rowid is all a row is known by.
    var keyColumns: [String] { entity.key.columns }

    /// The names by which a statement can set a new key; nil if it may use any.
    var keyNames: [String]? {
        let isRowid = table.keyIsRowid || keyColumns.isEmpty || table.keyMayBeNull
        return isRowid ? rowidNames.map { keyColumns + $0 } : keyColumns
    }

    /// The names by which a statement can set the rowid, none of which need be a column's; nil if one
    /// is, which may be renamed at any time, and set the rowid free.
    var rowidNames: [String]? {
        let names = ["rowid", "_rowid_", "oid"]
        guard table.rowid != nil else { return [] }
        return table.columns.contains { names.contains(SQLText.folded($0.name)) } ? nil : names
    }

    var sameKey: String {
        guard !keyColumns.isEmpty else { return "(\(rowid("OLD")) = \(rowid("NEW")))" }
        let same = keyColumns.map { name in "NOT \(differs(name))" }
        // A row whose key has a null in it is known by its rowid.
        let sameRow = table.keyMayBeNull ? same + ["\(rowid("OLD")) = \(rowid("NEW"))"] : same
        return "(" + sameRow.joined(separator: " AND ") + ")"
    }

    /// Exact, where the column's own comparison may not be: `COLLATE NOCASE` says 'a' is 'A'.
    func differs(_ name: String) -> String {
        let (old, new) = (old(name), new(name))
        let values = "\(old) IS NOT \(new) COLLATE BINARY"
        // Of equal values only numbers, which come before all text, can be of two types.
        return columnsThatKeepStorageClass.contains(name)
            ? "(\(values) OR (\(old) < '' COLLATE BINARY AND typeof(\(old)) <> typeof(\(new))))" : "(\(values))"
    }

    /// A statement that changes nothing is no change.
    var somethingChanged: String {
        let known = compared.map { differs($0.name) }
        return "(" + (known.isEmpty ? "" : SQLText.balanced(known, "OR") + " OR ") + isAltered + ")"
    }

    /// Whether a column may have come after the triggers: it cannot be compared, and its changes must not be lost.
    private var isAltered: String {
        "(SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = \(SQLText.literal(table.name))) IS NOT \(SQLText.literal(table.sql))"
    }

    /// Whether making the bits first, and then asking whether there are any, is cheaper than comparing twice.
    var isWide: Bool { compared.count > 16 }

    /// The bits of the changed columns as `detail`, if there are any.
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
        // A chain of as many as a table can have would be deeper than SQLite's limits allow.
        return SQLText.balanced(groups.enumerated().flatMap { $0 == 0 ? [$1] : ["','", $1] }, "||")
    }

    /// A bit for each column that changed. Most updates of a wide table change few columns: comparing is
    /// the cheaper half, so that of a part where none changed no bits are made.
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

    /// All columns but those of the key: where that changes, it is another row. (A known row with a null in its
    /// key is known by its rowid.)
    private var compared: [(position: Int, name: String)] {
        let key = keepsKnownRows && table.keyMayBeNull ? [] : Set<BinaryText>(names: keyColumns)
        return table.columns.enumerated().map { ($0, $1.name) }.filter { !key.contains($0.1) }
    }
}
