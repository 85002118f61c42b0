/// Writes the triggers that record an entity's changes.
///
/// Two rules of SQLite shape them (https://www.sqlite.org/lang_conflict.html): rows that REPLACE
/// removes fire no delete trigger, unless `recursive_triggers` is on; and a BEFORE INSERT trigger
/// can not know whether the statement will replace, ignore, fail or become an UPSERT. So a row in
/// the way is noted in `historyd_conflict` before the insert or update, and becomes a recorded
/// delete after it, if the row is gone by then. Where nothing is in the way, nothing is written.
///
/// Triggers of one kind run from the newest to the oldest. Ours that run after are kept newer than
/// the application's (see `Plan`), so that a row is recorded before what they make of it.
struct TriggerWriter {
    let table: TableSchema
    let entity: Entity

    /// A trigger's name and its CREATE statement, for each trigger of the entity.
    func triggers() -> [(name: String, sql: String)] {
        var triggers = [
            trigger(
                "insert", "AFTER INSERT", when: nil, settleConflicts() + [record(.insert, key("NEW"), "NULL")]),
            trigger(
                "update", "AFTER UPDATE", when: "\(sameKey) AND \(somethingChanged)",
                [record(.update, key("NEW"), changedColumns)]),
            trigger(
                "rekey", "AFTER UPDATE", when: "NOT \(sameKey)",
                forget(key("OLD")) + settleConflicts(whileUpdating: key("OLD")) + [
                    record(.delete, key("OLD"), tombstone("OLD")),
                    record(.insert, key("NEW"), "NULL"),
                ]),
            trigger(
                "delete", "AFTER DELETE", when: nil,
                forget(key("OLD"))
                    // A row may go with one that it was to replace, before its update comes to its end.
                    + (table.refersToItself
                        ? settleConflicts(tookPlaceOfKey: false, whileUpdating: key("OLD")) : [])
                    + [record(.delete, key("OLD"), tombstone("OLD"))]),
        ]
        let rivals = rivals
        if !rivals.isEmpty {
            triggers += [
                trigger(
                    "before_insert", "BEFORE INSERT",
                    when: "(" + rivals.map(\.exists).joined(separator: " OR ") + ")", note(rivals)),
                trigger(
                    "before_update", "BEFORE UPDATE",
                    when: "(" + rivals.map(\.existsForUpdate).joined(separator: " OR ") + ")",
                    note(rivals, sparing: "OLD")),
            ]
            if table.refersToItself {
                // What a changed key does to the rows that refer to it comes before the rekey is
                // recorded, and must not find the row gone from its old key.
                triggers.append(
                    trigger("before_rekey", "BEFORE UPDATE", when: "NOT \(sameKey)", forget(key("OLD"))))
            }
            if !hasOnlyOwnKey {
                triggers.append(
                    trigger(
                        "replaced", "AFTER UPDATE",
                        when: "\(sameKey) AND EXISTS (SELECT 1 FROM historyd_conflict WHERE \(ofThisShape))",
                        settleConflicts(tookPlaceOfKey: false, whileUpdating: key("OLD"))))
            }
        }
        return triggers
    }

    private func trigger(_ role: String, _ event: String, when: String?, _ body: [String]) -> (
        name: String, sql: String
    ) {
        let name = "\(RecordingFormat.prefix)\(entity.shape)_\(role)"
        let condition = when.map { " WHEN \($0)" } ?? ""
        let statements = body.map { "  \($0);\n" }.joined()
        return (
            name,
            "CREATE TRIGGER \(name) \(event) ON \(SQLText.name(table.name))\(condition) BEGIN\n\(statements)END"
        )
    }

    // MARK: What a change says

    /// The transaction's origin (see `RecordingFormat`). The time stands still within a statement.
    private var origin: String {
        "coalesce(sqlite_compileoption_get(\(RecordingFormat.originRequest)), \(now))"
    }

    private var now: String { "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)" }

    private func record(_ operation: RecordingFormat.Operation, _ object: String, _ detail: String) -> String {
        "INSERT INTO historyd_change (origin, kind, object, detail) VALUES (\(origin), \(kind(operation)), \(object), \(detail))"
    }

