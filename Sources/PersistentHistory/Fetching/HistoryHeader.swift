import GRDB
import GRDBSQLite

/// What the store says of its history as a whole.
struct HistoryHeader: Sendable, Equatable {
    let storeID: StoreID
    /// History up to here may have been deleted; reading after anything older has expired.
    let floor: Int64
    /// The newest change, 0 where there never was one.
    let newest: Int64

    /// One statement, and no row that is copied: each look begins with it.
    init(_ db: Database) throws {
        let statement = try db.cachedStatement(
            sql: """
                SELECT (SELECT value FROM historyd_store WHERE key = 'id'),
                    (SELECT value FROM historyd_store WHERE key = 'floor'), (SELECT max(id) FROM historyd_change)
                """
        ).sqliteStatement
        sqlite3_reset(statement)
        defer { sqlite3_reset(statement) }
        let result = sqlite3_step(statement)
        guard result == SQLITE_ROW else {
            throw DatabaseError(resultCode: ResultCode(rawValue: result), message: db.lastErrorMessage)
        }
        guard sqlite3_column_type(statement, 0) != SQLITE_NULL else { throw HistoryError.notTracked }
        storeID = StoreID(ChangeDecoder.text(statement, 0))
        floor = sqlite3_column_int64(statement, 1)
        newest = sqlite3_column_int64(statement, 2)
    }
}
