import GRDB
import GRDBSQLite

/// What a store says of its Core Data history as a whole.
struct CoreDataHeader: Sendable, Equatable {
    let storeID: StoreID
    /// Everything up to here has been purged, or never was.
    let floor: Int64
    /// Where the history ends, also where all of it was purged.
    let end: Int64

    init(_ db: Database) throws {
        storeID = try Self.storeID(db)
        let first = try Self.number(db, "SELECT min(Z_PK) FROM ATRANSACTION")
        let last = try Self.number(db, "SELECT max(Z_PK) FROM ATRANSACTION")
        // Core Data's own entities have numbers behind those of the app's.
        let given =
            try CoreDataTables.isTable(db, "Z_PRIMARYKEY")
            ? Self.number(
                db, "SELECT Z_MAX FROM Z_PRIMARYKEY WHERE Z_NAME = 'TRANSACTION' ORDER BY Z_ENT DESC LIMIT 1")
            : nil
        end = max(last ?? 0, given ?? 0)
        // Checked before anything is counted on from them.
        guard first ?? 1 >= 1, HistoryPosition.range.contains(end) else {
            throw UnexpectedValue("a transaction has a number that is none")
        }
        floor = first.map { $0 - 1 } ?? end
    }

    static func storeID(_ db: Database) throws -> StoreID {
        guard try CoreDataTables.isTable(db, "Z_METADATA") else {
            throw UnexpectedValue("the table Z_METADATA is missing")
        }
        return try db.rows("SELECT Z_UUID FROM Z_METADATA ORDER BY Z_VERSION DESC LIMIT 1") { row in
            guard try row.step(db), let id = ChangeDecoder.bytes(row, 0).flatMap({ StoreID($0) }) else {
                throw UnexpectedValue("Z_UUID, the store's id, is not a UUID")
            }
            return id
        }
    }

    /// The fingerprint of a transaction: its time, of which no two are the same but by chance. A migration that
    /// renumbers the entities leaves it.
    static func fingerprint(_ db: Database, at number: Int64) throws -> String? {
        try db.rows("SELECT ZTIMESTAMP FROM ATRANSACTION WHERE Z_PK = ?", number) { row in
            try row.step(db) ? fingerprint(row, 0) : nil
        }
    }

    static func fingerprint(_ row: OpaquePointer, _ column: Int32) -> String {
        String(sqlite3_column_double(row, column).bitPattern, radix: 16)
    }

    private static func number(_ db: Database, _ sql: String) throws -> Int64? {
        try db.rows(sql) { row in
            guard try row.step(db), sqlite3_column_type(row, 0) != SQLITE_NULL else { return nil }
            guard sqlite3_column_type(row, 0) == SQLITE_INTEGER else {
                throw UnexpectedValue("the number of a transaction", expected: "an integer", found: row, 0)
            }
            return sqlite3_column_int64(row, 0)
        }
    }
}
