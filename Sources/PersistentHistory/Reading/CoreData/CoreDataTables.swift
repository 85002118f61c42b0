import GRDB
import GRDBSQLite

/// The tables of a Core Data history, as far as reading needs them.
struct CoreDataTables: Sendable, Hashable {
    /// The columns whose strings are in separate tables (`…TS` columns).
    let stringColumns: Set<BinaryText>
    let transactionColumns: Set<BinaryText>
    /// The number of consecutive columns `ZTOMBSTONE0` and so on.
    let tombstones: Int
    let hasColumns: Bool
    /// An index of the changes by transaction. It is not used for reading, because it may be damaged, but
    /// it shows whether the table is.
    let index: BinaryText?

    /// The tables of a store without a history.
    static let none = CoreDataTables()

    private init() {
        (stringColumns, transactionColumns, tombstones, hasColumns, index) = ([], [], 0, false, nil)
    }

    init(_ db: Database) throws {
        // Without the numbers of the entities only their names are unknown. Without its UUID the store
        // has no tokens.
        for name in ["ATRANSACTION", "ACHANGE", "Z_METADATA"] where !(try StoreRecorder.isTable(db, name)) {
            throw UnexpectedValue("the table \(name) is missing")
        }
        let transactionColumns = try Self.columns(of: "ATRANSACTION", db)
        let changeColumns = try Self.columns(of: "ACHANGE", db)
        let missing =
            ["Z_PK", "ZTIMESTAMP"].filter { !transactionColumns.contains($0) }
            + ["Z_PK", "ZCHANGETYPE", "ZENTITY", "ZENTITYPK", "ZTRANSACTIONID"].filter {
                !changeColumns.contains($0)
            }
        if let name = missing.first { throw UnexpectedValue("the history's column \(name) is missing") }
        let hasStrings =
            try StoreRecorder.isTable(db, "ATRANSACTIONSTRING")
            && Self.columns(of: "ATRANSACTIONSTRING", db).isSuperset(of: ["Z_PK", "ZNAME"])
        self.transactionColumns = transactionColumns
        stringColumns = hasStrings ? transactionColumns.filter { $0.text.hasSuffix("TS") } : []
        var tombstones = 0
        while changeColumns.contains("ZTOMBSTONE\(tombstones)") { tombstones += 1 }
        self.tombstones = tombstones
        hasColumns = changeColumns.contains("ZCOLUMNS")
        index = try Self.index(db)
    }

    static func columns(of table: String, _ db: Database) throws -> Set<BinaryText> {
        Set(
            names: try Row.fetchAll(
                db, sql: "SELECT name, hidden FROM pragma_table_xinfo(?)", arguments: [table]
            )
            // A generated column may contain any expression.
            .filter { try $0.integer("hidden") == 0 }.map { try $0.text("name") })
    }

    private static func index(_ db: Database) throws -> BinaryText? {
        try Row.fetchOne(
            db,
            sql: """
                SELECT l.name FROM pragma_index_list('ACHANGE') AS l JOIN pragma_index_info(l.name) AS i
                WHERE l.partial = 0 AND i.seqno = 0 AND i.name = 'ZTRANSACTIONID' ORDER BY 1
                """
        ).map { BinaryText(try $0.text("name")) }
    }

    /// Compares the number of a transaction's changes in the table and in the index.
    func check(_ db: Database, changesOf transaction: Int64, count: Int) throws {
        guard let index else { return }
        let sql =
            "SELECT count(*) FROM ACHANGE INDEXED BY \(SQLText.name(index.text)) WHERE ZTRANSACTIONID = ?"
        let indexed = try db.rows(sql, transaction) { row in
            try row.step(db) ? sqlite3_column_int64(row, 0) : 0
        }
        guard indexed != count else { return }
        throw UnexpectedValue(
            "the transaction \(transaction) has \(count, "change") in the table ACHANGE, and \(indexed) in its index"
        )
    }