    private func kind(_ operation: RecordingFormat.Operation) -> Int64 {
        RecordingFormat.kind(shape: entity.shape, operation)
    }

    /// A row's identity: OLD, NEW or a table's name stands before the columns.
    private func key(_ row: String) -> String {
        switch entity.key {
        case .rowid: return rowid(row)
        case .column(let name): return column(row, name)
        case .columns(let names):
            let columns = names.map { column(row, $0) }
            let list = ValueList.sql(columns)
            guard table.keyMayBeNull else { return list }
            let anyNull = columns.map { "\($0) IS NULL" }.joined(separator: " OR ")
            return "CASE WHEN \(anyNull) THEN 'rowid:' || \(rowid(row)) ELSE \(list) END"
        }
    }

    private func column(_ row: String, _ name: String) -> String { "\(row).\(SQLText.name(name))" }

    private func rowid(_ row: String) -> String { "\(row).\(table.rowid ?? "rowid")" }

    private func tombstone(_ row: String) -> String {
        entity.preserved.isEmpty ? "NULL" : ValueList.sql(entity.preserved.map { column(row, $0.name) })
    }

    // MARK: What an update changed

    private var sameKey: String {
        let columns: [String]
        switch entity.key {
        case .rowid: return "(\(rowid("OLD")) = \(rowid("NEW")))"
        case .column(let name): columns = [name]
        case .columns(let names): columns = names
        }
        let same = columns.map { name in "NOT \(differs(name))" }
        // A row whose key has a null in it is known by its rowid.
        let sameRow = table.keyMayBeNull ? same + ["\(rowid("OLD")) = \(rowid("NEW"))"] : same
        return "(" + sameRow.joined(separator: " AND ") + ")"
    }

    /// Exact, where the column's own comparison may not be: `COLLATE NOCASE` says 'a' is 'A'.
    private func differs(_ name: String) -> String {
        let (old, new) = (column("OLD", name), column("NEW", name))
        let values = "\(old) IS NOT \(new) COLLATE BINARY"
        let keepsStorageClass = table.columns.first { $0.name == name }?.keepsStorageClass ?? false
        return keepsStorageClass ? "(\(values) OR typeof(\(old)) <> typeof(\(new)))" : "(\(values))"
    }

    /// A statement that changes nothing is no change; but a column that came after the triggers
    /// can not be compared, and its changes must not be lost.
    private var somethingChanged: String {
        let known = SQLText.balanced(table.columns.map { differs($0.name) }, "OR")
        let altered =
            "(SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = \(SQLText.literal(table.name))) IS NOT \(SQLText.literal(table.sql))"
        return "(\(known) OR \(altered))"
    }

    /// A bit for each column, or for a wide table a digit for each.
    private var changedColumns: String {
        let differences = table.columns.map { differs($0.name) }
        if differences.count > ChangedColumns.mostBits {
            return SQLText.balanced(differences, "||")
        }
        return SQLText.balanced(differences.enumerated().map { $0 == 0 ? $1 : "(\($1) << \($0))" }, "|")
    }

    // MARK: Rows in the way

    /// One constraint's view of the rows that stand in the way of NEW.
    private struct Rival {
        let condition: String
        let exists: String
        let existsForUpdate: String
    }

    /// The table as our subqueries name it: NEW and OLD must stay the trigger's rows.
    private var row: String {
        ["new", "old"].contains(table.name.lowercased()) ? "historyd_row" : SQLText.name(table.name)
    }

    private var tableAsRow: String { "\(SQLText.name(table.name)) AS \(row)" }

    private var rivals: [Rival] {
        var rivals: [Rival] = []
        if table.rowid != nil {
            let (old, new) = (rowid("OLD"), rowid("NEW"))
            rivals.append(rival("\(rowid(row)) = \(new)", changed: "\(new) IS NOT \(old)"))
        }
        for uniqueness in table.uniqueness {
            rivals.append(rival(condition(uniqueness), changed: changed(uniqueness)))
        }
        return rivals
    }

