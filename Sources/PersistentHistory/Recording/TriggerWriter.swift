/// Writes the triggers that record an entity's changes.
///
/// Two rules of SQLite shape them (https://www.sqlite.org/lang_conflict.html). Rows that REPLACE removes
/// fire no delete trigger unless `recursive_triggers` is on. A BEFORE INSERT trigger cannot know whether
/// the statement will replace, ignore, fail or become an UPSERT. So a conflicting row is noted in
/// `historyd_conflict` before the insert or update, and recorded as deleted afterwards if it is gone.
/// Without a conflict, nothing is written.
///
/// Triggers of one kind run from the newest to the oldest. Our AFTER triggers are kept newer than the
/// application's (see `TrackingPlan`), so that a row is recorded before the effects of those.
///
/// Tables for which that is not enough are recorded differently: see `TriggerWriter+KnownRows.swift`.
struct TriggerWriter {
    let table: TableSchema
    let entity: Entity
    /// Computed once, because it is used for each column and a table may have thousands.
    let convertedColumns: [String]
    let placesOfConverted: [BinaryText: Int]
    let columnsThatKeepStorageClass: Set<BinaryText>

    init(table: TableSchema, entity: Entity) {
        self.table = table
        self.entity = entity
        convertedColumns = Self.convertedColumns(of: table)
        placesOfConverted = Dictionary(
            convertedColumns.enumerated().map { (BinaryText($1), $0) }, uniquingKeysWith: { first, _ in first })
        columnsThatKeepStorageClass = Set(names: table.columns.filter(\.keepsStorageClass).map(\.name))
    }

    /// A trigger's name and its CREATE statement, for each trigger of the entity.
    func triggers() -> [(name: String, sql: String)] {
        (keepsKnownRows ? knownRowsTriggers() : notingTriggers()) + failingActionsTriggers()
    }

    private func notingTriggers() -> [(name: String, sql: String)] {
        var triggers = [
            trigger(
                "insert", "AFTER INSERT", when: nil,
                !conflicts.isEmpty && !mustForgetNotes
                    // This runs for each row, and one statement is cheaper than two.
                    ? [record("\(replacedRows()) UNION ALL SELECT \(values(.insert, keyOfNew, "NULL"))")]
                    : recordConflicts() + [record(.insert, keyOfNew, "NULL")]),
            isWide
                ? trigger("update", "AFTER UPDATE", when: sameKey, [recordUpdateOfWideTable()])
                : trigger(
                    "update", "AFTER UPDATE", when: "\(sameKey) AND \(somethingChanged)",
                    [recordIfStillThere(.update, keyOfNew, changedColumns)]),
            trigger(
                "rekey", "AFTER UPDATE" + of(keyNames), when: "NOT \(sameKey)",
                forget(key("OLD")) + recordConflicts(whileUpdating: key("OLD")) + [
                    record(.delete, key("OLD"), tombstone("OLD")),
                    recordIfStillThere(.insert, keyOfNew, "NULL"),
                ] + recordReturned(besidesNew: true)),
            trigger(
                "delete", "AFTER DELETE", when: nil,
                forget(key("OLD"))
                    // A row may be deleted with one that it was to replace, before its update completes.
                    + (table.refersToItself
                        ? recordConflicts(tookPlaceOfKey: false, whileUpdating: key("OLD")) : [])
                    + [record(.delete, key("OLD"), tombstone("OLD"))] + recordReturned()),
        ]
        let conflicts = conflicts
        if !conflicts.isEmpty {
            triggers += [
                trigger(
                    "before_insert", "BEFORE INSERT",
                    when: "(" + conflicts.map(\.exists).joined(separator: " OR ") + ")",
                    note(conflicts) + announce(conflicts)),
                trigger(
                    "before_update", "BEFORE UPDATE" + of(namesThatConflict),
                    when: "(" + conflicts.map(\.existsForUpdate).joined(separator: " OR ") + ")",
                    note(conflicts, sparing: "OLD") + announce(conflicts, sparing: "OLD")),
            ]
            if table.refersToItself {
                // What a changed key or a delete does to the rows that refer to it comes before its own
                // recording, and must not find the row gone.
                triggers += [
                    trigger(
                        "before_rekey", "BEFORE UPDATE" + of(keyNames), when: "NOT \(sameKey)",
                        forget(key("OLD"))),
                    trigger("before_delete", "BEFORE DELETE", when: nil, forget(key("OLD"))),
                ]
            }
            if !hasOnlyOwnKey {
                triggers.append(
                    trigger(
                        "replaced", "AFTER UPDATE" + of(namesThatConflict),
                        when: "\(sameKey) AND EXISTS (SELECT 1 FROM historyd_conflict WHERE \(ofThisShape))",
                        recordConflicts(tookPlaceOfKey: false, whileUpdating: key("OLD")) + noteWhereItIsNow))
            }
        }
        return triggers
    }

