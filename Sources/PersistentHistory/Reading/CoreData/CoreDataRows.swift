import GRDB
import GRDBSQLite

/// Reads the transactions of a Core Data history and their changes in parallel.
struct CoreDataRows {
    let db: Database
    let catalog: CoreDataCatalog
    let filter: HistoryFilter
    let isReversed: Bool
    /// A transaction with more changes is outlined; nil for none.
    let partSize: Int?
    let work: WorkLimit
    let bounds: HistoryBounds

    private var origins = CoreDataOrigins()
    private var decoder: CoreDataDecoder
    /// A unit of work ends after this many rows.
    private static let rowsPerWork = 10_000
    private var rowCount = 0

    init(
        _ db: Database, _ catalog: CoreDataCatalog, _ bounds: HistoryBounds,
        filter: HistoryFilter = HistoryFilter(), isReversed: Bool = false, partSize: Int? = nil, work: WorkLimit
    ) {
        self.bounds = bounds
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
    ///   - number: The transaction to begin after, or before if reading backwards.
    ///   - limit: The number of changes after which the batch ends. A transaction without changes counts
    ///     as one.
    /// - Throws: `HistoryGap` if transactions are missing right after that transaction, or before it.
    mutating func batch(after number: Int64, through last: Int64, limit: Int) throws -> HistoryBatch {
        // Backwards, a gap at the end of the history must be noticed, too.
        let number = isReversed ? min(number, bounds.end + 1) : number
        let order = isReversed ? "< ?1 ORDER BY Z_PK DESC" : "> ?1 ORDER BY Z_PK"
        let rows = try statement(catalog.tables.transactionQuery(order))
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, number)
        var changes = try CoreDataChangeCursor(db, catalog.tables, isReversed: isReversed, from: number, bounds)
        defer { changes.end() }
        var transactions: [HistoryTransaction] = []
        var end = number
        var fingerprint: String?
        var size = ReadSize()
        func batch(isLast: Bool) -> HistoryBatch {
            HistoryBatch(transactions: transactions, end: end, isLast: isLast, fingerprint: fingerprint)
        }
        while let id = try next(rows, after: end) {
            if id > last { return batch(isLast: false) }
            if let gap = HistoryGap(after: min(end, id), before: max(end, id), floor: bounds.floor) {
                guard end != number else { throw gap }
                return batch(isLast: false)
            }
            if size.count >= limit || size.bytes >= TransactionOutline.partBytes { return batch(isLast: false) }
            let origin = try origins.origin(rows, db, catalog.tables)
            let own = CoreDataTables.fingerprint(rows, 1)
            let (read, seen) = try self.changes(of: id, origin, &changes)
            guard let read else {
                // A large transaction is alone in its batch.
                if size.count > 0 { return batch(isLast: false) }
                let outline = try outline(of: id, fingerprint: own)
                transactions = [
                    HistoryTransaction(
                        token: HistoryToken(store: catalog.storeID, number: id), of: origin, outline: outline)
                ]
                (end, fingerprint) = (id, own)
                return batch(isLast: false)
            }
            if let wanted = wanted(id, origin, read, isWhole: seen.count == 0) { transactions.append(wanted) }
            (end, fingerprint) = (id, own)
            size.add(max(1, seen.count), bytes: seen.bytes)
        }
        if let gap = missingAtEnd(end) {
            guard end != number else { throw gap }
            return batch(isLast: false)
        }
        if last == .max { try changes.requireEnd() }
        return batch(isLast: last == .max)
    }

    /// The gap after the last existing transaction: the store records the number of the newest.
    private func missingAtEnd(_ end: Int64) -> HistoryGap? {
        isReversed ? nil : HistoryGap(after: end, before: bounds.end + 1, floor: bounds.floor)
    }

    /// The last gap, starting from a known one.
    mutating func lastGap(from first: HistoryGap) throws -> HistoryGap {
        let rows = try statement("SELECT Z_PK FROM ATRANSACTION NOT INDEXED WHERE Z_PK > ?1 ORDER BY Z_PK")
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, first.end)
        var (gap, end) = (first, first.end)
        while try rows.step(db) {
            countRow()
            let id = sqlite3_column_int64(rows, 0)
            if let next = HistoryGap(after: end, before: id, floor: bounds.floor) { gap = next }
            end = max(end, id)
        }
        return HistoryGap(after: end, before: bounds.end + 1, floor: bounds.floor) ?? gap
    }

    private func wanted(_ id: Int64, _ origin: Origin, _ changes: [HistoryChange], isWhole: Bool)
        -> HistoryTransaction?
    {
        guard filter.accepts(origin), !changes.isEmpty || (isWhole && filter.acceptsEmpty) else { return nil }
        return HistoryTransaction(
            HistoryToken(store: catalog.storeID, number: id), origin.authorship, nil, origin.timestamp,
            .changes(isReversed ? changes.reversed() : changes))
    }

    /// - Returns: The wanted changes, nil if there are too many to read at once; and their number.
    private mutating func changes(of id: Int64, _ origin: Origin, _ cursor: inout CoreDataChangeCursor) throws
        -> ([HistoryChange]?, seen: ReadSize)
    {
        var changes: [HistoryChange] = []
        var seen = ReadSize()
        var kept = ReadSize()
        let isWanted = filter.accepts(origin)
        while let row = try cursor.row(of: id) {
            countRow()
            let bytes = row.payload(from: 5, count: 1 + catalog.tables.tombstones)
            seen.add(1, bytes: 0)
            if isWanted {
                let (known, operation) = try decoder.kind(row)
                if filter.accepts(known.entity, operation) {
                    let objectID = try decoder.objectID(row, known)
                    if filter.accepts(objectID) {
                        let change = try decoder.change(row, known, operation, objectID, at: origin.timestamp)
                        if filter.accepts(change) {
                            kept.add(1, bytes: bytes)
                            if let partSize, kept.isLarge(partSize: partSize) { return (nil, seen) }
                            changes.append(change)
                        }
                    }
                }
            }
            try cursor.advance()
        }
        seen.add(0, bytes: kept.bytes)
        try catalog.tables.check(db, changesOf: id, count: seen.count)
        return (changes, seen)
    }

    private mutating func next(_ rows: OpaquePointer, after last: Int64) throws -> Int64? {
        guard try rows.step(db) else { return nil }
        countRow()
        let id = sqlite3_column_int64(rows, 0)
        // The pages of a damaged table may form a cycle.
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

    /// The authors and times of the transactions after a position.
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
        var cursor = try CoreDataChangeCursor(db, catalog.tables, isReversed: false, from: id - 1, bounds)
        defer { cursor.end() }
        while let row = try cursor.row(of: id) {
            countRow()
            let (known, operation) = try decoder.kind(row)
            outline.add(
                sqlite3_column_int64(row, 0), known.entity, operation,
                bytes: row.payload(from: 5, count: 1 + catalog.tables.tombstones))
            try cursor.advance()
        }
        try catalog.tables.check(db, changesOf: id, count: outline.whole.count)
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

    /// Single changes of a large transaction, without tombstones. Missing ones are left out.
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
            let change = try decoder.change(
                rows, known, operation, try decoder.objectID(rows, known), at: transaction.timestamp)
            changes.append(change.withoutTombstone)
        }
        return changes
    }
}

extension HistoryFilter {
    /// Whether a transaction without changes may match: if the filter needs nothing of its changes.
    var acceptsEmpty: Bool {
        entities == nil && operations == nil && objects == nil && properties == nil
    }
}
