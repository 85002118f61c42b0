import GRDB

/// The tables that a mirror gets rows of, and how SQL finds them; read again when the schema changes.
struct MirrorTables {
    private var version: Int64 = -1
    private(set) var schema: MirrorSchema?
    /// With the rowid, which stays the same in a mirror.
    private(set) var tables: [String: RowTable] = [:]

    /// - Throws: `DatabaseError`, `UnexpectedValue`, `HistoryError`.
    mutating func follow(_ db: Database, _ path: String) throws {
        let version = try Int64.fetchOne(try db.cachedStatement(sql: "PRAGMA schema_version")) ?? 0
        guard version != self.version || schema == nil else { return }
        try RecordingTables.check(db)
        let schema = try MirrorSchema(db)
        let store = try StoreSchema(db)
        tables = [:]
        for table in schema.tables {
            tables[table.name] = RowTable(try TableSchema(table.name, in: store), withRowid: true)
        }
        (self.schema, self.version) = (schema, version)
    }
}
