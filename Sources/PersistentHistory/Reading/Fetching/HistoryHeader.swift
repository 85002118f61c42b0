package import GRDB
import GRDBSQLite

/// A store's data about its history as a whole.
package struct HistoryHeader: Sendable, Equatable {
    package let storeID: StoreID
    /// History up to here may have been deleted. Reading from an older position is not possible.
    package let floor: Int64
    /// The newest change, 0 if there never was one.
    package let newest: Int64
    /// The fingerprint of the requested change; see `HistoryBatch.fingerprint`. Nil if it has been
    /// deleted.
    package let fingerprint: String?

    /// Where the history ends, even if all of it was deleted.
    package var end: Int64 { max(newest, floor) }
    var bounds: HistoryBounds { HistoryBounds(store: storeID, floor: floor, end: end) }

    package init(_ db: Database, fingerprintAt number: Int64 = -1) throws {
        (storeID, floor) = try Self.bounds(db)
        newest = try db.firstRow("SELECT max(id) FROM historyd_change") { row in
            try Self.position(row, 0, "the number of the newest change")
        }
        fingerprint = number < 0 ? nil : try Self.fingerprint(db, at: number)
    }

    /// What does not change with each commit: the store's id and its floor.
    ///
    /// - Parameter known: An id that is not parsed again if it is unchanged.
    static func bounds(_ db: Database, known: StoreID? = nil) throws -> (storeID: StoreID, floor: Int64) {
        // The two are adjacent in their table: two searches would take longer.
        try db.rows("SELECT key, value FROM historyd_store WHERE key BETWEEN 'floor' AND 'id'") { rows in
            var (id, floor) = (StoreID?.none, Int64(0))
            while try rows.step(db) {
                if rows.isText(0, "id") {
                    id = known.flatMap { rows.isText(1, $0.text) ? $0 : nil }
                    id = try id ?? storeID(rows, 1)
                } else if rows.isText(0, "floor") {
                    floor = try position(rows, 1, "the position up to which the history was deleted")
                }
            }
            guard let id else { throw HistoryError.notTracked(db) }
            return (id, floor)
        }
    }

    /// The fingerprint of a change; nil if it has been deleted, or does not exist.
    package static func fingerprint(_ db: Database, at number: Int64) throws -> String? {
        try db.rows(
            "SELECT CAST(origin AS TEXT) FROM historyd_change WHERE id = ? AND (kind & 3 <> 3 OR object IS NOT NULL)",
            number
        ) { rows in
            try rows.step(db) ? rows.textBytes(0).map { HistoryBatch.fingerprint($0) } : nil
        }
    }

    private static func storeID(_ row: OpaquePointer, _ column: Int32) throws -> StoreID {
        guard let id = row.textBytes(column).flatMap({ StoreID($0) }) else {
            throw UnexpectedValue("the store's id", expected: "a UUID", found: row, column)
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

extension HistoryReader {
    /// Checks that everything after a token still exists.
    ///
    /// For `batch`, the number 0 means the start of the existing history. A token with that number,
    /// however, has expired as soon as anything was deleted.
    ///
    /// - Throws: `HistoryError` with `.tokenForeign`, `.tokenExpired` or `.tokenAhead`.
    public func check(after token: HistoryToken) throws {
        try bounds().check(after: token)
    }

    /// Where to start reading backwards from before a token's transaction.
    ///
    /// - Returns: A number for `reversedBatch(before:)`: that of the transaction's first change.
    /// - Throws: `HistoryError` with `.tokenForeign` or `.tokenAhead`.
    public func start(of token: HistoryToken) throws -> Int64 {
        try read { db in
            let bounds = try HistoryHeader(db).bounds
            try bounds.checkReaches(token)
            if token.number < bounds.floor { return token.number }
            let last = try Int64.fetchOne(
                db,
                sql: """
                    SELECT id FROM historyd_change WHERE id < ?1
                    AND origin IS NOT (SELECT origin FROM historyd_change WHERE id = ?1) ORDER BY id DESC LIMIT 1
                    """, arguments: [token.number])
            return (last ?? 0) + 1
        }
    }

    /// Each shape that an entity has or had, including entities that are no longer tracked.
    ///
    /// - Throws: `HistoryError`.
    public func entities() throws -> [Entity] {
        try read { db in try EntityCatalog(db).shapes.values.sorted { $0.shape < $1.shape } }
    }
}

extension HistoryHeader {
    /// Whether the requested change differs from the one of a fingerprint, because a backup was restored.
    /// A deleted change shows nothing.
    func isReplaced(_ known: String?) -> Bool { known != nil && fingerprint != nil && fingerprint != known }
}
