import GRDB

/// Shows that rows have other rowids than they had.
///
/// `.dump` writes no rowids but those of an INTEGER PRIMARY KEY. Whoever reads the dump numbers the rows of all other tables
/// from 1 on, among them rows that the history knows by their rowids. So a table of ours holds one row with a large
/// rowid. It is like those tables in all else: whatever keeps their rowids keeps this one.
enum RowidSentinel {
    enum Condition {
        /// There is none: the store never needed one.
        case isMissing
        case isInPlace
        /// Its row has another rowid: so have others.
        case isMoved
    }

    /// As if it belonged to a shape, which no entity has.
    static let table = "\(RecordingFormat.prefix)0_rowids"
    private static let rowid: Int64 = 1 << 40

    /// Whether the history or the known rows name rows of a table by rowids that SQLite gives.
    static func isNeeded(for table: TableSchema) -> Bool {
        table.rowid != nil && !table.keyIsRowid && (table.rowidIdentifies || table.needsKnownRows)
    }

    /// - Throws: `UnexpectedValue` where somebody has put something else in its place.
    static func condition(_ db: Database, _ schema: StoreSchema) throws -> Condition {
        guard let found = schema.table(table) else { return .isMissing }
        guard found.type == "table", !found.isWithoutRowid else {
            throw UnexpectedValue("\"\(table)\" is not a table of the history")
        }
        let isInPlace = try Bool.fetchOne(
            db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(table) WHERE rowid = ?)", arguments: [rowid])
        return isInPlace == true ? .isInPlace : .isMoved
    }

    /// Puts it in its place, and forgets what was noted by rowids.
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
