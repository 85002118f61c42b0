import GRDB

/// Shows that rows have other rowids than before.
///
/// `.dump` writes only the rowids of an INTEGER PRIMARY KEY. Restoring the dump numbers the rows of all
/// other tables from 1, including rows that the history identifies by rowid. So a table of ours has one
/// row with a large rowid. Apart from that it is like those tables: whatever keeps their rowids keeps
/// this one.
enum RowidSentinel {
    enum Condition {
        /// The table does not exist: the store never needed one.
        case isMissing
        case isInPlace
        /// Its row has another rowid, so others do, too.
        case isMoved
    }

    /// Named as if it belonged to shape 0, which no entity has.
    static let table = "\(RecordingFormat.prefix)0_rowids"
    private static let rowid: Int64 = 1 << 40

    /// Whether the history or the known rows identify rows of a table by rowids that SQLite assigns.
    static func isNeeded(for table: TableSchema) -> Bool {
        table.rowid != nil && !table.keyIsRowid && (table.rowidIdentifies || table.needsKnownRows)
    }

    /// - Throws: `UnexpectedValue` if something else is in its place.
    static func condition(_ db: Database, _ schema: StoreSchema) throws -> Condition {
        guard let found = schema.table(table) else { return .isMissing }
        guard found.type == "table", !found.isWithoutRowid else {
            throw UnexpectedValue("\"\(table)\" is not a table of the history")
        }
        let isInPlace = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(table) WHERE rowid = ?)", arguments: [rowid])
        return isInPlace == true ? .isInPlace : .isMoved
    }

    /// Creates the sentinel, and deletes what was noted by rowid.
    static func place(_ db: Database) throws {
        try db.execute(
            sql: """
                DROP TABLE IF EXISTS main.\(table);
                CREATE TABLE \(table) (x);
                CREATE INDEX \(table)_kept ON \(table) ((0)) WHERE 0;
                DELETE FROM \(RecordingFormat.conflictTable);
                """)
        try db.execute(sql: "INSERT INTO \(table) (rowid) VALUES (?)", arguments: [rowid])
    }
}
