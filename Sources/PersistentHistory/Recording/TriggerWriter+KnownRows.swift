/// Recording for tables where a trigger cannot know beforehand what a change will do.
///
/// A second table stores for each row its identity in the history, its tombstone, and the computed values
/// of the unique indexes. After a change, the known rows are compared with the table: rows that are gone
/// were deleted or replaced, others were inserted or updated. Values are computed only for stored rows,
/// for which SQLite has computed the same, so nothing can fail.
///
/// This takes an additional row and its index entries for each row, so only tables that need it are
/// recorded this way:
///
/// - a unique index whose expression or condition is not `ForeseeableExpression`, or that has a generated
///   column;
/// - a computed default in a unique index, which REPLACE uses for a null;
/// - triggers of the application that write before a change: they may write the row that is replaced;
/// - columns that SQLite shows to triggers with other values than they have
///   (`StoreSchema.convertedColumns`).
extension TriggerWriter {
    var keepsKnownRows: Bool { table.needsKnownRows }

    private var known: String { "\(RecordingFormat.prefix)\(entity.shape)_rows" }

    /// The statements that create and fill the table of known rows.
    func knownRows() -> [String] {
        guard keepsKnownRows else { return [] }
        let keys = zip(knownKeys, keyCollations).map { "\($0) \($1)" }
        let identity = table.rowid != nil ? ["id INTEGER PRIMARY KEY"] : keys
        let columns = ["object", "tombstone"] + convertedColumns.indices.map { "c\($0)" }
        let terms = indexed.enumerated().flatMap { number, uniqueness in
            uniqueness.terms.enumerated().map {
                "u\(number)_\($0) COLLATE \(SQLText.name($1.collation))"
            }
        }
        let end =
            table.rowid != nil ? ")" : ", PRIMARY KEY (\(knownKeys.joined(separator: ", ")))) WITHOUT ROWID"
        let indexes = indexed.enumerated().map { number, uniqueness in
            let columns = uniqueness.terms.indices.map { "u\(number)_\($0)" }.joined(separator: ", ")
            return "CREATE INDEX \(known)_\(number) ON \(known) (\(columns))"
        }
        return ["CREATE TABLE \(known) (\((identity + columns + terms).joined(separator: ", "))\(end)"]
            + indexes
            + [know(where: nil)]
    }

    /// The names of the table and its indexes.
    var knownRowsNames: [String] {
        keepsKnownRows ? [known] + indexed.indices.map { "\(known)_\($0)" } : []
    }

    func knownRowsTriggers() -> [(name: String, sql: String)] {
        if comparesAllRows { return comparingTriggers() }
        let unions = SQLText.unionAll([identities("NEW")] + conflictingKnownRows)
        let replaced = "\(identity) IN (\(unions))"
        let isTaken = "(\(isSame("NEW")) AND NOT \(isSame("OLD")))"
        let touched =
            "\(identity) IN (\(SQLText.unionAll([identities("OLD"), identities("NEW")] + conflictingKnownRows)))"
        return [
            trigger(
                "insert", "AFTER INSERT", when: nil,
                forgetDeleted("\(replaced) AND (\(isSame("NEW")) OR \(isGone))") + [
                    record(
                        "SELECT \(values(.insert, key(row), "NULL")) FROM \(tableAsRow) WHERE \(isRow("NEW"))"),
                    know(where: isRow("NEW")),
                ]),
            trigger(
                "update", "AFTER UPDATE", when: nil,
                forgetDeleted("\(touched) AND (\(isGone) OR \(isTaken)\(orIsAnother))") + [
                    // What is known of the row now was known of OLD.
                    record(
                        """
                        SELECT \(values(.update, key(row), changedColumns)) FROM \(tableAsRow) JOIN \(known) \
                        ON \(isSame("NEW")) WHERE \(isRow("NEW")) AND \(somethingChanged)
                        """),
                    record(
                        """
                        SELECT \(values(.insert, key(row), "NULL")) FROM \(tableAsRow) WHERE \(isRow("NEW")) \
                        AND NOT EXISTS (SELECT 1 FROM \(known) WHERE \(isSame("NEW")))
                        """),
                    "DELETE FROM \(known) WHERE \(isSame("NEW"))",
                    know(where: isRow("NEW")),
                ] + endUpdate),
            trigger("delete", "AFTER DELETE", when: nil, forgetDeleted("\(isSame("OLD")) AND \(isGone)")),
        ] + interruptedUpdatesTriggers()
    }

    /// Whether what is known of OLD is the tombstone of a row that OLD has replaced in an update still in
    /// progress. A foreign key's action comes before that is recorded.
    private var orIsAnother: String {
        guard table.refersToItself, convertedColumns.isEmpty, !entity.preserved.isEmpty else { return "" }
        return " OR (\(isSame("OLD")) AND \(known).tombstone IS NOT \(tombstone("OLD")))"
    }

    // MARK: Comparing all rows

    /// Whether neither OLD nor NEW identifies the row: triggers see another primary key, and there is no
    /// rowid. Each change then compares all rows.
    private var comparesAllRows: Bool { Self.comparesAllRows(of: table) }

    private static func comparesAllRows(of table: TableSchema) -> Bool {
        let key = Set<BinaryText>(names: table.primaryKey)
        return table.rowid == nil && table.columns.contains { $0.isConverted && key.contains($0.name) }
    }

