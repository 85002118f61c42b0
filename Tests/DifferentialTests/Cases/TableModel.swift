import PersistentHistory

/// What the generators know of a table that they made.
struct TableModel {
    struct Column {
        var name: String
        let type: String
        let isGenerated: Bool
        /// Whether a value of another type is an error. SQLite does not take back what a statement
        /// did before such an error, but with triggers it does: these cases end there.
        let isPicky: Bool

        var quoted: String { SQL.quoted(name) }
    }

    var name: String
    var columns: [Column] = []
    var primaryKey: [String] = []
    var isWithoutRowid = false
    var isStrict = false
    /// Lists of columns that are unique together, as UPSERT and foreign keys may name them.
    var uniques: [[String]] = []
    /// Whether most of its keys say what is to be done in a conflict.
    var isContentious = false
    /// Whether a row in the way of the rowid is replaced, and one in the way of another key is not.
    var replacesByRowidAlone: Bool { replacesByRowid && sparesRows }
    var replacesByRowid = false
    var sparesRows = false

    /// Whether a foreign key leads from it to itself.
    var refersToItself = false
    /// Columns of its own that refer to others.
    var references: [[String]] = []

    var quoted: String { SQL.quoted(name) }
    var writable: [Column] { columns.filter { !$0.isGenerated } }

    mutating func rename(_ column: String, to name: String) {
        for index in columns.indices where columns[index].name.hasSameBytes(as: column) {
            columns[index].name = name
        }
        primaryKey = primaryKey.map { $0.hasSameBytes(as: column) ? name : $0 }
        uniques = uniques.map { $0.map { $0.hasSameBytes(as: column) ? name : $0 } }
        references = references.map { $0.map { $0.hasSameBytes(as: column) ? name : $0 } }
    }

    /// How a column converts what it is given (https://www.sqlite.org/datatype3.html).
    func affinity(of name: String) -> String {
        let type = columns.first { $0.name.hasSameBytes(as: name) }?.type ?? ""
        if type.contains("INT") { return "INTEGER" }
        if type.contains("CHAR") || type == "TEXT" { return "TEXT" }
        if ["", "BLOB", "ANY"].contains(type) { return "BLOB" }
        return type == "REAL" ? "REAL" : "NUMERIC"
    }

    func isPicky(_ name: String) -> Bool { columns.first { $0.name.hasSameBytes(as: name) }?.isPicky ?? true }

    /// The name that reaches the rowid, if any does.
    var rowid: String? {
        isWithoutRowid
            ? nil
            : ["rowid", "oid", "_rowid_"].first { name in !columns.contains { $0.name.lowercased() == name } }
    }
}

/// Values, few enough to meet each other often. The greatest integer is none of them: behind it SQLite gives
/// rows random numbers.
enum Values {
    static let any = [
        "NULL", "0", "1", "2", "3", "4", "-1", "'a'", "'A'", "'b'", "'é'", "'e\u{301}'", "''", "x''", "x'61'",
        "1.0", "2.5",
        "-0.5", "9e99", "'1'", "'1.0'", "' 2'", "9007199254740993", "9e999", "'a'||char(0)||'b'", "'日本'",
        "-0.0", "'007'", "'4'", "-9223372036854775808", "-9223372036854775807", "CAST(x'e9' AS TEXT)",
        "CAST(x'61ff' AS TEXT)", "'{\"a\":1}'", "'{\"a\":\"b\"}'", "'{\"a\":'",
    ]

    static func literal(_ column: TableModel.Column, _ dice: inout Dice) -> String {
        if dice.once(in: column.isPicky ? 80 : 6) { return dice.one(of: any) }
        if column.isPicky, dice.once(in: 12) { return "NULL" }
        let word = column.type.uppercased()
        if word.contains("INT") { return String(dice.number(0...5)) }
        if word.contains("TEXT") || word.contains("CHAR") {
            return dice.one(of: ["'a'", "'A'", "'b'", "'c'", "'é'", "'e\u{301}'", "''", "'1'", "'01'"])
        }
        if word.contains("BLOB") { return dice.one(of: ["x''", "x'61'", "x'6100'", "x'62'"]) }
        if word.contains("REAL") { return dice.one(of: ["1.0", "2.5", "0.1", "-3.0", "1e300"]) }
        return dice.one(of: any)
    }
}
