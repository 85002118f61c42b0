import PersistentHistory

/// Tables of all kinds: keys, types, constraints, conflict clauses, foreign keys, names.
struct SchemaGenerator {
    var dice: Dice
    private(set) var tables: [TableModel] = []

    private static let tableNames = [
        "t", "u", "order", "a \"b\" c", "it's", "été", "new", "old", "[x]", "select", "change", "c", "historyd",
        "main", "with-dash", "100", "表", "e\u{301}te\u{301}",
    ]
    private static let columnNames = [
        "id", "a", "b", "c", "new", "old", "rowid", "order", "x y", "q\"t", "é", "select", "it's", "_rowid_",
        "e\u{301}",
        "historyd_x", "kind", "object", "detail", "origin", "shape", "rival", "name", "sql", "excluded", "k0",
    ]
    private static let types = ["INTEGER", "TEXT", "BLOB", "REAL", "NUMERIC", "", "VARCHAR(10)", "INT", "DATE"]
    private static let strictTypes = ["INTEGER", "INT", "TEXT", "BLOB", "REAL", "ANY"]

    init(_ dice: Dice) { self.dice = dice }

    mutating func schema() -> [SQL] {
        let count = dice.number(1...3)
        let names = dice.shuffled(Self.tableNames).prefix(count)
        return names.map { table($0) }
    }

    private mutating func table(_ name: String) -> SQL {
        var table = TableModel(name: name)
        let isStrict = dice.once(in: 6)
        table.isStrict = isStrict
        let isWide = dice.once(in: 40)
        table.isContentious = !isWide && dice.once(in: 4)
        let count = isWide ? dice.number(60...200) : dice.number(1...5)
        var names = dice.shuffled(Self.columnNames)
        if isWide { names += (0..<200).map { "c\($0)" } }
        var parts: [String] = []
        for position in 0..<count {
            let type = dice.one(of: isStrict ? Self.strictTypes : Self.types)
            let isGenerated = position > 0 && dice.once(in: 10)
            table.columns.append(
                .init(
                    name: names[position], type: type, isGenerated: isGenerated,
                    isPicky: isStrict && type != "ANY"))
        }
        let inline = chooseKey(&table, isStrict: isStrict)
        for (position, column) in table.columns.enumerated() {
            parts.append(
                column.isGenerated
                    ? generated(column, of: table)
                    : definition(column, key: position == 0 ? inline : nil, of: &table, isWide: isWide))
        }
        if inline == nil, !table.primaryKey.isEmpty {
            let key = table.primaryKey.map { SQL.quoted($0) + (dice.once(in: 6) ? " DESC" : "") }
            parts.append("PRIMARY KEY (\(key.joined(separator: ", ")))\(onConflict(&table, table.primaryKey))")
        }
        if dice.once(in: table.isContentious ? 2 : 3), table.columns.count > 1 {
            let columns = dice.some(of: table.columns.map(\.name))
            let rule = onConflict(&table, columns)
            parts.append("UNIQUE (\(columns.map(SQL.quoted).joined(separator: ", ")))\(rule)")
            table.uniques.append(columns)
        }
        if dice.once(in: 3) { parts += foreignKey(of: &table) }
        tables.append(table)
        let options = [table.isWithoutRowid ? "WITHOUT ROWID" : nil, isStrict ? "STRICT" : nil].compactMap {
            $0
        }
        return SQL("CREATE TABLE \(table.quoted) (", list: parts, tail: ") " + options.joined(separator: ", "))
    }

    /// Decides on the key, and gives what stands at the first column if it stands there.
    private mutating func chooseKey(_ table: inout TableModel, isStrict: Bool) -> String? {
        let first = table.columns[0]
        func integer() -> TableModel.Column {
            .init(name: first.name, type: "INTEGER", isGenerated: false, isPicky: true)
        }
        let plain = table.writable.map(\.name)
        switch dice.number(0...10) {
        case 0...2:
            table.columns[0] = integer()
            table.primaryKey = [first.name]
            return "PRIMARY KEY" + (dice.once(in: 6) ? " DESC" : "") + onConflict(&table, table.primaryKey)
                + (dice.once(in: 5) ? " AUTOINCREMENT" : "")
        case 3:
            table.columns[0] = integer()
            table.primaryKey = [first.name]
            return nil
        case 4, 5:
            table.primaryKey = [first.name]
            table.isWithoutRowid = dice.once(in: 2)
            return "PRIMARY KEY" + onConflict(&table, table.primaryKey) + (dice.once(in: 2) ? " NOT NULL" : "")
        case 6, 7:
            table.primaryKey = dice.shuffled(plain.count > 1 ? dice.some(of: plain) : plain)
            return nil
        case 8:
            table.primaryKey = dice.shuffled(plain.count > 1 ? dice.some(of: plain) : plain)
            table.isWithoutRowid = true
            return nil
        default: return nil
        }
    }

