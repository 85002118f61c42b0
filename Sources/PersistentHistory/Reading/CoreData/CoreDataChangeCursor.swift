import GRDB
import GRDBSQLite

/// The changes after a transaction, in the order of their transactions. They are read from the table
/// itself, because an index may be damaged.
struct CoreDataChangeCursor {
    private let db: Database
    private let rows: OpaquePointer
    private let isReversed: Bool
    private var isAtRow = false
    private var last: (transaction: Int64, number: Int64)?

    /// - Parameter number: The transaction to begin after. Its own changes, and those on its other side,
    ///   are skipped. Before the first and after the last one, all changes are examined.
    init(
        _ db: Database, _ tables: CoreDataTables, isReversed: Bool, from number: Int64, _ bounds: HistoryBounds
    ) throws {
        self.db = db
        self.isReversed = isReversed
        // The numbers of changes grow with those of their transactions.
        let isOutside = isReversed ? number > bounds.end : number < 1
        let start: Int64 =
            if isOutside { isReversed ? .max : .min } else {
                try Self.firstChange(db, ofTransactionsFrom: isReversed ? number : number + 1)
            }
        let condition = isReversed ? "Z_PK < ?1 ORDER BY Z_PK DESC" : "Z_PK >= ?1 ORDER BY Z_PK"
        rows = try db.cachedStatement(sql: tables.changeQuery(condition)).sqliteStatement
        sqlite3_reset(rows)
        sqlite3_bind_int64(rows, 1, start)
        try advance()
    }

    func end() { sqlite3_reset(rows) }

    /// The current row, if it belongs to a transaction.
    func row(of transaction: Int64) throws -> OpaquePointer? {
        guard isAtRow, let last else { return nil }
        if isReversed ? last.transaction > transaction : last.transaction < transaction { throw isLost }
        return last.transaction == transaction ? rows : nil
    }

    /// Requires that no changes are left after the last transaction.
    func requireEnd() throws { if isAtRow { throw isLost } }

    private var isLost: UnexpectedValue {
        UnexpectedValue(
            "the change \(last?.number ?? 0) is of the transaction \(last?.transaction ?? 0), which is missing")
    }

    mutating func advance() throws {
        isAtRow = try rows.step(db)
        guard isAtRow else { return }
        let new = (transaction: sqlite3_column_int64(rows, 1), number: sqlite3_column_int64(rows, 0))
        if let last {
            let (a, b) = isReversed ? (new, last) : (last, new)
            guard a.transaction < b.transaction || (a.transaction == b.transaction && a.number < b.number)
            else {
                throw UnexpectedValue("the change \(new.number) is not in the order of the transactions")
            }
        }
        last = new
    }

    /// The number of the first change of a transaction or a later one, by binary search.
    private static func firstChange(_ db: Database, ofTransactionsFrom number: Int64) throws -> Int64 {
        var (low, high): (Int64, Int64) = (0, 0)
        try db.rows("SELECT max(Z_PK) FROM ACHANGE NOT INDEXED") { row in
            if try row.step(db) { high = max(0, sqlite3_column_int64(row, 0)) }
        }
        high = min(high, HistoryPosition.range.upperBound) + 1
        while low < high {
            let middle = low + (high - low) / 2
            let isBefore = try db.rows(
                "SELECT ZTRANSACTIONID FROM ACHANGE NOT INDEXED WHERE Z_PK >= ? ORDER BY Z_PK LIMIT 1", middle
            ) { row in try row.step(db) && sqlite3_column_int64(row, 0) < number }
            if isBefore { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
