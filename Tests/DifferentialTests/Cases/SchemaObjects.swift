/// Indexes and triggers of the application, on tables that were made.
struct SchemaObjects {
    var dice: Dice
    let tables: [TableModel]
    let recursiveTriggers: Bool

    mutating func indexes() -> [SQL] {
        var made: [SQL] = []
        // By an index SQLite looks for the rows that refer to a key, and may convert the key for it.
        for (number, table) in tables.enumerated() {
            for (part, columns) in table.references.enumerated() where !dice.once(in: 3) {
                made.append(
                    SQL(
                        "CREATE INDEX \"r \(number).\(part)\" ON \(table.quoted) (",
                        list: columns.map(SQL.quoted), tail: ")"))
            }
        }
        for (number, table) in tables.enumerated() where dice.once(in: 2) {
            for part in 0...dice.number(0...1) {
                let unique = dice.once(in: 4) ? "" : "UNIQUE "
                let terms = dice.some(of: table.columns).prefix(3).map { term($0) }
                let condition = dice.once(in: 3) ? " WHERE " + self.condition(dice.one(of: table.columns)) : ""
                made.append(
                    SQL(
                        "CREATE \(unique)INDEX \"i \(number).\(part)\" ON \(table.quoted) (", list: terms,
                        tail: ")\(condition)"))
            }
        }
        return made
    }

    private mutating func term(_ column: TableModel.Column) -> String {
        let name = SQL.quoted(column.name, &dice)
        let term = dice.one(of: [
            name, name, name, "\(name) COLLATE NOCASE", "lower(\(name))", "\(name) || ','", "abs(\(name))",
            "(\(name) + 1)", "coalesce(\(name), 'none, (so)')", "json_extract(\(name), '$.a')",
            "\(name) ->> '$.a'", "(\(name) = 1)", "CAST(\(name) AS TEXT)",
        ])
        return term + SQL.comment(&dice) + (dice.once(in: 4) ? " DESC" : "") + SQL.comment(&dice)
    }

    private mutating func condition(_ column: TableModel.Column) -> String {
        let name = SQL.quoted(column.name, &dice)
        return dice.one(of: [
            "\(name) IS NOT NULL", "\(name) > 1", "typeof(\(name)) = 'text'", "\(name) <> 'where'",
            "\(name) = '0'", "\(name) = 1", "json_valid(\(name))", "json_valid(\(name))", "\(name) > '1'",
            "\(name) IN (1, 2, 'a')", "lower(\(name)) = \(name)",
        ]) + SQL.comment(&dice)
    }

    /// Triggers whose cascades end: they write to later tables, or, where none calls itself, to
    /// any. A BEFORE trigger leaves the table alone that is being written to, for which SQLite
    /// promises nothing (https://www.sqlite.org/lang_createtrigger.html, "Cautions").
    mutating func triggers(_ prefix: String) -> [SQL] {
        guard dice.once(in: 3) else { return [] }
        return (0...dice.number(0...1)).map { number in
            // Most of what can go wrong amid a foreign key's action, goes wrong there.
            let own = dice.once(in: 2) ? tables.firstIndex(where: \.refersToItself) : nil
            let from = own ?? dice.number(0...tables.count - 1)
            let table = tables[from]
            let isBefore = dice.once(in: 3)
            var targets = Array(tables[(from + 1)...])
            if !recursiveTriggers, !isBefore { targets.append(table) }
            // A row put where the one to come will be.
            let inserts = !recursiveTriggers && isBefore && dice.once(in: 2)
            let event =
                inserts
                ? "INSERT"
                : dice.one(of: [
                    "INSERT", "INSERT", "UPDATE", "UPDATE OF \(dice.one(of: table.columns).quoted)", "DELETE",
                ])
            let body =
                inserts
                ? insertion(table)
                : targets.isEmpty ? "SELECT 1" : action(dice.one(of: targets), table, event, isBefore)
            let when =
                dice.once(in: 4) ? " WHEN \(row(event)).\(dice.one(of: table.writable).quoted) IS NOT 2" : ""
            return SQL(
                "CREATE TRIGGER \"\(prefix) \(number)\" \(isBefore ? "BEFORE" : "AFTER") \(event) ON \(table.quoted)\(when) BEGIN ",
                list: [], tail: "\(body); END")
        }
    }

