/// The rows that conflict with a written row: noted before, and recorded as deleted if they are gone
/// afterwards.
extension TriggerWriter {
    /// One constraint's view of the rows that conflict with NEW.
    struct Conflict {
        let condition: String
        let exists: String
        let existsForUpdate: String
    }

    /// The table's name in our subqueries: NEW and OLD must stay the trigger's rows.
    var row: String {
        ["new", "old"].contains(SQLText.folded(table.name)) ? "historyd_row" : SQLText.name(table.name)
    }

    var tableAsRow: String { "\(SQLText.name(table.name)) AS \(row)" }

    var conflicts: [Conflict] {
        var conflicts: [Conflict] = []
        if table.rowid != nil {
            let (old, new) = (rowid("OLD"), rowid("NEW"))
            conflicts.append(conflict("\(rowid(row)) = \(new)", changed: "\(new) IS NOT \(old)"))
        }
        for uniqueness in table.uniqueness {
            conflicts.append(conflict(condition(uniqueness), changed: changed(uniqueness)))
        }
        return conflicts
    }

    func conflict(_ condition: String, changed: String) -> Conflict {
        let exists = "EXISTS (SELECT 1 FROM \(tableAsRow) WHERE \(condition))"
        return Conflict(condition: condition, exists: exists, existsForUpdate: "((\(changed)) AND \(exists))")
    }

    func condition(_ uniqueness: Uniqueness) -> String {
        let terms = uniqueness.terms.map { term -> String in
            let collation = "COLLATE \(SQLText.name(term.collation))"
            return term.isExpression
                ? "(\(term.text)) = \(onNew(term.text, of: uniqueness)) \(collation)"
                : "\(column(row, term.text)) = \(coming(term.text)) \(collation)"
        }
        let partial = uniqueness.condition.map { ["(\($0))", onNew($0, of: uniqueness)] } ?? []
        return (terms + partial).joined(separator: " AND ")
    }

    func changed(_ uniqueness: Uniqueness) -> String {
        // An expression may distinguish equal values: 1 and 1.0, 0.0 and -0.0.
        if uniqueness.condition != nil || uniqueness.terms.contains(where: \.isExpression) { return "1" }
        return uniqueness.columns.map { "\(coming($0)) IS NOT \(column("OLD", $0)) COLLATE BINARY" }
            .joined(separator: " OR ")
    }

    /// The columns of which one must be set for a conflict; nil if any may cause it.
    var namesThatConflict: [String]? {
        guard let rowidNames else { return nil }
        let names = table.uniqueness.flatMap(\.columns)
        return Set<BinaryText>(names: names + (table.keyIsRowid ? table.primaryKey : []) + rowidNames)
            .sorted().map(\.text)
    }

    /// Notes the conflicting rows, and replaces the notes of the previous row.
    func note(_ conflicts: [Conflict], sparing own: String? = nil) -> [String] {
        let notSelf = own.map { " AND NOT (\(key(row)) IS \(key($0)))" } ?? ""
        let locators = locators(of: row)
        let empty = Array(repeating: "NULL", count: 4 - locators.count)
        let at = mayNest ? now : "NULL"
        let rows = conflicts.map { each in
            "SELECT \(entity.shape), \(key(row)), \(tombstone(row)), \(at), \(own.map(key) ?? "NULL"), "
                + "\((locators + empty).joined(separator: ", ")) FROM \(tableAsRow) WHERE \(each.condition)\(notSelf)"
        }
        let past = mayNest ? " AND at < \(now)" : ""
        return [
            "DELETE FROM historyd_conflict WHERE \(ofThisShape)\(past)",
            "INSERT INTO historyd_conflict " + (rows.count == 1 ? rows[0] : onlyOnce(rows)),
        ]
    }

    /// Removes duplicates of a row that conflicts twice. (UNION would keep both if an index holds another
    /// value than the table, such as a virtual column's 0.0 and 0.)
    private func onlyOnce(_ rows: [String]) -> String {
        "SELECT * FROM (\(SQLText.unionAll(rows))) GROUP BY 2 COLLATE BINARY"
    }

    /// The columns that find a noted row again: its rowid, or the first column of its key.
    func locators(of row: String) -> [String] {
        table.rowid != nil ? [rowid(row)] : table.primaryKey.prefix(4).map { column(row, $0) }
    }

    /// Whether a foreign key's action may write rows of the table between the note of a row and its
    /// recording. Then newer notes must stay, and only outdated ones are removed.
    var mayNest: Bool { table.refersToItself }

    var ofThisShape: String { "shape = \(entity.shape)" }

    /// Whether a row can conflict only with a row of the same key.
    var hasOnlyOwnKey: Bool {
        if table.keyIsRowid { return table.uniqueness.isEmpty }
        // Keys that are equal only by a collation are two objects.
        guard case .column = entity.key, table.rowid == nil, table.uniqueness.count == 1 else { return false }
        return table.uniqueness[0].terms.allSatisfy { $0.collation == "BINARY" }
    }

