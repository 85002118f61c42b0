import GRDB

/// The rows of changed objects, beside their changes.
extension HistoryReader {
    /// A batch with the rows of its objects, as of the end of the history: as many transactions as have no more than
    /// fits into memory. One that has more by itself becomes a large one.
    func adding(
        _ wanted: WantedValues, to batch: HistoryBatch, _ db: Database, end: Int64,
        after number: Int64, through last: Int64
    ) throws -> HistoryBatch {
        var reader = RowValueReader(
            db, rowTables, at: HistoryToken(store: storeID, number: end), wanted,
            .ends(at: RowValueReader.mostOfBatch))
        var batch = batch
        for (index, transaction) in batch.transactions.enumerated() {
            if try reader.read(transaction.changes) { continue }
            guard index > 0 else {
                return try rows(db).outlinedBatch(after: number, through: last, partSize: partSize)
            }
            let end = batch.transactions[index - 1].number
            batch = HistoryBatch(
                transactions: Array(batch.transactions[..<index]), end: end, isLast: false,
                fingerprint: try HistoryHeader(db, fingerprintAt: end).fingerprint)
            break
        }
        batch.values = reader.values
        return batch
    }

    /// The rows of a part of a large transaction.
    ///
    /// - Parameter all: Also those that the changes deleted.
    func values(
        _ wanted: WantedValues?, of changes: [HistoryChange], all: Bool = false, _ db: Database,
        _ header: HistoryHeader
    ) throws -> RowValues? {
        guard let wanted else { return nil }
        var reader = RowValueReader(
            db, rowTables, at: HistoryToken(store: storeID, number: header.end), wanted,
            .cuts(at: CallValues.mostBytes))
        _ = try reader.read(changes, all: all)
        return reader.values
    }
}