    private func comparingTriggers() -> [(name: String, sql: String)] {
        let same =
            zip(table.primaryKey, knownKeys).map { "\(column(row, $0)) = \(known).\($1)" }.joined(
                separator: " AND ")
        let body =
            forgetDeleted(isGone) + [
                record(
                    """
                    SELECT \(values(.update, key(row), changedColumns)) FROM \(tableAsRow) JOIN \(known) ON \(same) \
                    WHERE \(somethingChanged)
                    """),
                record(
                    """
                    SELECT \(values(.insert, key(row), "NULL")) FROM \(tableAsRow) \
                    WHERE NOT EXISTS (SELECT 1 FROM \(known) WHERE \(same))
                    """),
                "DELETE FROM \(known) WHERE EXISTS (SELECT 1 FROM \(tableAsRow) WHERE \(same) AND \(somethingChanged))",
                know(where: "NOT EXISTS (SELECT 1 FROM \(known) WHERE \(same))"),
            ]
        return ["INSERT", "UPDATE", "DELETE"].map { trigger($0.lowercased(), "AFTER \($0)", when: nil, body) }
    }

    // MARK: Known rows

    func forgetDeleted(_ condition: String) -> [String] {
        [
            record("SELECT \(values(.delete, "object", "tombstone")) FROM \(known) WHERE \(condition)"),
            "DELETE FROM \(known) WHERE \(condition)",
        ]
    }

    /// Stores rows of the table as they are now.
    private func know(where condition: String?) -> String {
        let identity = table.rowid.map { _ in [rowid(row)] } ?? table.primaryKey.map { column(row, $0) }
        let converted = convertedColumns.map { column(row, $0) }
        let terms = indexed.flatMap(terms)
        let list = (identity + [key(row), tombstone(row)] + converted + terms).joined(separator: ", ")
        return "INSERT INTO \(known) SELECT \(list) FROM \(tableAsRow)"
            + (condition.map { " WHERE \($0)" } ?? "")
    }

    /// Whether a known row is no longer in the table, or is another object there.
    var isGone: String {
        let same =
            table.rowid.map { _ in "\(rowid(row)) = \(known).id" }
            ?? zip(table.primaryKey, knownKeys).map { "\(column(row, $0)) = \(known).\($1)" }
            .joined(separator: " AND ")
        let key = key(row)
        return """
            NOT EXISTS (SELECT 1 FROM \(tableAsRow) WHERE \(same) AND \(known).object IS \(key) \
            AND typeof(\(known).object) = typeof(\(key)))
            """
    }

    /// The known rows that a unique index would not allow beside the new row.
    private var conflictingKnownRows: [String] {
        indexed.enumerated().map { number, uniqueness in
            // A + removes the column's affinity from the known value, so that the index is used. As a row
            // value, the new row is named once, however many columns the index has.
            let names = uniqueness.terms.indices.map { "\(known).u\(number)_\($0)" }
            let values = terms(uniqueness).map { "+(\($0))" }
            let left = names.count == 1 ? names[0] : "(\(names.joined(separator: ", ")))"
            let same =
                "\(left) = (SELECT \(values.joined(separator: ", ")) FROM \(tableAsRow) WHERE \(isRow("NEW")))"
            let columns = table.rowid != nil ? ["id"] : knownKeys
            return
                "SELECT \(columns.joined(separator: ", ")) FROM \(known) WHERE \(same)"
        }
    }

    /// A unique index's values for a row of the table: null if the row is not in the index.
    private func terms(_ uniqueness: Uniqueness) -> [String] {
        uniqueness.terms.map { term in
            let value = term.isExpression ? "(\(term.text))" : column(row, term.text)
            return uniqueness.condition.map { "CASE WHEN (\($0)) THEN \(value) END" } ?? value
        }
    }

    /// The unique indexes except the one that finds rows.
    private var indexed: [Uniqueness] {
        table.uniqueness.filter {
            $0.missing == nil
                && (table.rowid != nil || $0.terms.map { BinaryText($0.text) } != table.primaryKey.asBinary
                    || $0.terms.map(\.collation) != table.keyCollations)
        }
    }

    // MARK: Identity: the rowid, or the primary key

    private var knownKeys: [String] { table.primaryKey.indices.map { "k\($0)" } }
    private var keyCollations: [String] { table.keyCollations.map { "COLLATE \(SQLText.name($0))" } }

    private var identity: String {
        if table.rowid != nil { return "id" }
        return knownKeys.count == 1 ? "k0" : "(\(knownKeys.joined(separator: ", ")))"
    }

    private func identities(_ row: String) -> String {
        let columns = table.rowid.map { _ in [rowid(row)] } ?? table.primaryKey.map { column(row, $0) }
        return "SELECT \(columns.joined(separator: ", "))"
    }

    /// Whether a known row is OLD or NEW.
    private func isSame(_ changed: String) -> String {
        if table.rowid != nil { return "\(known).id = \(rowid(changed))" }
        let same = zip(knownKeys, table.primaryKey).map { "\(known).\($0) = \(column(changed, $1))" }
        return "(\(same.joined(separator: " AND ")))"
    }

    /// Whether a row of the table is NEW.
    func isRow(_ changed: String) -> String {
        if table.rowid != nil { return "\(rowid(row)) = \(rowid(changed))" }
        return table.primaryKey.map { "\(column(row, $0)) = \(column(changed, $0))" }.joined(separator: " AND ")
    }

    // MARK: Columns that triggers may see with other values

    static func convertedColumns(of table: TableSchema) -> [String] {
        let areAll = comparesAllRows(of: table)
        return table.columns.filter { areAll || $0.isConverted }.map(\.name)
    }

    /// A column's value before the update.
    func old(_ name: String) -> String {
        placesOfConverted[name].map { "\(known).c\($0)" } ?? column("OLD", name)
    }

    /// A column's value after the update.
    func new(_ name: String) -> String {
        placesOfConverted[name] != nil ? column(row, name) : column("NEW", name)
    }
}
