/// Indexes and triggers of the application, on tables that were made.
struct SchemaObjects {
    var dice: Dice
    let tables: [TableModel]
    let recursiveTriggers: Bool

    mutating func indexes() -> [SQL] {
        var made: [SQL] = []
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
        let name = column.quoted
        let term = dice.one(of: [
            name, name, name, "\(name) COLLATE NOCASE", "lower(\(name))", "\(name) || ','", "abs(\(name))",
            "(\(name) + 1)", "coalesce(\(name), 'none, (so)')",
        ])
        return term + (dice.once(in: 4) ? " DESC" : "")
    }

    private mutating func condition(_ column: TableModel.Column) -> String {
        dice.one(of: [
            "\(column.quoted) IS NOT NULL", "\(column.quoted) > 1", "typeof(\(column.quoted)) = 'text'",
            "\(column.quoted) <> 'where'",
        ])
    }

    /// Triggers whose cascades end: they write to later tables, or, where none calls itself, to
    /// any. A BEFORE trigger leaves the table alone that is being written to, for which SQLite
    /// promises nothing (https://www.sqlite.org/lang_createtrigger.html, "Cautions").
    mutating func triggers(_ prefix: String) -> [SQL] {
        guard dice.once(in: 3) else { return [] }
        return (0...dice.number(0...1)).map { number in
            let from = dice.number(0...tables.count - 1)
            let table = tables[from]
            let isBefore = dice.once(in: 3)
            var targets = Array(tables[(from + 1)...])
            if !recursiveTriggers, !isBefore { targets.append(table) }
            let event = dice.one(of: [
                "INSERT", "INSERT", "UPDATE", "UPDATE OF \(dice.one(of: table.columns).quoted)", "DELETE",
            ])
            let body = targets.isEmpty ? "SELECT 1" : action(dice.one(of: targets), table, event, isBefore)
            let when =
                dice.once(in: 4) ? " WHEN \(row(event)).\(dice.one(of: table.writable).quoted) IS NOT 2" : ""
            return SQL(
                "CREATE TRIGGER \"\(prefix) \(number)\" \(isBefore ? "BEFORE" : "AFTER") \(event) ON \(table.quoted)\(when) BEGIN ",
                list: [], tail: "\(body); END")
        }
    }

    private func row(_ event: String) -> String { event == "DELETE" ? "OLD" : "NEW" }

    private mutating func action(
        _ target: TableModel, _ table: TableModel, _ event: String, _ isBefore: Bool
    ) -> String {
        // Before an update SQLite computes generated columns of those columns alone that such triggers name.
        let columns = isBefore && event.hasPrefix("UPDATE") ? table.writable : table.columns
        let source = "\(row(event)).\(dice.one(of: columns).quoted)"
        let column = dice.one(of: target.writable)
        let or = dice.one(of: ["", "OR IGNORE ", "OR REPLACE "])
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
