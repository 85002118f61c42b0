import GRDB
import GRDBSQLite

/// Steps through the transactions of a Core Data history and their changes, side by side.
struct CoreDataRows {
    let db: Database
    let catalog: CoreDataCatalog
    let filter: HistoryFilter
    let isReversed: Bool
    /// A transaction with more changes is outlined; nil for none.
    let partSize: Int?
    let work: WorkLimit

    private var origins = CoreDataOrigins()
    private var decoder: CoreDataDecoder
    /// After so many rows a piece of work ends, and another begins.
    private static let rowsPerWork = 10_000
    private var rowCount = 0

    init(
        _ db: Database, _ catalog: CoreDataCatalog, filter: HistoryFilter = HistoryFilter(),
        isReversed: Bool = false, partSize: Int? = nil, work: WorkLimit
    ) {
        self.db = db
        self.catalog = catalog
        self.filter = filter
        self.isReversed = isReversed
        self.partSize = partSize
        self.work = work
        decoder = CoreDataDecoder(catalog)
    }

    // MARK: Batches

    /// - Parameters:
    ///   - number: The transaction after which it begins, or before which, backwards.
    ///   - limit: The number of changes after which the batch ends. A transaction without any counts as one.
    mutating func batch(after number: Int64, through last: Int64, limit: Int) throws -> HistoryBatch {
        let order = isReversed ? "< ?1 ORDER BY Z_PK DESC" : "> ?1 ORDER BY Z_PK"
        let rows = try statement(catalog.tables.transactionQuery(order))
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, number)
        var changes = try ChangeCursor(db, catalog.tables, isReversed: isReversed, from: number)
        defer { changes.end() }
        var transactions: [HistoryTransaction] = []
        var end = number
        var fingerprint: String?
        var count = 0
        func batch(isLast: Bool) -> HistoryBatch {
            HistoryBatch(transactions: transactions, end: end, isLast: isLast, fingerprint: fingerprint)
        }
        while let id = try next(rows, after: end) {
            if id > last { break }
            if count >= limit { return batch(isLast: false) }
            let origin = try origins.origin(rows, db, catalog.tables)
            let own = CoreDataTables.fingerprint(rows, 1)
            let (read, seen) = try self.changes(of: id, origin, &changes)
            if read == nil {
                // A large one is alone in its batch.
                if count > 0 { return batch(isLast: false) }
                let outline = try outline(of: id, fingerprint: own)
                transactions = [
                    HistoryTransaction(
                        token: HistoryToken(store: catalog.storeID, number: id), of: origin, outline: outline)
                ]
                (end, fingerprint) = (id, own)
                return batch(isLast: false)
            }
            if let read, let wanted = wanted(id, origin, read, isWhole: seen == 0) {
                transactions.append(wanted)
            }
            (end, fingerprint) = (id, own)
            count += max(1, seen)
        }
        return batch(isLast: last == .max)
    }

    private func wanted(_ id: Int64, _ origin: Origin, _ changes: [HistoryChange], isWhole: Bool)
        -> HistoryTransaction?
    {
        guard filter.accepts(origin), !changes.isEmpty || (isWhole && filter.acceptsEmpty) else { return nil }
        return HistoryTransaction(
            HistoryToken(store: catalog.storeID, number: id), origin.authorship, nil, origin.timestamp,
            .changes(isReversed ? changes.reversed() : changes))
    }

    /// - Returns: The changes that are wanted, nil where there are too many to be read at once; and how many there are.
    private mutating func changes(of id: Int64, _ origin: Origin, _ cursor: inout ChangeCursor) throws
        -> ([HistoryChange]?, seen: Int)
    {
        var changes: [HistoryChange] = []
        var seen = 0
        let isWanted = filter.accepts(origin)
        while let row = try cursor.row(of: id) {
            countRow()
            seen += 1
            if let partSize, seen > partSize { return (nil, seen) }
            if isWanted {
                let (known, operation) = try decoder.kind(row)
                if filter.accepts(known.entity, operation) {
                    let objectID = try decoder.objectID(row, known)
                    if filter.accepts(objectID) {
                        changes.append(
                            try decoder.change(row, known, operation, objectID, at: origin.timestamp))
                    }
                }
            }
            try cursor.advance()
        }
        return (changes, seen)
    }

    private mutating func next(_ rows: OpaquePointer, after last: Int64) throws -> Int64? {
        guard try rows.step(db) else { return nil }
        countRow()
        let id = sqlite3_column_int64(rows, 0)
        // The pages of a damaged table may lead back to where they were.
        guard isReversed ? id < last : id > last, HistoryPosition.range.contains(id) else {
            throw UnexpectedValue("the transaction \(id) follows the transaction \(last)")
        }
        return id
    }

    private mutating func countRow() {
        rowCount += 1
        if rowCount % Self.rowsPerWork == 0 { work.begin() }
    }

    private func statement(_ sql: String) throws -> OpaquePointer {
        let rows = try db.cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(rows)
        return rows
    }

    /// Who made the transactions after one, and when.
    mutating func backlog(after number: Int64) throws -> Backlog {
        let rows = try statement(catalog.tables.transactionQuery("> ?1 ORDER BY Z_PK"))
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, number)
        var backlog = Backlog()
        var end = number
        while let id = try next(rows, after: end) {
            if backlog.entries.count == Backlog.limit {
                backlog.isWhole = false
                break
            }
            let origin = try origins.origin(rows, db, catalog.tables)
            backlog.entries.append(.init(author: origin.author, timestamp: origin.timestamp))
            end = id
        }
        return backlog
    }

    // MARK: Large transactions

    private mutating func outline(of id: Int64, fingerprint: String) throws -> TransactionOutline {
        var outline = TransactionOutline(partSize: partSize ?? TransactionOutline.partSize)
        var cursor = try ChangeCursor(db, catalog.tables, isReversed: false, from: id - 1)
        defer { cursor.end() }
        while let row = try cursor.row(of: id) {
            countRow()
            let (known, operation) = try decoder.kind(row)
            outline.add(sqlite3_column_int64(row, 0), known.entity, operation)
            try cursor.advance()
        }
        outline.fingerprint = fingerprint
        return outline
    }

    /// Changes of a large transaction, with their numbers.
    mutating func changes(_ unread: UnreadChanges) throws -> [(number: Int64, change: HistoryChange)] {
        let rows = try statement(
            catalog.tables.changeQuery("Z_PK >= ?1 AND Z_PK <= ?2 AND ZTRANSACTIONID = ?3 ORDER BY Z_PK"))
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, unread.range.lowerBound)
        sqlite3_bind_int64(rows, 2, unread.range.upperBound)
        sqlite3_bind_int64(rows, 3, unread.transaction.number)
        var changes: [(number: Int64, change: HistoryChange)] = []
        while try rows.step(db) {
            countRow()
            let (known, operation) = try decoder.kind(rows)
            guard unread.group?.has(known.entity, operation) ?? true else { continue }
            let change = try decoder.change(
                rows, known, operation, try decoder.objectID(rows, known), at: unread.transaction.timestamp)
            changes.append((sqlite3_column_int64(rows, 0), change))
        }
        return changes
    }

    /// Single changes of a large transaction; those that are not there are left out.
    mutating func changes(at numbers: [Int64], of transaction: HistoryTransaction) throws -> [HistoryChange] {
        let rows = try statement(catalog.tables.changeQuery("Z_PK = ?1 AND ZTRANSACTIONID = ?2"))
        defer { sqlite3_reset(rows) }
        var changes: [HistoryChange] = []
        for number in numbers {
            countRow()
            sqlite3_reset(rows)
            sqlite3_bind_int64(rows, 1, number)
            sqlite3_bind_int64(rows, 2, transaction.number)
            guard try rows.step(db) else { continue }
            let (known, operation) = try decoder.kind(rows)
            changes.append(
                try decoder.change(
                    rows, known, operation, try decoder.objectID(rows, known), at: transaction.timestamp))
        }
        return changes
    }
}

