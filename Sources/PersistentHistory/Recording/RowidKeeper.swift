import GRDB

/// VACUUM may give rows without an INTEGER PRIMARY KEY new rowids
/// (https://www.sqlite.org/lang_vacuum.html), and with them a new identity where the rowid is all
/// a row is known by. In practice it does so for tables that have no index; one that holds no row
/// is enough to keep them, and costs a write nothing. The application's own may be dropped without a word to us.
enum RowidKeeper {
    static func keepRowids(of table: TableSchema, _ entity: Entity, _ db: Database) throws {
        for name in names(of: table, entity) {
            try db.execute(sql: "CREATE INDEX \(name) ON \(SQLText.name(table.name)) ((0)) WHERE 0")
        }
    }

    /// The name of the index, where there is to be one.
    static func names(of table: TableSchema, _ entity: Entity) -> [String] {
        table.rowidIdentifies && !table.hasLastingIndex
            ? ["\(RecordingFormat.prefix)\(entity.shape)_rowids"] : []
    }
}