    // MARK: Statements

    /// The columns of a transaction's texts. `transactionQuery` selects them twice, after its first two
    /// columns.
    static let texts = ["ZAUTHOR", "ZCONTEXTNAME", "ZPROCESSID", "ZBUNDLEID"]

    /// Selects number and time of transactions, the numbers of their texts, and the texts themselves.
    func transactionQuery(_ condition: String) -> String {
        let numbers = Self.texts.map { stringColumns.contains($0 + "TS") ? $0 + "TS" : "NULL" }
        let texts = Self.texts.map { transactionColumns.contains($0) ? $0 : "NULL" }
        return
            "SELECT Z_PK, ZTIMESTAMP, \((numbers + texts).joined(separator: ", ")) FROM ATRANSACTION NOT INDEXED WHERE Z_PK \(condition)"
    }

    /// Selects number, transaction, operation, entity and object of changes, their bitmaps and
    /// tombstones.
    func changeQuery(_ condition: String) -> String {
        let tombstones = (0..<tombstones).map { ", ZTOMBSTONE\($0)" }.joined()
        return """
            SELECT Z_PK, ZTRANSACTIONID, ZCHANGETYPE, ZENTITY, ZENTITYPK, \(hasColumns ? "ZCOLUMNS" : "NULL")\(tombstones) \
            FROM ACHANGE NOT INDEXED WHERE \(condition)
            """
    }
}

/// A store's Core Data history as a whole.
extension CoreDataTables {
    /// Everything before the first transaction was purged, or never existed.
    static func bounds(_ db: Database) throws -> HistoryBounds {
        let first = try number(db, "SELECT min(Z_PK) FROM ATRANSACTION NOT INDEXED")
        let last = try number(db, "SELECT max(Z_PK) FROM ATRANSACTION NOT INDEXED")
        // Core Data's own entities have higher numbers than the app's.
        let hasNewest =
            try StoreRecorder.isTable(db, "Z_PRIMARYKEY")
            && columns(of: "Z_PRIMARYKEY", db).isSuperset(of: ["Z_ENT", "Z_NAME", "Z_MAX"])
        let given =
            try hasNewest
            ? number(
                db,
                "SELECT Z_MAX FROM Z_PRIMARYKEY NOT INDEXED WHERE Z_NAME = 'TRANSACTION' ORDER BY Z_ENT DESC LIMIT 1"
            )
            : nil
        let end = max(last ?? 0, given ?? 0)
        // Checked before anything is computed from them.
        guard first ?? 1 >= 1, HistoryPosition.range.contains(end) else {
            throw UnexpectedValue("a transaction has a number that is none")
        }
        return HistoryBounds(store: try storeID(db), floor: first.map { $0 - 1 } ?? end, end: end)
    }

    static func storeID(_ db: Database) throws -> StoreID {
        guard try StoreRecorder.isTable(db, "Z_METADATA") else {
            throw UnexpectedValue("the table Z_METADATA is missing")
        }
        let own = try columns(of: "Z_METADATA", db)
        guard own.contains("Z_UUID") else { throw UnexpectedValue("the column Z_METADATA.Z_UUID is missing") }
        return try db.rows("SELECT Z_UUID FROM Z_METADATA NOT INDEXED \(newest(own)) LIMIT 1") { row in
            guard try row.step(db), let id = row.textBytes(0).flatMap({ StoreID($0) }) else {
                throw UnexpectedValue("Z_UUID, the store's id, is not a UUID")
            }
            return id
        }
    }

    /// Sorts the newest row of `Z_METADATA` first.
    static func newest(_ columns: Set<BinaryText>) -> String {
        columns.contains("Z_VERSION") ? "ORDER BY Z_VERSION DESC" : ""
    }

    /// The fingerprint of a transaction: its time, which two transactions share only by chance. A
    /// migration that renumbers the entities does not change it.
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
