import GRDB

/// A table of the store with what recording needs to know.
package struct TableSchema: Sendable {
    struct Column: Sendable {
        let name: String
        let declaredType: String
        let isGenerated: Bool
        let isVirtual: Bool
        /// Whether two equal values may still differ, such as 1 and 1.0 in a column that converts nothing
        /// (https://www.sqlite.org/datatype3.html, "Type Affinity").
        let keepsStorageClass: Bool
        /// The default of a NOT NULL column.
        let defaultForNull: ColumnDefault?
        /// Whether triggers may see another value than the column's: see `StoreSchema.convertedColumns`.
        let isConverted: Bool
    }

    package let name: String
    /// The CREATE TABLE statement.
    let sql: String
    let isStrict: Bool
    let columns: [Column]
    package let primaryKey: [String]
    /// The collations of the primary key's columns.
    let keyCollations: [String]
    let key: Entity.Key
    /// Whether a column of the primary key may be null.
    let keyMayBeNull: Bool
    /// The name of the rowid in SQL; nil for a WITHOUT ROWID table, or if columns hide it.
    package let rowid: String?
    /// Whether the primary key is the rowid itself.
    let keyIsRowid: Bool
    /// Whether the rowid identifies some or all rows, because they have no key. Beside a key the rowid is
    /// not a column: its changes are not recorded, and copies of the table do without it.
    var rowidIdentifies: Bool { rowid != nil && (key == .rowid || keyMayBeNull) }
    /// Whether an index exists that lasts as long as the table: that of a UNIQUE constraint or a key.
    let hasLastingIndex: Bool
    let uniqueness: [Uniqueness]
    /// Whether the application has triggers that write before a row of the table is written.
    let hasWritingBeforeTriggers: Bool
    /// Whether foreign keys lead from the table back to it, so that removing a row may remove others.
    let refersToItself: Bool
    /// Whether any table of the store has both virtual and REAL columns. Such a REAL column's value may
    /// be stored as an integer where triggers see a real.
    let storeHasUnseenIntegers: Bool
    /// The triggers on the table.
    let triggers: [StoreSchema.Trigger]
    /// The trigger that may end a change during a foreign key's action: see `ForeignKeyActions.swift`.
    private let failingTrigger: String?
    var mayLoseActions: Bool { failingTrigger != nil }
    /// Whether a newer trigger of the application may have kept a change of the table and skipped ours.
    let mayBeSkipped: Bool
    /// Whether an application's trigger may insert a row again while foreign keys act on its delete.
    let mayReturn: Bool
    /// Why recording may miss changes; empty if it cannot.
    package private(set) var doubts: [String] = []

    /// - Parameter name: Compared without case, as SQLite does.
    /// - Throws: `HistoryError` with `.notAnEntity` for what cannot be tracked.
    package init(_ name: String, in schema: StoreSchema) throws {
        guard let table = schema.table(name) else {
            throw HistoryError(
                .notAnEntity, "There is no table \"\(name)\" in the store.",
                hint: "`sqlite3 STORE .tables` lists the tables.")
        }
        try Self.refuse(table.name, type: table.type)
        self.name = table.name
        sql = table.sql
        isStrict = table.isStrict
        let converted = schema.convertedColumns(of: table)
        let keyColumns = table.columns.filter { $0.placeInKey > 0 }.sorted { $0.placeInKey < $1.placeInKey }
        let keyIndex = table.indexes.first(where: \.isPrimaryKey)
        // INTEGER PRIMARY KEY is the rowid and has no index of its own (with the historical
        // exception of INTEGER PRIMARY KEY DESC: https://www.sqlite.org/lang_createtable.html#rowid).
        let keyIsRowid =
            !table.isWithoutRowid && keyColumns.count == 1
            && keyColumns[0].declaredType.asciiUppercased == "INTEGER" && keyIndex == nil
        self.keyIsRowid = keyIsRowid
        columns = table.columns.map { column in
            let affinity = ColumnAffinity(declaredType: column.declaredType, isStrict: table.isStrict)
            return Column(
                name: column.name, declaredType: column.declaredType,
                isGenerated: column.isVirtual || column.isStored, isVirtual: column.isVirtual,
                // The smallest integer has an equal real, which INTEGER and NUMERIC columns store
                // unchanged.
                keepsStorageClass: affinity == .blob
                    || column.placeInKey > 0 && !keyIsRowid && [.integer, .numeric].contains(affinity),
                defaultForNull: column.isNotNull
                    ? column.defaultText.map { ColumnDefault($0, storedIn: affinity) } : nil,
                isConverted: converted.contains(SQLText.folded(column.name)))
        }
        primaryKey = keyColumns.map(\.name)
        keyCollations = keyColumns.map { column in
            keyIndex?.terms.first { $0.column.hasSameBytes(as: column.name) }?.collation ?? "BINARY"
        }
        hasLastingIndex = table.indexes.contains { SQLText.isOfSQLite($0.name) }
        keyMayBeNull = !table.isWithoutRowid && !keyIsRowid && keyColumns.contains { !$0.isNotNull }
        let rowidName = Self.rowidName(hiddenBy: columns.map(\.name))
        rowid = table.isWithoutRowid ? nil : keyIsRowid ? SQLText.name(primaryKey[0]) : rowidName

        if primaryKey.isEmpty {
            key = .rowid
        } else if primaryKey.count == 1, !keyMayBeNull {
            key = .column(primaryKey[0])
        } else {
            key = .columns(primaryKey)
        }
        if rowid == nil, !table.isWithoutRowid, primaryKey.isEmpty || keyMayBeNull {
            throw HistoryError(
                .notAnEntity,
                "The table \"\(table.name)\" has columns named rowid, _rowid_ and oid, and no primary key that is never null, so its rows have no identity.",
                hint: "Give it a primary key that is NOT NULL.")
        }
        let automatic = keyIsRowid ? primaryKey[0] : nil
        uniqueness = table.indexes.filter(\.isUnique).map { [columns] index in
            Uniqueness(index, columns: columns, table, in: schema, automatic: automatic)
        }
        refersToItself = schema.refersToItself(table.name)
        storeHasUnseenIntegers = schema.hasVirtualColumnsAndReals
        triggers = table.triggers
        mayBeSkipped = schema.mayBeSkipped(table)
        hasWritingBeforeTriggers = table.triggers.contains { $0.definition?.writesBefore ?? false }
        let amidActions = schema.triggersAmidActions(on: table.name)
        failingTrigger = amidActions.first { $0.definition.raisesFail }?.name
        mayReturn = amidActions.contains { $0.definition.insertsInto.contains(SQLText.folded(table.name)) }
        doubts = findDoubts()
    }

    func has(_ column: BinaryText) -> Bool { columns.contains { SQLText.areSame($0.name, column.text) } }

    /// The table's columns among these names, in the table's order.
    func having(_ names: [BinaryText]) -> [String] {
        let folded = Set<BinaryText>(names: names.map { SQLText.folded($0.text) })
        return columns.map(\.name).filter { folded.contains(SQLText.folded($0)) }
    }

    /// Whether the effect of a change on other rows cannot be known beforehand: see `TriggerWriter+KnownRows.swift`.
    var needsKnownRows: Bool {
        hasWritingBeforeTriggers || uniqueness.contains { !$0.isForeseeable && $0.missing == nil }
            || columns.contains(where: \.isConverted)
    }

    private func findDoubts() -> [String] {
        let replacesByMistake =
            keyIsRowid && SQLTokens.hasConflictClause("REPLACE", sql)
            && (SQLTokens.hasConflictClause("IGNORE", sql) || SQLTokens.hasConflictClause("FAIL", sql))
        let mistake =
            replacesByMistake
            ? [
                "SQLite before 3.54 removes rows by mistake where one key is ON CONFLICT REPLACE and another IGNORE or FAIL"
            ]
            : []
        let failure = failingTrigger.map {
            "SQLite keeps a change, and runs no trigger for it, where RAISE(FAIL) in the trigger \"\($0)\" ends what a foreign key does with it"
        }
        return mistake + (failure.map { [$0] } ?? [])
            + uniqueness.compactMap { uniqueness in
                guard let missing = uniqueness.missing, !uniqueness.isForeseeable || needsKnownRows else {
                    return nil
                }
                return "only the application has \(missing)"
            }
    }

    private static func refuse(_ name: String, type: String) throws {
        let reason: String
        switch type {
        case _ where name.isEmpty: reason = "is a table without a name"
        case _ where SQLText.isOfSQLite(name): reason = "is SQLite's own"
        case _ where SQLText.isReserved(name):
            reason = "belongs to the history itself"
        case "view": reason = "is a view"
        case "virtual": reason = "is a virtual table"
        case "shadow": reason = "belongs to a virtual table"
        default: return
        }
        throw HistoryError(
            .notAnEntity, "\"\(name)\" \(reason) and cannot be tracked.",
            hint: "Only ordinary tables can be tracked.")
    }

    static func rowidName(hiddenBy columns: [String]) -> String? {
        let taken = Set<BinaryText>(names: columns.map(SQLText.folded))
        // The first name that no column has, nor is likely to get before the tracking is next updated.
        return ["_rowid_", "rowid", "oid"].first { !taken.contains($0) }
    }

    /// The entity for the table, with the columns to preserve of deleted rows.
    ///
    /// - Throws: `HistoryError` with `.notAnEntity` for a column that does not exist.
    func entity(shape: Int64, preserving names: [String]) throws -> Entity {
        let known = columns.map { Entity.Column(name: $0.name, declaredType: $0.declaredType) }
        let folded = Set<BinaryText>(names: known.map { SQLText.folded($0.name) })
        for name in names where !folded.contains(SQLText.folded(name)) {
            throw HistoryError(
                .notAnEntity, "The table \"\(self.name)\" has no column \"\(name)\" to preserve.",
                hint: "Its columns are \(known.map { "\"\($0.name)\"" }.joined(separator: ", ")).")
        }
        let wanted = Set<BinaryText>(names: names.map(SQLText.folded))
        let preserved = known.filter { wanted.contains(SQLText.folded($0.name)) }
        return Entity(
            shape: shape, name: name, columns: known, key: key, preserved: preserved,
            hasPlainTombstone: preserved.count == 1)
    }
}