/// The changes after a transaction, in the order of their transactions.
private struct ChangeCursor {
    private let db: Database
    private let rows: OpaquePointer
    private let isReversed: Bool
    private let isIndexed: Bool
    private var isAtRow = false
    private var last: (transaction: Int64, number: Int64)?

    /// - Parameter number: A transaction whose changes are not wanted, nor those of what is beyond it.
    init(_ db: Database, _ tables: CoreDataTables, isReversed: Bool, from number: Int64) throws {
        self.db = db
        self.isReversed = isReversed
        isIndexed = tables.isIndexed
        let direction = isReversed ? " DESC" : ""
        let condition: String
        let start: Int64
        if isIndexed {
            let comparison = isReversed ? "<" : ">"
            condition =
                "ZTRANSACTIONID \(comparison) ?1 ORDER BY ZTRANSACTIONID\(direction), Z_PK\(direction)"
            start = number
        } else {
            // The numbers of changes grow with those of their transactions.
            condition = "Z_PK \(isReversed ? "<" : ">=") ?1 ORDER BY Z_PK\(direction)"
            start = try Self.firstChange(db, ofTransactionsFrom: isReversed ? number : number &+ 1)
        }
        rows = try db.cachedStatement(sql: tables.changeQuery(condition)).sqliteStatement
        sqlite3_reset(rows)
        sqlite3_bind_int64(rows, 1, start)
        try advance()
    }

    func end() { sqlite3_reset(rows) }

    /// The current row, if it is of a transaction; rows of transactions that are not there are passed over.
    mutating func row(of transaction: Int64) throws -> OpaquePointer? {
        while isAtRow, let last, isReversed ? last.transaction > transaction : last.transaction < transaction {
            try advance()
        }
        return isAtRow && last?.transaction == transaction ? rows : nil
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

    /// The number of the first change of a transaction or a later one, by halving.
    private static func firstChange(_ db: Database, ofTransactionsFrom number: Int64) throws -> Int64 {
        var (low, high): (Int64, Int64) = (0, 0)
        try db.rows("SELECT max(Z_PK) FROM ACHANGE") { row in
            if try row.step(db) { high = max(0, sqlite3_column_int64(row, 0)) }
        }
        high = min(high, HistoryPosition.range.upperBound) + 1
        while low < high {
            let middle = low + (high - low) / 2
            let isBefore = try db.rows(
                "SELECT ZTRANSACTIONID FROM ACHANGE WHERE Z_PK >= ? ORDER BY Z_PK LIMIT 1", middle
            ) { row in try row.step(db) && sqlite3_column_int64(row, 0) < number }
            if isBefore { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension HistoryFilter {
    /// Whether a transaction without changes may be wanted: where nothing is asked of its changes.
    var acceptsEmpty: Bool { entities == nil && operations == nil && objects == nil }
}