    /// The condition for noted rows that are gone.
    ///
    /// Recording a delete removes the row's note, so a noted row that is gone was replaced. A row with
    /// NEW's key is gone if NEW has just taken its place.
    ///
    /// - Parameter updated: Restricts it to what was noted for the update of this row.
    private func isReplaced(tookPlaceOfKey: Bool, whileUpdating updated: String?) -> String {
        let lookup =
            locators(of: row).enumerated().map { "\($1) IS historyd_conflict.k\($0)" }
            // The left operand sets the collation: ours compares bytes.
            + ["historyd_conflict.object IS \(key(row))"]
        let gone = "NOT EXISTS (SELECT 1 FROM \(tableAsRow) WHERE \(lookup.joined(separator: " AND ")))"
        let ownKey = "historyd_conflict.object IS \(keyOfNew)"
        let isReplaced =
            hasOnlyOwnKey && !table.refersToItself ? ownKey : tookPlaceOfKey ? "(\(ownKey) OR \(gone))" : gone
        return isReplaced + (updated.map { " AND updating IS \($0)" } ?? "")
    }

    /// The deletes of the noted rows that are gone, as rows to record.
    func replacedRows(tookPlaceOfKey: Bool = true, whileUpdating updated: String? = nil) -> String {
        // If older notes are kept, the newest note of a row counts.
        let newest =
            mayNest
            ? " AND NOT EXISTS (SELECT 1 FROM historyd_conflict AS historyd_newer WHERE historyd_newer.shape = historyd_conflict.shape"
                + " AND historyd_newer.object IS historyd_conflict.object AND historyd_newer.rowid > historyd_conflict.rowid)"
            : ""
        return
            "SELECT \(values(.delete, "object", "tombstone")) FROM historyd_conflict WHERE \(ofThisShape) AND "
            + isReplaced(tookPlaceOfKey: tookPlaceOfKey, whileUpdating: updated) + newest
    }

    /// Records the noted rows that are gone, and removes the notes.
    ///
    /// Both statements run for each row, and are cheap if nothing was noted.
    func recordConflicts(tookPlaceOfKey: Bool = true, whileUpdating updated: String? = nil) -> [String] {
        guard !conflicts.isEmpty else { return [] }
        let settled = record(replacedRows(tookPlaceOfKey: tookPlaceOfKey, whileUpdating: updated))
        if !mustForgetNotes { return [settled] }
        guard mayNest else { return [settled, "DELETE FROM historyd_conflict WHERE \(ofThisShape)"] }
        // A row that was recorded as gone needs no note for any other reason.
        let forgotten =
            "DELETE FROM historyd_conflict WHERE \(ofThisShape) AND object IN "
            + "(SELECT object FROM historyd_conflict WHERE \(ofThisShape) AND "
            + isReplaced(tookPlaceOfKey: tookPlaceOfKey, whileUpdating: updated) + ")"
        return [settled, forgotten]
    }

    /// A remaining note of a row with the same key is harmless: the row exists until its delete is
    /// recorded or it conflicts again.
    var mustForgetNotes: Bool { !hasOnlyOwnKey || mayNest }

    /// Updates the note of a row whose rowid changed: it is not gone.
    var noteWhereItIsNow: [String] {
        guard mayNest, table.rowid != nil else { return [] }
        return [
            "UPDATE historyd_conflict SET k0 = \(rowid("NEW")) WHERE \(ofThisShape) AND object IS \(key("NEW"))"
        ]
    }

    /// Removes the note of a row whose delete is recorded, so that it is not recorded again as replaced.
    func forget(_ key: String) -> [String] {
        conflicts.isEmpty ? [] : ["DELETE FROM historyd_conflict WHERE \(ofThisShape) AND object IS \(key)"]
    }
}

/// The values that a row will have, where triggers that run before a change see others.
extension TriggerWriter {
    /// A column of the new row. If REPLACE meets a null in a NOT NULL column, the default replaces it,
    /// but only after the BEFORE triggers (https://www.sqlite.org/lang_conflict.html).
    func coming(_ name: String) -> String {
        let given = column("NEW", name)
        let standIn = table.columns.first { $0.name.hasSameBytes(as: name) }?.defaultForNull
        return standIn.map { "coalesce(\(given), \($0.sql))" } ?? given
    }

    /// An index's expression for the new row. It finds its columns in a one-row subquery of NEW's values,
    /// so the expression need not be parsed.
    func onNew(_ expression: String, of uniqueness: Uniqueness) -> String {
        let columns = uniqueness.columns.map { "\(coming($0)) AS \(SQLText.name($0))" }
        let source = columns.isEmpty ? "1" : columns.joined(separator: ", ")
        return "(SELECT (\(expression)) FROM (SELECT \(source)) AS \(row))"
    }
}