    private func rival(_ condition: String, changed: String) -> Rival {
        let exists = "EXISTS (SELECT 1 FROM \(tableAsRow) WHERE \(condition))"
        return Rival(condition: condition, exists: exists, existsForUpdate: "((\(changed)) AND \(exists))")
    }

    private func isPlain(_ uniqueness: TableSchema.Uniqueness) -> Bool {
        uniqueness.condition == nil && !uniqueness.terms.contains(where: \.isExpression)
    }

    private func condition(_ uniqueness: TableSchema.Uniqueness) -> String {
        let terms = uniqueness.terms.map { term -> String in
            let collation = "COLLATE \(SQLText.name(term.collation))"
            return term.isExpression
                ? "(\(term.text)) = \(onNew(term.text)) \(collation)"
                : "\(column(row, term.text)) = \(coming(term.text)) \(collation)"
        }
        let partial = uniqueness.condition.map { ["(\($0))", onNew($0)] } ?? []
        return (terms + partial).joined(separator: " AND ")
    }

    private func changed(_ uniqueness: TableSchema.Uniqueness) -> String {
        guard isPlain(uniqueness) else { return "1" }
        return uniqueness.terms.map {
            "\(coming($0.text)) IS NOT \(column("OLD", $0.text)) COLLATE BINARY"
        }
        .joined(separator: " OR ")
    }

    /// A column of the row that is to come. Where REPLACE meets a null that must not be, the column's
    /// default takes its place, but only after the triggers that run before
    /// (https://www.sqlite.org/lang_conflict.html).
    private func coming(_ name: String) -> String {
        let given = column("NEW", name)
        let standIn = table.columns.first { $0.name == name }?.defaultForNull
        return standIn.map { "coalesce(\(given), \($0))" } ?? given
    }

    /// Before an insert the number of an automatic key is not known: "the value of NEW.rowid is
    /// undefined" (https://www.sqlite.org/lang_createtrigger.html), and is -1. It will be the next one.
    private func comingRowid(_ name: String) -> String {
        let newest = "(SELECT max(\(rowid(row))) FROM \(tableAsRow))"
        let everGiven =
            table.isAutoincrement
            ? "(SELECT max(seq) FROM sqlite_sequence WHERE name = \(SQLText.literal(table.name)))" : "0"
        return
            "CASE WHEN \(column("NEW", name)) = -1 THEN max(coalesce(\(newest), 0), coalesce(\(everGiven), 0)) + 1 ELSE \(column("NEW", name)) END"
    }

    /// An index's expression, asked of the row that is to come: its columns are found in a row of
    /// one made of NEW's, so that the expression itself need not be understood.
    private func onNew(_ expression: String) -> String {
        let columns = table.columns.map { column in
            let isRowid = table.keyIsRowid && table.primaryKey == [column.name]
            return "\(isRowid ? comingRowid(column.name) : coming(column.name)) AS \(SQLText.name(column.name))"
        }
        return "(SELECT (\(expression)) FROM (SELECT \(columns.joined(separator: ", "))) AS \(row))"
    }

    /// Notes the rows in the way, in place of those noted for the row before this one.
    private func note(_ rivals: [Rival], sparing own: String? = nil) -> [String] {
        let notSelf = own.map { " AND NOT (\(key(row)) IS \(key($0)))" } ?? ""
        let locators = locators(of: row)
        let empty = Array(repeating: "NULL", count: 4 - locators.count)
        let at = mayNest ? now : "NULL"
        let rows = rivals.map { each in
            "SELECT \(entity.shape), \(key(row)), \(tombstone(row)), \(at), \(own.map(key) ?? "NULL"), "
                + "\((locators + empty).joined(separator: ", ")) FROM \(tableAsRow) WHERE \(each.condition)\(notSelf)"
        }
        let past = mayNest ? " AND at < \(now)" : ""
        return [
            "DELETE FROM historyd_conflict WHERE \(ofThisShape)\(past)",
            "INSERT INTO historyd_conflict \(rows.joined(separator: " UNION "))",
        ]
    }

    /// The columns by which a noted row is looked up again: its rowid, or the first of its key.
    private func locators(of row: String) -> [String] {
        table.rowid != nil ? [rowid(row)] : table.primaryKey.prefix(4).map { column(row, $0) }
    }

