import GRDB
import GRDBSQLite

/// What the store says of its history as a whole.
struct HistoryHeader: Sendable, Equatable {
    let storeID: StoreID
    /// History up to here may have been deleted; reading after anything older has expired.
    let floor: Int64
    /// The newest change, 0 if there never was one.
    let newest: Int64
    /// Of the change that was asked about; see `HistoryBatch.fingerprint`. Nil if it has been deleted.
    let fingerprint: String?

    /// One statement, and no row that is copied: each look begins with it.
    init(_ db: Database, fingerprintAt number: Int64 = -1) throws {
        (storeID, floor, newest, fingerprint) = try db.firstRow(
            """
            SELECT (SELECT value FROM historyd_store WHERE key = 'id'),
                (SELECT value FROM historyd_store WHERE key = 'floor'), (SELECT max(id) FROM historyd_change),
                (SELECT CAST(origin AS TEXT) FROM historyd_change WHERE id = ? AND (kind & 3 <> 3 OR object IS NOT NULL))
            """, number
        ) { row in
            guard sqlite3_column_type(row, 0) != SQLITE_NULL else { throw HistoryError.notTracked }
            return (
                try Self.storeID(row),
                try Self.position(row, 1, "the position up to which the history was deleted"),
                try Self.position(row, 2, "the number of the newest change"),
                ChangeDecoder.bytes(row, 3).map { HistoryBatch.fingerprint($0) }
            )
        }
    }

    private static func storeID(_ row: OpaquePointer) throws -> StoreID {
        guard let id = ChangeDecoder.bytes(row, 0).flatMap({ StoreID($0) }) else {
            throw UnexpectedValue("the store's id", expected: "a UUID", found: row, 0)
        }
        return id
    }

    /// 0 if there is none.
    private static func position(_ row: OpaquePointer, _ column: Int32, _ what: String) throws -> Int64 {
        let type = sqlite3_column_type(row, column)
        if type == SQLITE_NULL { return 0 }
        let number = sqlite3_column_int64(row, column)
        guard type == SQLITE_INTEGER, HistoryPosition.range.contains(number) else {
            throw UnexpectedValue(what, expected: "an integer from 0 to 2^62", found: row, column)
        }
        return number
    }
}

extension Database {
    /// The first row of a statement that has one, lent and not copied.
    func firstRow<T>(_ sql: String, _ argument: Int64? = nil, _ read: (OpaquePointer) throws -> T) throws -> T {
        let statement = try cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(statement)
        defer { sqlite3_reset(statement) }
        if let argument { sqlite3_bind_int64(statement, 1, argument) }
        let result = sqlite3_step(statement)
        guard result == SQLITE_ROW else {
            throw DatabaseError(resultCode: ResultCode(rawValue: result), message: lastErrorMessage)
        }
        return try read(statement)
    }
}
