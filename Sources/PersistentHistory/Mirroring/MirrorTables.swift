import GRDB

/// The tables that a mirror gets rows of, and how SQL finds them; read again when the schema changes.
struct MirrorTables {
    private var version: Int64 = -1
    private(set) var schema: MirrorSchema?
    /// The schema's, which takes long to calculate.
    private(set) var digest = ""
    /// By their numbers.
    private(set) var shapes: [Int64: Entity] = [:]
    /// With the rowid, which stays the same in a mirror.
    private(set) var tables: [BinaryText: RowTable] = [:]

    mutating func follow(_ db: Database, _ path: String) throws {
        let version = try db.currentSchemaVersion()
        guard version != self.version || schema == nil else { return }
        try RecordingTables.check(db)
        let schema = try MirrorSchema(db)
        let store = try StoreSchema(db)
        tables = [:]
        for table in schema.tables {
            tables[table.name] = RowTable(try TableSchema(table.name, in: store), withRowid: true)
        }
        shapes = try EntityCatalog(db).shapes
        (self.schema, digest, self.version) = (schema, schema.digest, version)
    }
}
