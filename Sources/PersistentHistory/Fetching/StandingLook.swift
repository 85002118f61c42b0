internal import GRDB
internal import GRDBSQLite

/// The statement by which nearly every look is made: whether the change is still there after which it looks, what came
/// after it, and what the store says of its history as a whole.
///
/// Where the schema has changed, SQLite would parse all of it; this statement then finds nothing. So the version
/// of the schema is not asked for either.
struct StandingLook: Sendable {
    /// For which it was prepared. In any other it finds nothing.
    let schemaVersion: Int64
    private let statement: HeldStatement

    init(_ db: Database, schemaVersion: Int64) throws {
        self.schemaVersion = schemaVersion
        statement = try HeldStatement(
            db,
            """
            SELECT id, origin, kind, object, detail,
                (SELECT value FROM historyd_store WHERE key = 'floor'), (SELECT value FROM historyd_store WHERE key = 'id')
            FROM historyd_change WHERE id >= ?1 ORDER BY id
            """, schema: .isReported)
    }

    /// What came after a change.
    ///
    /// - Returns: Nil where more has to be known, or anything is wrong: then the other way finds out what.
    func batch(after number: Int64, _ fingerprint: String, _ rows: HistoryRows, limit: Int) -> HistoryBatch? {
        statement.withStatement { statement in
            try? rows.batch(statement, after: number, fingerprint: fingerprint, limit: limit) { row in
                sqlite3_column_type(row, 5) == SQLITE_INTEGER && sqlite3_column_int64(row, 5) <= number
                    && ChangeDecoder.isText(row, 6, rows.store.text)
            }
        }
    }

    func end() { statement.end() }
}
