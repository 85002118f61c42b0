import GRDB
import GRDBSQLite

/// Large transactions, whose changes are read in parts.
extension HistoryReader {
    /// Reads the next transactions as `batch(after:isPosition:through:changes:filter:)` does. A large one
    /// has an outline instead of its changes, and is alone in its batch.
    func outlinedBatch(
        after number: Int64, isPosition: Bool = true, through last: Int64 = .max,
        changes limit: Int = batchSize,
        values: WantedValues? = nil
    ) throws -> HistoryBatch {
        try read { db in
            try batch(
                db, HistoryHeader(db), after: number, isPosition: isPosition, through: last, changes: limit,
                partSize: partSize, values: values)
        }
    }

    /// Reads changes of a large transaction, with the rows of their objects if wanted.
    ///
    /// - Throws: `HistoryError`; with `.tokenExpired` or `.tokenAhead` if the transaction no longer
    ///   exists.
    func changes(_ unread: UnreadChanges) throws -> (changes: [HistoryChange], values: RowValues?) {
        try reading(unread.transaction, from: unread.range.lowerBound) { db, header in
            let changes = try check(
                try rows(db).changes(unread).map(\.change), unread.count, of: unread.transaction)
            return (changes, try values(unread.values, of: changes, db, header))
        }
    }

    /// Reads single changes of a large transaction, by their numbers, without tombstones.
    ///
    /// - Parameter numbers: In ascending order.
    func changes(
        at numbers: [Int64], of transaction: HistoryTransaction, values: WantedValues? = nil
    ) throws -> (changes: [HistoryChange], values: RowValues?) {
        if numbers.isEmpty, values == nil { return ([], nil) }
        return try reading(transaction, from: numbers.first ?? transaction.number) { db, header in
            let changes = try check(
                try rows(db).changes(at: numbers, of: transaction), numbers.count, of: transaction)
            return (changes, try self.values(values, of: changes, all: true, db, header))
        }
    }

    func another(timeout: Duration) throws -> any HistorySource {
        try HistoryReader(path: path, timeout: timeout, partSize: partSize, gaps: gaps)
    }

    func numberedChanges(_ unread: UnreadChanges) throws -> [(number: Int64, change: HistoryChange)] {
        try reading(unread.transaction, from: unread.range.lowerBound) { db, _ in
            try check(try rows(db).changes(unread), unread.count, of: unread.transaction)
        }
    }

    /// Reads in one SQL transaction, if a large transaction is unchanged.
    private func reading<T>(
        _ transaction: HistoryTransaction, from start: Int64, _ body: (Database, HistoryHeader) throws -> T
    ) throws -> T {
        try read { db in
            let header = try HistoryHeader(db, fingerprintAt: transaction.number)
            guard header.storeID == transaction.token.store else { throw Self.isGone }
            if header.isReplaced(transaction.outline?.fingerprint) { throw ahead(transaction.number) }
            try header.bounds.check(after: start - 1)
            return try body(db, header)
        }
    }
}

extension HistoryRows {
    /// A unit of work ends after this many rows.
    static let rowsPerWork = 10_000

    /// The large transaction that begins after a position. Its changes are only counted. One without an
    /// author ends at `last` at the latest.
    func outlinedBatch(after number: Int64, through last: Int64, partSize: Int) throws -> HistoryBatch {
        let rows = try statement()
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, number)
        var outline = TransactionOutline(partSize: partSize)
        var decoder = decoder
        var run = OriginRun()
        var (end, count) = (number, 0)
        var isLast = last == .max
        while let id = try next(rows, after: end) {
            if id > last, run.isUndeclared { break }
            let origin = rows.textBytes(1)
            if run.isBegun, try !run.continues(with: rows, origin) || UnrecordedChanges.entities(rows) != nil {
                isLast = false
                break
            }
            if let gap = gap(between: end, and: id) { throw gap }
            if !run.isBegun { run.begin(rows, origin, like: OriginRun()) }
            if let (entity, operation) = try decoder.kind(rows) {
                outline.add(id, entity, operation, bytes: rows.payload(from: 3, count: 2))
            }
            end = id
            count += 1
            if count % Self.rowsPerWork == 0 { work.begin() }
        }
        outline.fingerprint = run.fingerprint
        let transaction = HistoryTransaction(
            token: HistoryToken(store: store, number: end), of: run.origin, outline: outline)
        return HistoryBatch(
            transactions: [transaction], end: end, isLast: isLast, fingerprint: run.fingerprint)
    }

    /// Changes of a large transaction, with their numbers.
    func changes(_ unread: UnreadChanges) throws -> [(number: Int64, change: HistoryChange)] {
        let rows = try statement()
        defer { sqlite3_reset(rows) }
        var last = unread.range.lowerBound - 1
        sqlite3_bind_int64(rows, 1, last)
        var decoder = decoder
        var changes: [(number: Int64, change: HistoryChange)] = []
        var count = 0
        while let id = try next(rows, after: last), id <= unread.range.upperBound {
            last = id
            count += 1
            if count % Self.rowsPerWork == 0 { work.begin() }
            guard let (entity, operation) = try decoder.kind(rows), unread.group?.has(entity, operation) ?? true
            else { continue }
            let change = try decoder.change(rows, entity, operation, at: unread.transaction.timestamp)
            changes.append((id, change))
        }
        return changes
    }

    /// Single changes of a large transaction, without tombstones. Missing ones are left out.
    func changes(at numbers: [Int64], of transaction: HistoryTransaction) throws -> [HistoryChange] {
        let rows = try statement("= ?1")
        defer { sqlite3_reset(rows) }
        var decoder = decoder
        return try numbers.compactMap { number in
            sqlite3_reset(rows)
            sqlite3_bind_int64(rows, 1, number)
            guard try next(rows, after: number - 1) == number, let (entity, operation) = try decoder.kind(rows)
            else { return nil }
            return try decoder.change(rows, entity, operation, at: transaction.timestamp).withoutTombstone
        }
    }
}