    func trigger(_ role: String, _ event: String, when: String?, _ body: [String]) -> (
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

    /// Skips updates that set none of these columns: a trigger is as expensive as its statement.
    func of(_ names: [String]?) -> String {
        names.map { " OF " + $0.map(SQLText.name).joined(separator: ", ") } ?? ""
    }

    // MARK: The content of a change

    /// The transaction's origin (see `RecordingFormat`). The time is constant within a statement.
    var origin: String {
        "coalesce(sqlite_compileoption_get(\(RecordingFormat.originRequest)), \(now))"
    }

    var now: String { "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)" }

    func record(_ operation: RecordingFormat.Operation, _ object: String, _ detail: String) -> String {
        record("VALUES (\(values(operation, object, detail)))")
    }

    /// Records the updated row. A foreign key's action on the update, and the triggers that it runs, come
    /// first: if they have deleted the row or given it another key, that is already recorded.
    private func recordIfStillThere(
        _ operation: RecordingFormat.Operation, _ object: String, _ detail: String
    ) -> String {
        guard table.refersToItself else { return record(operation, object, detail) }
        return record("SELECT \(values(operation, object, detail)) WHERE \(isStillThere(object))")
    }

    private func isStillThere(_ object: String) -> String {
        "EXISTS (SELECT 1 FROM \(tableAsRow) WHERE \(isRow("NEW")) AND \(key(row)) IS \(object))"
    }

    private func recordUpdateOfWideTable() -> String {
        let (from, condition) = changesOfWideTable
        let isThere = table.refersToItself ? " AND \(isStillThere(keyOfNew))" : ""
        return record(
            "SELECT \(values(.update, keyOfNew, "detail")) FROM \(from) WHERE \(condition)\(isThere)")
    }

    func record(_ rows: String) -> String {
        "INSERT INTO historyd_change (origin, kind, object, detail) \(rows)"
    }

    func values(_ operation: RecordingFormat.Operation, _ object: String, _ detail: String) -> String {
        "\(origin), \(kind(operation)), \(object), \(detail)"
    }

    func kind(_ operation: RecordingFormat.Operation) -> Int64 {
        RecordingFormat.kind(shape: entity.shape, operation)
    }

    /// A row's identity, with OLD, NEW or a table's name as the prefix of the columns.
    func key(_ row: String) -> String {
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

    /// NEW's identity once it is written. In a table with virtual columns, the value of a REAL column is
    /// a real in NEW, and may be an integer in the row. With such columns the stored row is read instead.
    var keyOfNew: String {
        guard table.storeHasUnseenIntegers, !table.keyIsRowid, entity.key != .rowid else { return key("NEW") }
        let isNew =
            table.rowid.map { _ in "\(rowid(row)) = \(rowid("NEW"))" }
            ?? table.primaryKey.map { "\(column(row, $0)) = \(column("NEW", $0))" }.joined(separator: " AND ")
        return "coalesce((SELECT \(key(row)) FROM \(tableAsRow) WHERE \(isNew)), \(key("NEW")))"
    }

    func column(_ row: String, _ name: String) -> String { "\(row).\(SQLText.name(name))" }

    func rowid(_ row: String) -> String { "\(row).\(table.rowid ?? "rowid")" }

    func tombstone(_ row: String) -> String {
        if entity.preserved.isEmpty { return "NULL" }
        // The entity says that it is not a list. (Converting text to digits takes as long as everything
        // else.)
        if entity.hasPlainTombstone { return column(row, entity.preserved[0].name) }
        return ValueList.sql(entity.preserved.map { column(row, $0.name) })
    }
}
