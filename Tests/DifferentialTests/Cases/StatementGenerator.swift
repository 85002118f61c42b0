import PersistentHistory

/// Statements that change rows, in all forms that SQL has for it.
struct StatementGenerator {
    var dice: Dice
    var tables: [TableModel]

    mutating func statement() -> SQL {
        let table = dice.one(of: tables)
        if table.isContentious, dice.once(in: 3) { return upsert(into: table) }
        switch dice.number(0...19) {
        case 0...6: return insert(into: table)
        case 7...8: return upsert(into: table)
        case 9...13: return update(table)
        case 14: return rekey(table)
        case 15: return insertSelect(into: table)
        case 16: return updateFrom(table)
        case 17...18: return delete(from: table)
        default: return SQL("INSERT \(or)INTO \(table.quoted) DEFAULT VALUES", tail: returning)
        }
    }

    private var or: String {
        mutating get {
            dice.one(of: [
                "", "", "", "OR REPLACE ", "OR REPLACE ", "OR IGNORE ", "OR FAIL ", "OR ABORT ", "OR ROLLBACK ",
            ])
        }
    }

    private var returning: String { mutating get { dice.once(in: 6) ? " RETURNING *" : "" } }

    private mutating func columns(of table: TableModel) -> [TableModel.Column] {
        dice.once(in: 4) ? dice.some(of: table.writable) : table.writable
    }

    private mutating func rows(_ columns: [TableModel.Column]) -> [String] {
        (0...(dice.once(in: 2) ? 0 : dice.number(0...4))).map { _ in
            "(" + columns.map { Values.literal($0, &dice) }.joined(separator: ", ") + ")"
        }
    }

    private func list(_ columns: [TableModel.Column]) -> String {
        columns.map(\.quoted).joined(separator: ", ")
    }

    private mutating func insert(into table: TableModel) -> SQL {
        let columns = columns(of: table)
        let verb = dice.once(in: 8) ? "REPLACE " : "INSERT \(or)"
        return SQL(
            "\(verb)INTO \(table.quoted) (\(list(columns))) VALUES ", list: rows(columns), tail: returning)
    }

    private mutating func upsert(into table: TableModel) -> SQL {
        let columns = columns(of: table)
        let verb = dice.once(in: 6) ? "INSERT \(or)" : "INSERT "
        let clauses = conflictTargets(of: table).map { target in
            " ON CONFLICT" + (target.isEmpty ? "" : " (" + target.map(SQL.quoted).joined(separator: ", ") + ")")
                + " " + conflictAction(table)
        }
        return SQL(
            "\(verb)INTO \(table.quoted) (\(list(columns))) VALUES ", list: rows(columns),
            tail: clauses.joined() + returning)
    }

    /// Keys of a table; none at the end means the rest of them.
    private mutating func conflictTargets(of table: TableModel) -> [[String]] {
        let keys = Set((table.uniques + [table.primaryKey]).filter { !$0.isEmpty }.map(\.asBinary)).sorted {
            $0.lexicographicallyPrecedes($1)
        }.map { $0.map(\.text) }
        var targets = Array(dice.shuffled(keys).prefix(dice.once(in: 3) ? 3 : 1))
        // SQLite until 3.53 replaces by the rowid before it asks the keys that no clause names, and damages the
        // table's indexes where one of these then has it do nothing.
        let isDamaging = table.replacesByRowidAlone && !targets.contains(table.primaryKey)
        if targets.isEmpty || isDamaging || dice.once(in: targets.count == 1 ? 3 : 6) { targets.append([]) }
        if targets.count == 2, targets[1].isEmpty, !isDamaging, dice.once(in: 2) { targets.removeFirst() }
        return targets
    }

    private mutating func conflictAction(_ table: TableModel) -> String {
        if dice.once(in: 4) { return "DO NOTHING" }
        let assignments = dice.shuffled(table.writable).prefix(dice.once(in: 2) ? 1 : 3).map { column in
            let other = column.isPicky ? column : dice.one(of: table.writable)
            let value = dice.one(of: [
                "excluded.\(column.quoted)", "excluded.\(other.quoted)", Values.literal(column, &dice),
                "\(table.quoted).\(other.quoted)", "\(table.quoted).\(column.quoted) + 1",
            ])
            return "\(column.quoted) = \(value)"
        }
        let column = dice.one(of: table.writable)
        let filter = dice.one(of: [
            "", "", "", " WHERE \(table.quoted).\(column.quoted) IS NOT 2",
            " WHERE excluded.\(column.quoted) > 1",
            " WHERE 0",
        ])
        return "DO UPDATE SET \(assignments.joined(separator: ", "))\(filter)"
    }

