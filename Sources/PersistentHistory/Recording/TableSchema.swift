import GRDB

/// A table of the store as SQLite describes it, with what recording needs to know.
struct TableSchema: Sendable {
    struct Column: Sendable {
        let name: String
        let declaredType: String
        let isGenerated: Bool
        /// Whether two values that compare as equal may still differ, as 1 and 1.0 do in a column
        /// that converts nothing (https://www.sqlite.org/datatype3.html, "Type Affinity").
        let keepsStorageClass: Bool
        /// The default's expression, where the column must not be null.
        let defaultForNull: String?
    }

    /// A UNIQUE or PRIMARY KEY constraint, or a unique index.
    struct Uniqueness: Sendable {
        struct Term: Sendable {
            /// A column's name, or the text of an expression.
            let text: String
            let isExpression: Bool
            let collation: String
        }
        let terms: [Term]
        /// The WHERE of a partial index.
        let condition: String?
    }

    let name: String
    /// The CREATE TABLE statement.
    let sql: String
    let columns: [Column]
    let primaryKey: [String]
    let key: Entity.Key
    /// Whether a column of the primary key may be null.
    let keyMayBeNull: Bool
    /// What reaches the rowid, as it stands in SQL; nil for a WITHOUT ROWID table, or where columns hide it.
    let rowid: String?
    /// Whether the primary key is the rowid itself.
    let keyIsRowid: Bool
    let isAutoincrement: Bool
    /// Whether there is an index that is not ours.
    let hasIndex: Bool
    let uniqueness: [Uniqueness]
    /// Whether the application has triggers on the table that run before a change.
    let hasBeforeTriggers: Bool
    /// Whether foreign keys lead from the table back to it, so that removing a row may remove others.
    let refersToItself: Bool
    /// Whether any table of the store has both virtual and REAL columns: what such a REAL column gives,
    /// SQLite may store as an integer where triggers see a real.
    let storeHasUnseenIntegers: Bool

    /// Reads a table by its name, which SQLite takes in any case.
    ///
    /// - Throws: `HistoryError` with `.notAnEntity` for what can not be tracked.
    init(_ name: String, in db: Database) throws {
        guard
            let entry = try Row.fetchOne(
                db,
                sql: """
                    SELECT l.name, l.type, l.wr, l.strict, s.sql FROM pragma_table_list l
                    LEFT JOIN main.sqlite_schema s ON s.name = l.name AND s.type = 'table'
                    WHERE l.schema = 'main' AND l.name = ? COLLATE NOCASE
                    """,
                arguments: [name])
        else {
            throw HistoryError(
                .notAnEntity, "There is no table \"\(name)\" in the store.",
                hint: "Names are those of ordinary tables; `sqlite3 STORE .tables` lists them.")
        }
        let found: String = entry["name"]
        try Self.refuse(found, type: entry["type"])
        self.name = found
        sql = entry["sql"] ?? ""
        let withoutRowid: Bool = entry["wr"]
        let isStrict: Bool = entry["strict"]

        let info = try Row.fetchAll(db, sql: "SELECT * FROM pragma_table_xinfo(?)", arguments: [found])
        columns = info.map { row in
            let type: String = row["type"]
            return Column(
                name: row["name"], declaredType: type, isGenerated: (row["hidden"] as Int) >= 2,
                keepsStorageClass: Self.keepsStorageClass(type, isStrict: isStrict),
                defaultForNull: row["notnull"] ? (row["dflt_value"] as String?).map(SQLText.value) : nil)
        }
        let keyRows = info.filter { ($0["pk"] as Int) > 0 }.sorted { ($0["pk"] as Int) < ($1["pk"] as Int) }
        primaryKey = keyRows.map { $0["name"] }

        let indexes = try Row.fetchAll(db, sql: "SELECT * FROM pragma_index_list(?)", arguments: [found])
        hasIndex = indexes.contains { !($0["name"] as String).hasPrefix(RecordingFormat.prefix) }
        // INTEGER PRIMARY KEY is the rowid and has no index of its own (with the historical
        // exception of INTEGER PRIMARY KEY DESC: https://www.sqlite.org/lang_createtable.html#rowid).
        keyIsRowid =
            !withoutRowid && primaryKey.count == 1
            && (keyRows[0]["type"] as String).uppercased() == "INTEGER"
            && !indexes.contains { ($0["origin"] as String) == "pk" }
        // The word can stand in no other place than behind PRIMARY KEY, but in a name or a text: then
        // asking for the table's number is needless.
        isAutoincrement =
            try keyIsRowid && sql.uppercased().contains("AUTOINCREMENT")
            && db.tableExists("sqlite_sequence")
        keyMayBeNull = !withoutRowid && !keyIsRowid && keyRows.contains { !($0["notnull"] as Bool) }
        let rowidName = Self.rowidName(hiddenBy: columns.map(\.name))
        rowid = withoutRowid ? nil : keyIsRowid ? SQLText.name(primaryKey[0]) : rowidName

        if primaryKey.isEmpty {
            key = .rowid
        } else if primaryKey.count == 1, !keyMayBeNull {
            key = .column(primaryKey[0])
        } else {
            key = .columns(primaryKey)
        }
        if rowid == nil, !withoutRowid, primaryKey.isEmpty || keyMayBeNull {
            throw HistoryError(
                .notAnEntity,
                "The table \"\(found)\" has columns named rowid, _rowid_ and oid, and no primary key that is never null: its rows have no identity.",
                hint: "Give it a primary key that is NOT NULL.")
        }
        uniqueness = try indexes.filter { $0["unique"] }.map { try Self.uniqueness(of: $0, in: db) }
        hasBeforeTriggers =
            try Int.fetchOne(
                db,
                sql: """
                    SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE
                    AND sql LIKE '%before%' AND name NOT LIKE 'historyd\\_%' ESCAPE '\\' LIMIT 1
                    """,
                arguments: [found]) != nil
        refersToItself =
            try Int.fetchOne(
                db,
                sql: """
                    WITH RECURSIVE
                    keys(child, parent) AS MATERIALIZED (
                        SELECT lower(l.name), lower(f."table")
                        FROM main.sqlite_schema l, pragma_foreign_key_list(l.name) f WHERE l.type = 'table'),
                    descendants(name) AS (
                        SELECT child FROM keys WHERE parent = lower(?1)
                        UNION SELECT child FROM keys JOIN descendants ON parent = descendants.name)
                    SELECT 1 FROM descendants WHERE name = lower(?1)
                    """,
                arguments: [found]) != nil
        storeHasUnseenIntegers = try Self.hasUnseenIntegers(db)
    }

