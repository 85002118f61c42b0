import GRDB

/// The tables that a mirror gets rows of, and how SQL finds them; read again when the schema changes.
struct MirrorTables {
    struct Table {
        let schema: TableSchema
        let key: RowKey
        /// What is copied: all but generated columns, with the rowid where it is not one of them.
        let columns: [String]

        /// Whether the history may lack a row that is gone: then all rows travel with each change.
        var isDoubtful: Bool { !schema.doubts.isEmpty }
        var select: String {
            "SELECT \(columns.map(SQLText.name).joined(separator: ", ")) FROM main.\(SQLText.name(schema.name))"
        }

        init(_ table: TableSchema) {
            schema = table
            key = RowKey(table)
            var columns = table.columns.filter { !$0.isGenerated }.map(\.name)
            if let rowid = table.rowid, !table.keyIsRowid { columns.insert(rowid, at: 0) }
            self.columns = columns
        }
    }

    private var version: Int64 = -1
    private(set) var schema: MirrorSchema?
    private(set) var tables: [String: Table] = [:]

    /// - Throws: `DatabaseError`, `UnexpectedValue`, `HistoryError`.
    mutating func follow(_ db: Database, _ path: String) throws {
        let version = try Int64.fetchOne(try db.cachedStatement(sql: "PRAGMA schema_version")) ?? 0
        guard version != self.version || schema == nil else { return }
        try RecordingTables.check(db)
        let schema = try MirrorSchema(db)
        let store = try StoreSchema(db)
        tables = [:]
        for table in schema.tables { tables[table.name] = Table(try TableSchema(table.name, in: store)) }
        (self.schema, self.version) = (schema, version)
    }
}