    private mutating func update(_ table: TableModel) -> SQL {
        let assignments = dice.some(of: table.writable).prefix(3).map { column in
            // What a virtual REAL column gives, a column that converts nothing stores as it happens.
            let convertsNothing = table.affinity(of: column.name) == "BLOB"
            let sources = table.columns.filter { !convertsNothing || !$0.isGenerated || $0.type != "REAL" }
            let other = column.isPicky ? column : dice.one(of: sources)
            let value = dice.one(of: [
                Values.literal(column, &dice), Values.literal(column, &dice), other.quoted,
                "\(column.quoted) + 1", "\(column.quoted)",
            ])
            return "\(column.quoted) = \(value)"
        }
        return SQL("UPDATE \(or)\(table.quoted) SET ", list: assignments, tail: filter(table) + returning)
    }

    private mutating func rekey(_ table: TableModel) -> SQL {
        // A row that a key identifies may get another rowid as well, or that alone.
        let rowid = table.primaryKey.isEmpty || dice.once(in: 3) ? [table.rowid].compactMap { $0 } : []
        let key = rowid.isEmpty ? table.primaryKey : dice.once(in: 2) ? rowid : rowid + table.primaryKey
        let assignments = key.map { name in
            let value = dice.one(of: [
                "\(SQL.quoted(name)) + 1", "\(SQL.quoted(name)) - 1", "2",
                table.isPicky(name) ? "3" : dice.one(of: Values.any),
            ])
            return "\(SQL.quoted(name)) = \(value)"
        }
        return SQL("UPDATE \(or)\(table.quoted) SET ", list: assignments, tail: filter(table))
    }

    private mutating func filter(_ table: TableModel) -> String {
        let column = dice.one(of: table.columns)
        return dice.one(of: [
            "", " WHERE \(column.quoted) IS \(Values.literal(column, &dice))",
            " WHERE \(column.quoted) IS \(Values.literal(column, &dice))", " WHERE \(column.quoted) > 1",
            " WHERE \(column.quoted) = (SELECT max(\(column.quoted)) FROM \(table.quoted))",
            " WHERE \(column.quoted) IN ('a', 1, 2)",
        ])
    }

    private mutating func insertSelect(into table: TableModel) -> SQL {
        let source = dice.one(of: tables)
        let columns = columns(of: table)
        let values = columns.map { column in
            // What a virtual REAL column gives, SQLite stores as an integer or not as it happens.
            let sources = source.columns.filter { !$0.isGenerated || $0.type != "REAL" }
            let other = sources.first { $0.isPicky == column.isPicky && $0.type == column.type }
            return dice.one(of: [
                (column.isPicky ? other : dice.one(of: sources))?.quoted ?? "2",
                Values.literal(column, &dice),
            ])
        }
        return SQL(
            "INSERT \(or)INTO \(table.quoted) (\(list(columns))) SELECT \(values.joined(separator: ", ")) FROM \(source.quoted) ORDER BY 1 LIMIT 6",
            tail: returning)
    }

    private mutating func updateFrom(_ table: TableModel) -> SQL {
        let column = dice.one(of: table.writable)
        let on = dice.one(of: table.columns)
        return SQL(
            "UPDATE \(or)\(table.quoted) SET \(column.quoted) = v.x FROM (VALUES ",
            list: (0...1).map { _ in "(\(Values.literal(on, &dice)))" },
            tail: ") AS w JOIN (SELECT 1 AS x) AS v WHERE w.column1 IS \(table.quoted).\(on.quoted)")
    }

    private mutating func delete(from table: TableModel) -> SQL {
        SQL("DELETE FROM \(table.quoted)", tail: (dice.once(in: 8) ? "" : filter(table)) + returning)
    }
}