    /// REAL, FLOAT and DOUBLE, by the rules of https://www.sqlite.org/datatype3.html.
    private static func hasUnseenIntegers(_ db: Database) throws -> Bool {
        try Int.fetchOne(
            db,
            sql: """
                SELECT 1 FROM main.sqlite_schema s, pragma_table_xinfo(s.name) c
                WHERE s.type = 'table' AND s.rootpage > 0 AND s.sql LIKE '%AS%(%' AND c.hidden = 2
                AND EXISTS (SELECT 1 FROM pragma_table_xinfo(s.name) r
                    WHERE r.type LIKE '%REAL%' OR r.type LIKE '%FLOA%' OR r.type LIKE '%DOUB%') LIMIT 1
                """) != nil
    }

    private static func refuse(_ name: String, type: String) throws {
        let reason: String
        switch type {
        case _ where name.lowercased().hasPrefix("sqlite_"): reason = "is SQLite's own"
        case _ where name.lowercased().hasPrefix(RecordingFormat.prefix):
            reason = "belongs to the history itself"
        case "view": reason = "is a view"
        case "virtual": reason = "is a virtual table"
        case "shadow": reason = "belongs to a virtual table"
        default: return
        }
        throw HistoryError(
            .notAnEntity, "\"\(name)\" \(reason) and can not be tracked.", hint: "Only ordinary tables can.")
    }

    private static func rowidName(hiddenBy columns: [String]) -> String? {
        let taken = Set(columns.map { $0.lowercased() })
        // The first that no column has, nor is likely to get before tracking is brought up to date.
        return ["_rowid_", "rowid", "oid"].first { !taken.contains($0) }
    }

    /// A column with an INTEGER, NUMERIC, REAL or TEXT affinity stores equal values alike; one
    /// with none keeps what it is given.
    private static func keepsStorageClass(_ type: String, isStrict: Bool) -> Bool {
        let type = type.uppercased()
        if isStrict { return type == "ANY" || type == "BLOB" }
        if type.contains("INT") { return false }
        if type.contains("CHAR") || type.contains("CLOB") || type.contains("TEXT") { return false }
        return type.isEmpty || type.contains("BLOB")
    }

    private static func uniqueness(of index: Row, in db: Database) throws -> Uniqueness {
        let name: String = index["name"]
        let rows = try Row.fetchAll(
            db, sql: "SELECT * FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", arguments: [name])
        let sql = try String.fetchOne(
            db, sql: "SELECT sql FROM main.sqlite_schema WHERE type = 'index' AND name = ?", arguments: [name])
        let definition = sql.flatMap(IndexDefinition.init)
        let terms = rows.enumerated().map { position, row in
            if let column = row["name"] as String? {
                return Uniqueness.Term(text: column, isExpression: false, collation: row["coll"] ?? "BINARY")
            }
            let text =
                definition.map { $0.terms.indices.contains(position) ? $0.terms[position] : "NULL" } ?? "NULL"
            return Uniqueness.Term(text: text, isExpression: true, collation: row["coll"] ?? "BINARY")
        }
        return Uniqueness(terms: terms, condition: (index["partial"] as Bool) ? definition?.condition : nil)
    }

    /// The entity that the table makes, with the columns to preserve of deleted rows.
    ///
    /// - Throws: `HistoryError` with `.notAnEntity` for a column that does not exist.
    func entity(shape: Int64, preserving names: [String]) throws -> Entity {
        let known = columns.map { Entity.Column(name: $0.name, declaredType: $0.declaredType) }
        for name in names where !known.contains(where: { $0.name.lowercased() == name.lowercased() }) {
            throw HistoryError(
                .notAnEntity, "The table \"\(self.name)\" has no column \"\(name)\" to preserve.",
                hint: "Its columns are \(known.map { "\"\($0.name)\"" }.joined(separator: ", ")).")
        }
        let wanted = Set(names.map { $0.lowercased() })
        let preserved = known.filter { wanted.contains($0.name.lowercased()) }
        return Entity(
            shape: shape, name: name, columns: known, key: key, preserved: preserved,
            hasPlainTombstone: preserved.count == 1)
    }
}
