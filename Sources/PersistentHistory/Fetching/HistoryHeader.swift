import GRDB

/// What the store says of its history as a whole.
struct HistoryHeader: Sendable, Equatable {
    let storeID: StoreID
    /// History up to here may have been deleted; reading after anything older has expired.
    let floor: Int64
    /// The newest change, 0 where there never was one.
    let newest: Int64

    init(_ db: Database) throws {
        func value<T: DatabaseValueConvertible>(_ sql: String) throws -> T? {
            try T.fetchOne(try db.cachedStatement(sql: sql))
        }
        guard let id: String = try value("SELECT value FROM historyd_store WHERE key = 'id'") else {
            throw HistoryError.notTracked
        }
        storeID = StoreID(id)
        floor = try value("SELECT value FROM historyd_store WHERE key = 'floor'") ?? 0
        newest = try value("SELECT max(id) FROM historyd_change") ?? 0
    }
}
