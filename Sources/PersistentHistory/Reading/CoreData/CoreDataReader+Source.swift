import GRDB
import GRDBSQLite

/// Lets the pipeline read a store that Core Data writes.
extension CoreDataReader: HistorySource {
    /// A read follows the path by itself.
    func file() throws -> FileID {
        guard let file = FileID(of: path) else { throw HistoryError.ledElsewhere(path) }
        return file
    }

    /// The schema version. The model is read if it has changed.
    func schemaVersion() throws -> Int64 { try read { _, catalog in catalog.version.schema } }

    func page(after number: Int64, filter: HistoryFilter) throws -> HistoryBatch {
        try batch(
            after: number, isPosition: false, through: .max, HistoryReader.batchSize, filter, partSize: partSize
        )
    }

    func reversedPage(before number: Int64?, filter: HistoryFilter) throws -> HistoryBatch {
        try reversedBatch(before: number, HistoryReader.batchSize, filter, partSize: partSize)
    }

    func end() throws -> (number: Int64, fingerprint: String?) {
        try read { db, _ in
            let end = try bounds(db).end
            return (end, try CoreDataTables.fingerprint(db, at: end))
        }
    }

    func fingerprint(at number: Int64, in batch: HistoryBatch?) throws -> String? {
        if let batch, batch.end == number, let fingerprint = batch.fingerprint { return fingerprint }
        return try read { db, _ in
            if let batch, try isReplaced(db, batch.fingerprint, at: batch.end) { throw ahead(batch.end) }
            return try CoreDataTables.fingerprint(db, at: number)
        }
    }

    func isReplaced(_ fingerprint: String?, at number: Int64) throws -> Bool {
        try read { db, _ in try isReplaced(db, fingerprint, at: number) }
    }

    private func isReplaced(_ db: Database, _ known: String?, at number: Int64) throws -> Bool {
        guard let known, let fingerprint = try CoreDataTables.fingerprint(db, at: number) else { return false }
        return fingerprint != known
    }

    func time(after number: Int64) throws -> HistoryTimestamp? {
        try read { db, _ in
            try db.rows("SELECT ZTIMESTAMP FROM ATRANSACTION WHERE Z_PK > ? ORDER BY Z_PK LIMIT 1", number) {
                row in
                try row.step(db) ? HistoryTimestamp(secondsSince2001: sqlite3_column_double(row, 0)) : nil
            }
        }
    }

    func backlog(after position: Int64) throws -> Backlog {
        try read { db, catalog in
            var rows = try work(db, catalog)
            return try rows.backlog(after: position)
        }
    }

    /// The store is only read.
    var recorder: HistoryReader? { nil }

    // MARK: Fetching

    /// Rows are not read: a request for values receives values without rows.
    private func noValues(_ wanted: WantedValues?, at number: Int64) -> RowValues? {
        wanted.map { RowValues(at: HistoryToken(store: storeID, number: number), $0, [:]) }
    }

    private func adding(_ wanted: WantedValues?, to batch: HistoryBatch) -> HistoryBatch {
        var batch = batch
        batch.values = noValues(wanted, at: batch.end)
        return batch
    }

    func look(after number: Int64, fingerprint: String?, values: WantedValues?) throws -> HistoryLook {
        try read { db, catalog in
            let bounds = try bounds(db)
            if try isReplaced(db, fingerprint, at: number) { throw ahead(number) }
            var batch = HistoryBatch(transactions: [], end: bounds.end, isLast: false, fingerprint: nil)
            do {
                batch = try self.batch(
                    db, catalog, bounds, after: number, isPosition: true, partSize: partSize)
            } catch let error as HistoryError where error.code == .tokenExpired {
                // It was purged, or there is a gap. A consumer that has not received it finds out when it
                // reads on.
            }
            let end = max(bounds.end, batch.end)
            let isSeen = batch.isLast && batch.end == end && batch.fingerprint != nil
            return HistoryLook(
                batch: adding(values, to: batch), end: end,
                fingerprint: isSeen ? batch.fingerprint : try CoreDataTables.fingerprint(db, at: end),
                schemaVersion: catalog.version.schema)
        }
    }

    func outlinedBatch(
        after number: Int64, isPosition: Bool, through last: Int64, changes limit: Int, values: WantedValues?
    ) throws -> HistoryBatch {
        let batch = try self.batch(
            after: number, isPosition: isPosition, through: last, limit, HistoryFilter(), partSize: partSize)
        return adding(values, to: batch)
    }

    // MARK: Large transactions

    func changes(_ unread: UnreadChanges) throws -> (changes: [HistoryChange], values: RowValues?) {
        (
            try numberedChanges(unread).map(\.change),
            noValues(unread.values, at: unread.transaction.number)
        )
    }

    func changes(at numbers: [Int64], of transaction: HistoryTransaction, values: WantedValues?) throws
        -> (changes: [HistoryChange], values: RowValues?)
    {
        let changes = try reading(transaction) { rows in
            try check(try rows.changes(at: numbers, of: transaction), numbers.count, of: transaction)
        }
        return (changes, noValues(values, at: transaction.number))
    }

    func numberedChanges(_ unread: UnreadChanges) throws -> [(number: Int64, change: HistoryChange)] {
        try reading(unread.transaction) { rows in
            try check(try rows.changes(unread), unread.count, of: unread.transaction)
        }
    }

    func another(timeout: Duration) throws -> any HistorySource {
        try CoreDataReader(path: path, timeout: timeout, partSize: partSize, gaps: gaps)
    }

    /// Reads in one SQL transaction, if a large transaction is unchanged.
    private func reading<T>(
        _ transaction: HistoryTransaction, _ body: (inout CoreDataRows) throws -> T
    ) throws -> T {
        try read { db, catalog in
            try bounds(db).check(after: transaction.number - 1)
            if try isReplaced(db, transaction.outline?.fingerprint, at: transaction.number) {
                throw ahead(transaction.number)
            }
            var rows = try work(db, catalog)
            return try body(&rows)
        }
    }
}
