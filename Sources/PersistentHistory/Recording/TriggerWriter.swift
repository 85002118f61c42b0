/// Writes the triggers that record an entity's changes.
///
/// Two rules of SQLite shape them (https://www.sqlite.org/lang_conflict.html): rows that REPLACE
/// removes fire no delete trigger, unless `recursive_triggers` is on; and a BEFORE INSERT trigger
/// can not know whether the statement will replace, ignore, fail or become an UPSERT. So a row in
/// the way is noted in `historyd_conflict` before the insert or update, and becomes a recorded
/// delete after it, if the row is gone by then. Where nothing is in the way, nothing is written.
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
                [
                    record(.update, key("NEW"), changedColumns)
                ]),
            trigger(
                "rekey", "AFTER UPDATE", when: "NOT \(sameKey)",
                [forget(key("OLD"))] + settleConflicts() + [
                    record(.delete, key("OLD"), tombstone("OLD")),
                    record(.insert, key("NEW"), "NULL"),
                ]),
            trigger(
                "delete", "AFTER DELETE", when: nil,
                [
                    forget(key("OLD")),
                    record(.delete, key("OLD"), tombstone("OLD")),
                ]),
        ]
        let rivals = rivals
        if !rivals.isEmpty {
            triggers += [
                trigger(
                    "before_insert", "BEFORE INSERT",
                    when: "(" + rivals.map(\.exists).joined(separator: " OR ") + ")",
                    note(rivals, as: keyBeforeInsert)),
                trigger(
                    "before_update", "BEFORE UPDATE",
                    when: "(" + rivals.map(\.existsForUpdate).joined(separator: " OR ") + ")",
                    note(rivals, as: key("NEW"), sparing: "OLD")),
            ]
            if !hasOnlyOwnKey {
                triggers.append(
                    trigger(
                        "replaced", "AFTER UPDATE",
                        when: "\(sameKey) AND EXISTS (SELECT 1 FROM historyd_conflict WHERE \(ofThisRow))",
                        settleConflicts(sameKeyIsGone: false)))
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

    private var tableName: String { SQLText.name(table.name) }

    private var rivals: [Rival] {
        var rivals: [Rival] = []
        if table.rowid != nil {
            let (old, new) = (rowid("OLD"), rowid("NEW"))
            rivals.append(rival("\(rowid(tableName)) = \(new)", changed: "\(new) IS NOT \(old)"))
        }
        for uniqueness in table.uniqueness {
            rivals.append(rival(condition(uniqueness), changed: changed(uniqueness)))
        }
        return rivals
    }

    private func rival(_ condition: String, changed: String) -> Rival {
        let exists = "EXISTS (SELECT 1 FROM \(tableName) WHERE \(condition))"
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
                : "\(column(tableName, term.text)) = \(column("NEW", term.text)) \(collation)"
        }
        let partial = uniqueness.condition.map { ["(\($0))", onNew($0)] } ?? []
        return (terms + partial).joined(separator: " AND ")
    }

    private func changed(_ uniqueness: TableSchema.Uniqueness) -> String {
        guard isPlain(uniqueness) else { return "1" }
        return uniqueness.terms.map {
            "\(column("NEW", $0.text)) IS NOT \(column("OLD", $0.text)) COLLATE BINARY"
        }
        .joined(separator: " OR ")
    }

    /// An index's expression, asked of the row that is to come: its columns are found in a row of
    /// one made of NEW's, so that the expression itself need not be understood.
    private func onNew(_ expression: String) -> String {
        let columns = table.columns.map { "\(column("NEW", $0.name)) AS \(SQLText.name($0.name))" }
        return "(SELECT (\(expression)) FROM (SELECT \(columns.joined(separator: ", "))) AS \(tableName))"
    }

    /// Before an insert the number of an automatic key is not known yet: the rival is then known
    /// by nothing, and settled by the next row that is inserted, which is the same
    /// ("the value of NEW.rowid is undefined", https://www.sqlite.org/lang_createtrigger.html; it is -1).
    private var keyBeforeInsert: String {
        switch entity.key {
        case .rowid: return "NULL"
        case .column where table.keyIsRowid: return "nullif(\(key("NEW")), -1)"
        case .column: return key("NEW")
        case .columns:
            guard table.keyMayBeNull else { return key("NEW") }
            return "CASE WHEN \(key("NEW")) LIKE 'rowid:%' THEN NULL ELSE \(key("NEW")) END"
        }
    }

    /// Notes the rows in the way, and forgets those of statements long past.
    private func note(_ rivals: [Rival], as rival: String, sparing own: String? = nil) -> [String] {
        let notSelf = own.map { " AND NOT (\(key(tableName)) IS \(key($0)))" } ?? ""
        let locators = locators(of: tableName)
        let empty = Array(repeating: "NULL", count: 4 - locators.count)
        let rows = rivals.map { each in
            "SELECT \(entity.shape), \(rival), \(key(tableName)), \(tombstone(tableName)), \(now), "
                + "\((locators + empty).joined(separator: ", ")) FROM \(tableName) WHERE \(each.condition)\(notSelf)"
        }
        return [
            "DELETE FROM historyd_conflict WHERE at < \(now)",
            "INSERT INTO historyd_conflict \(rows.joined(separator: " UNION "))",
        ]
    }

    /// The columns by which a noted row is looked up again: its rowid, or the first of its key.
    private func locators(of row: String) -> [String] {
        table.rowid != nil ? [rowid(row)] : table.primaryKey.prefix(4).map { column(row, $0) }
    }

    /// In `historyd_conflict`: what was noted on behalf of NEW.
    private var ofThisRow: String {
        hasOnlyOwnKey
            ? "shape = \(entity.shape) AND object IS \(key("NEW"))"
            : "shape = \(entity.shape) AND (rival IS \(key("NEW")) OR rival IS NULL)"
    }

    /// Whether nothing but a row of the same key can stand in a row's way. Then a noted row was
    /// there until the insert of its key succeeded, so that it must have been replaced.
    private var hasOnlyOwnKey: Bool {
        if table.keyIsRowid { return table.uniqueness.isEmpty }
        // Keys that only a collation takes for the same are two objects.
        guard case .column = entity.key, table.rowid == nil, table.uniqueness.count == 1 else { return false }
        return table.uniqueness[0].terms.allSatisfy { $0.collation == "BINARY" }
    }

    /// Records the noted rows that are gone, and forgets all that were noted on behalf of NEW.
    ///
    /// Both statements cost next to nothing where nothing was noted: they run for each row.
    ///
    /// A noted row with NEW's own key is gone when NEW has just taken its place. The newest note
    /// of a row counts: an older one may tell of values that it had before.
    private func settleConflicts(sameKeyIsGone: Bool = true) -> [String] {
        guard !rivals.isEmpty else { return [] }
        let lookup =
            locators(of: tableName).enumerated().map { "\($1) IS c.k\($0)" }
            // The column on the left gives the collation: ours takes bytes for bytes.
            + ["c.object IS \(key(tableName))"]
        let gone = "NOT EXISTS (SELECT 1 FROM \(tableName) WHERE \(lookup.joined(separator: " AND ")))"
        let replaced = sameKeyIsGone ? "(c.object IS \(key("NEW")) OR \(gone))" : gone
        let newest =
            "NOT EXISTS (SELECT 1 FROM historyd_conflict d WHERE d.shape = c.shape AND d.object IS c.object AND d.rowid > c.rowid)"
        return [
            "INSERT INTO historyd_change (origin, kind, object, detail) SELECT \(origin), \(kind(.delete)), c.object, c.tombstone "
                + "FROM historyd_conflict c WHERE \(ofThisRow) AND \(hasOnlyOwnKey ? newest : "\(replaced) AND \(newest)")",
            "DELETE FROM historyd_conflict WHERE \(ofThisRow)",
        ]
    }

    /// A row whose delete is recorded must not be recorded again as replaced.
    private func forget(_ key: String) -> String {
        "DELETE FROM historyd_conflict WHERE shape = \(entity.shape) AND object IS \(key)"
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
