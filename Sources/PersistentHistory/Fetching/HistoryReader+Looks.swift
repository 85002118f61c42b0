import GRDB
import GRDBSQLite

/// What the pipeline reads of a store after each signal. Large transactions are outlined.
extension HistoryReader {
    /// What a look at the store finds.
    struct Look: Sendable {
        let batch: HistoryBatch
        /// Where the history ended, with its fingerprint: beyond a batch that is not the last.
        let end: Int64
        let fingerprint: String?
        /// Another one after each change of the schema (https://www.sqlite.org/pragma.html#pragma_schema_version).
        let schemaVersion: Int64
    }

    /// Reads what came after a position, and all that it takes to know that it really follows it, in one transaction.
    ///
    /// - Parameters:
    ///   - fingerprint: Of the position, where it is known; see `HistoryBatch.fingerprint`.
    ///   - values: Of which objects the rows are read, too.
    /// - Returns: A batch of nothing, and not the last, where the history after the position was deleted meanwhile:
    ///   a consumer that has not had it finds out when it reads on.
    /// - Throws: `HistoryError`; with `.tokenAhead` if there is another change.
    func look(after number: Int64, fingerprint: String?, values: WantedValues? = nil) throws -> Look {
        try read { db, schemaVersion in
            let header = try HistoryHeader(db, fingerprintAt: number)
            if header.isReplaced(fingerprint) { throw ahead(number) }
            let newest = max(header.newest, header.floor)
            let isDeleted = header.storeID == storeID && number < header.floor
            let batch =
                isDeleted
                ? HistoryBatch(transactions: [], end: newest, isLast: false, fingerprint: nil)
                : try batch(db, header, after: number, partSize: partSize, values: values)
            let fingerprint =
                batch.isLast ? batch.fingerprint : try HistoryHeader(db, fingerprintAt: newest).fingerprint
            return Look(
                batch: batch, end: batch.isLast ? batch.end : newest, fingerprint: fingerprint,
                schemaVersion: schemaVersion)
        }
    }

    /// The newest position, and its fingerprint.
    ///
    /// - Throws: `HistoryError`.
    func end() throws -> (number: Int64, fingerprint: String?) {
        try read { db in
            let newest = try HistoryHeader(db).newest
            return (newest, try HistoryHeader(db, fingerprintAt: newest).fingerprint)
        }
    }

    /// The version of the schema, which is read where it has changed.
    ///
    /// - Throws: `HistoryError`.
    func schemaVersion() throws -> Int64 {
        try read { db, version in
            try rowTables.follow(db, version)
            return version
        }
    }

    /// Reads a batch once more on another connection to the same store, within its transaction, with what has
    /// come since.
    ///
    /// - Throws: `HistoryError`; with `.tokenAhead` if it is not what was read before.
    func batch(_ db: Database, after number: Int64, beginningAs batch: HistoryBatch) throws -> HistoryBatch {
        let header = try HistoryHeader(db, fingerprintAt: batch.end)
        if header.isReplaced(batch.fingerprint) { throw ahead(batch.end) }
        if header.newest == batch.end { return batch }
        // As a whole: an undeclared writer's changes of one millisecond are one transaction, wherever the first
        // reading came in between, and a repetition must not find them otherwise.
        return try self.batch(
            db, header, after: number, partSize: partSize, values: batch.values?.wanted)
    }
}