    /// A trigger that runs before ours, whenever it was made. One that writes after a change has that recorded before it:
    /// where a foreign key's action is in it as well, the order is none that can be judged.
    mutating func temporaryTrigger(_ number: Int, foreignKeys: Bool) -> Case.TemporaryTrigger {
        let index = dice.number(0...tables.count - 1)
        let table = tables[index]
        let targets = Array(tables[(index + 1)...])
        let isBefore = dice.once(in: 2)
        let isWithinActions = foreignKeys && !isBefore
        let event = dice.one(of: [
            "INSERT", "INSERT", "UPDATE", "UPDATE OF \(dice.one(of: table.columns).quoted)", "DELETE",
        ])
        var body = ""
        if targets.isEmpty || isWithinActions || dice.once(in: 2) {
            let columns = isBefore ? table.writable : table.columns
            let ends = ["ABORT, 'no'", "ROLLBACK, 'no'"] + (isWithinActions ? [] : ["IGNORE", "FAIL, 'no'"])
            body =
                "SELECT RAISE(\(dice.one(of: ends))) WHERE \(row(event)).\(dice.one(of: columns).quoted) = \(dice.one(of: ["1", "2", "'a'"]))"
        } else {
            body = action(dice.one(of: targets), table, event, isBefore)
        }
        let ends = ["RAISE(IGNORE", "RAISE(FAIL", "OR FAIL"].contains(where: body.contains)
        let text =
            "CREATE TEMP TRIGGER \"temporary \(number)\" \(isBefore ? "BEFORE" : "AFTER") \(event) ON \(table.quoted) BEGIN \(body); END"
        return Case.TemporaryTrigger(
            sql: SQL(text), table: table.name, skips: !isBefore && ends,
            mayFail: !isBefore && !body.hasPrefix("SELECT"))
    }

    /// A row of the same values but some.
    private mutating func insertion(_ table: TableModel) -> String {
        let values = table.writable.map { column in
            dice.once(in: 3) ? Values.literal(column, &dice) : "NEW.\(column.quoted)"
        }
        let columns = table.writable.map(\.quoted).joined(separator: ", ")
        return
            "INSERT \(dice.one(of: ["OR IGNORE ", "OR REPLACE "]))INTO \(table.quoted) (\(columns)) VALUES (\(values.joined(separator: ", ")))"
    }

    private func row(_ event: String) -> String { event == "DELETE" ? "OLD" : "NEW" }

    private mutating func action(
        _ target: TableModel, _ table: TableModel, _ event: String, _ isBefore: Bool
    ) -> String {
        // Before an update SQLite computes generated columns of those columns alone that such triggers name.
        let columns = isBefore && event.hasPrefix("UPDATE") ? table.writable : table.columns
        let source = "\(row(event)).\(dice.one(of: columns).quoted)"
        let column = dice.one(of: target.writable)
        let or = dice.one(of: [
            "", "", "OR IGNORE ", "OR IGNORE ", "OR REPLACE ", "OR REPLACE ", "OR FAIL ", "OR ABORT ",
            "OR ROLLBACK ",
        ])
        switch dice.number(0...5) {
        case 0, 1:
            let values = target.writable.map { column in
                dice.once(in: column.isPicky ? 12 : 3) ? source : Values.literal(column, &dice)
            }
            let columns = target.writable.map(\.quoted).joined(separator: ", ")
            let onConflict = dice.one(of: [
                "", "", "", " ON CONFLICT DO NOTHING",
                " ON CONFLICT DO UPDATE SET \(column.quoted) = excluded.\(column.quoted)",
            ])
            return
                "INSERT \(or)INTO \(target.quoted) (\(columns)) VALUES (\(values.joined(separator: ", ")))\(onConflict)"
        case 2, 3:
            let value = dice.one(of: [source, Values.literal(column, &dice)])
            return
                "UPDATE \(or)\(target.quoted) SET \(column.quoted) = \(value) WHERE \(column.quoted) IS NOT \(source)"
        case 4: return "DELETE FROM \(target.quoted) WHERE \(column.quoted) = \(source)"
        default:
            return "SELECT RAISE(\(dice.one(of: ["IGNORE", "ABORT, 'no'", "FAIL, 'no'", "ROLLBACK, 'no'"])))"
                + " WHERE \(source) = 1"
        }
    }
}