    /// Whether rows of the table may be written between a row's note and its settling: by a BEFORE
    /// trigger of the application's, or by a foreign key's action. What is noted then must stay, and
    /// only what is of the past goes.
    private var mayNest: Bool { table.hasBeforeTriggers || table.refersToItself }

    private var ofThisShape: String { "shape = \(entity.shape)" }

    /// Whether nothing but a row of the same key can stand in a row's way.
    private var hasOnlyOwnKey: Bool {
        if table.keyIsRowid { return table.uniqueness.isEmpty }
        // Keys that only a collation takes for the same are two objects.
        guard case .column = entity.key, table.rowid == nil, table.uniqueness.count == 1 else { return false }
        return table.uniqueness[0].terms.allSatisfy { $0.collation == "BINARY" }
    }

    /// Records the noted rows that are gone, and forgets what was noted.
    ///
    /// Both statements cost next to nothing where nothing was noted: they run for each row. A noted
    /// row whose delete was recorded is forgotten by that, so that one that is gone was replaced;
    /// one with NEW's own key is gone when NEW has just taken its place.
    ///
    /// - Parameter updated: Only what was noted for the update of this row.
    private func settleConflicts(tookPlaceOfKey: Bool = true, whileUpdating updated: String? = nil) -> [String]
    {
        guard !rivals.isEmpty else { return [] }
        let lookup =
            locators(of: row).enumerated().map { "\($1) IS historyd_conflict.k\($0)" }
            // The column on the left gives the collation: ours takes bytes for bytes.
            + ["historyd_conflict.object IS \(key(row))"]
        let gone = "NOT EXISTS (SELECT 1 FROM \(tableAsRow) WHERE \(lookup.joined(separator: " AND ")))"
        let ownKey = "historyd_conflict.object IS \(key("NEW"))"
        let isReplaced =
            hasOnlyOwnKey && !table.refersToItself ? ownKey : tookPlaceOfKey ? "(\(ownKey) OR \(gone))" : gone
        let replaced = isReplaced + (updated.map { " AND updating IS \($0)" } ?? "")
        // Where older notes are kept, the newest of a row counts.
        let newest =
            mayNest
            ? " AND NOT EXISTS (SELECT 1 FROM historyd_conflict AS historyd_newer WHERE historyd_newer.shape = historyd_conflict.shape"
                + " AND historyd_newer.object IS historyd_conflict.object AND historyd_newer.rowid > historyd_conflict.rowid)"
            : ""
        let settled =
            "INSERT INTO historyd_change (origin, kind, object, detail) SELECT \(origin), \(kind(.delete)), object, tombstone "
            + "FROM historyd_conflict WHERE \(ofThisShape) AND \(replaced)\(newest)"
        // What is left of a row with the same key is harmless: that row is there, until its delete is
        // recorded or it stands in the way again.
        if hasOnlyOwnKey, !mayNest { return [settled] }
        guard mayNest else { return [settled, "DELETE FROM historyd_conflict WHERE \(ofThisShape)"] }
        // A row that was recorded as gone is gone, whatever else it was noted for.
        let forgotten =
            "DELETE FROM historyd_conflict WHERE \(ofThisShape) AND object IN "
            + "(SELECT object FROM historyd_conflict WHERE \(ofThisShape) AND \(replaced))"
        return [settled, forgotten]
    }

    /// A row whose delete is recorded must not be recorded again as replaced.
    private func forget(_ key: String) -> [String] {
        rivals.isEmpty ? [] : ["DELETE FROM historyd_conflict WHERE \(ofThisShape) AND object IS \(key)"]
    }
}

/// How an update says which columns changed.
enum ChangedColumns {
    /// Columns that fit into the bits of an integer.
    static let mostBits = 62

    /// The positions of the changed columns, in table order.
    static func positions(_ detail: HistoryValue) -> [Int] {
        switch detail {
        case .integer(let bits): (0..<mostBits).filter { bits >> $0 & 1 == 1 }
        case .text(let digits): digits.utf8.enumerated().filter { $1 == UInt8(ascii: "1") }.map(\.offset)
        case .null, .real, .blob: []
        }
    }
}