    /// What is to be done where rows conflict; of a key with these columns, if it is one.
    private mutating func onConflict(_ table: inout TableModel, _ key: [String] = []) -> String {
        guard table.isContentious ? !dice.once(in: 4) : dice.once(in: 5) else { return "" }
        let rule = dice.one(of: ["REPLACE", "REPLACE", "IGNORE", "FAIL", "ROLLBACK"])
        if key.count == 1, key.haveSameBytes(as: table.primaryKey), table.affinity(of: key[0]) == "INTEGER",
            !table.isWithoutRowid
        {
            table.replacesByRowid = rule == "REPLACE"
        }
        if !key.isEmpty, ["IGNORE", "FAIL"].contains(rule) { table.sparesRows = true }
        return " ON CONFLICT " + rule
    }

    private mutating func definition(
        _ column: TableModel.Column, key: String?, of table: inout TableModel, isWide: Bool
    ) -> String {
        var text = "\(column.quoted) \(column.type)"
        if let key { text += " " + key }
        if isWide, key == nil { return text }
        if key == nil, dice.once(in: 5) { text += " NOT NULL" + onConflict(&table) }
        if dice.once(in: 4) { text += " DEFAULT " + defaultValue(column) }
        if dice.once(in: 6) { text += " COLLATE " + dice.one(of: ["NOCASE", "RTRIM", "BINARY"]) }
        if key == nil, dice.once(in: table.isContentious ? 2 : 6) {
            text += " UNIQUE" + onConflict(&table, [column.name])
            table.uniques.append([column.name])
        }
        if dice.once(in: 12) { text += " CHECK (\(column.quoted) IS NOT 3)" }
        return text
    }

    /// Also one that is computed, in whatever quotes, with comments.
    private mutating func defaultValue(_ column: TableModel.Column) -> String {
        let value = Values.literal(column, &dice)
        if column.isPicky || dice.once(in: 2) { return "(\(SQL.comment(&dice))\(value)\(SQL.comment(&dice)))" }
        return dice.one(of: [
            "a", "[a]", "`a`", "\"a\"", "'it''s' /* ' */", "(lower('A') /* , */)", "(length('a)') -- )\n)",
            "(1 + /* one */ 1)", "-1", "+ 2", "x'61'", "TRUE", "\"a b\"\"c\"",
        ])
    }

    private mutating func generated(_ column: TableModel.Column, of table: TableModel) -> String {
        let operand = SQL.quoted(dice.once(in: 3) ? table.columns[0].name : dice.one(of: table.writable).name)
        let formula = dice.one(of: [
            "\(operand) || 'x'", "abs(\(operand))", "\(operand) + 1", "typeof(\(operand))",
        ])
        let kind = dice.one(of: ["VIRTUAL", "STORED"])
        let unique = dice.once(in: 4) ? " UNIQUE" : ""
        return "\(column.quoted) \(column.type) AS (\(formula)) \(kind)\(unique)"
    }

    /// Points to an earlier table, or to its own: what cascades goes one way only.
    private mutating func foreignKey(of table: inout TableModel) -> [String] {
        // In a foreign key's action such a table is the row before or after the change: then all its rows
        // refer to each other.
        let parents = tables + (["new", "old"].contains(table.name) ? [] : [table])
        guard !parents.isEmpty else { return [] }
        let parent = dice.one(of: parents)
        let key = parent.primaryKey.isEmpty ? parent.uniques.first ?? [] : parent.primaryKey
        let own = table.writable.map(\.name)
        guard !key.isEmpty, key.count <= own.count else { return [] }
        let columns = Array(dice.shuffled(own).prefix(key.count))
        table.references.append(columns)
        table.refersToItself = table.refersToItself || parent.name.hasSameBytes(as: table.name)
        let actions = ["CASCADE", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"]
        let deferred = dice.once(in: 4) ? " DEFERRABLE INITIALLY DEFERRED" : ""
        return [
            "FOREIGN KEY (\(columns.map(SQL.quoted).joined(separator: ", "))) REFERENCES \(parent.quoted) (\(key.map(SQL.quoted).joined(separator: ", ")))"
                + " ON DELETE \(dice.one(of: actions)) ON UPDATE \(dice.one(of: actions))\(deferred)"
        ]
    }
}
