internal import GRDB
internal import GRDBSQLite

/// The result of a look at a store.
struct HistoryLook: Sendable {
    let batch: HistoryBatch
    /// Where the history ended, with its fingerprint. It is beyond a batch that is not the last.
    let end: Int64
    let fingerprint: String?
    /// Changes with each change of the schema (https://www.sqlite.org/pragma.html#pragma_schema_version).
    let schemaVersion: Int64
}

/// Fetches for all consumers of a store. Those at the same position, as when a commit comes in, share one
/// read with each other and with their feeds.
final class SharedFetcher: Sendable {
    private struct State {
        /// The newest change that has been seen, and its fingerprint, which distinguishes it from another
        /// with the same number (see `HistoryBatch.fingerprint`).
        var end: (number: Int64, fingerprint: String?)
        var schemaVersion: Int64
        var shared: (after: Int64, batch: HistoryBatch)?
        /// The objects whose rows anyone wants. They are read once for all.
        var wanted: WantedValues?
    }

    private let source: any HistorySource
    private let state: Locked<State>

    /// The first look begins at the end of the history.
    init(_ source: any HistorySource) throws {
        self.source = source
        state = Locked(State(end: try source.end(), schemaVersion: try source.schemaVersion()))
    }

    /// Everything up to here has been seen.
    var end: (number: Int64, fingerprint: String?) { state.withLock { $0.end } }
    /// The schema version at the last look.
    var schemaVersion: Int64 { state.withLock { $0.schemaVersion } }

    /// Looks whether something was committed since the last look, and fetches it.
    ///
    /// The next look begins at the end of the history, even if the batch ends before it. Consumers that
    /// receive that batch read on by themselves, and what all have processed may be deleted before the
    /// next look.
    ///
    /// - Parameter values: The objects whose rows hooks and feeds want.
    /// - Returns: Nil if there was nothing new.
    /// - Throws: `HistoryError`; with `.tokenAhead` if what was seen before no longer exists, because a
    ///   backup was copied into the open file.
    func look(values: WantedValues? = nil) throws -> HistoryLook? {
        let end = state.withLock { state in
            state.wanted = values
            return state.end
        }
        let look = try source.look(after: end.number, fingerprint: end.fingerprint, values: values)
        let isNews = look.end > end.number
        state.withLock { state in
            state.schemaVersion = look.schemaVersion
            state.shared = isNews && !look.batch.transactions.isEmpty ? (end.number, look.batch) : nil
            if isNews { state.end = (look.end, look.fingerprint) }
        }
        return isNews ? look : nil
    }

    /// What was already fetched after a position, if it does not exceed the request.
    func known(after number: Int64, through last: Int64 = .max, values: WantedValues? = nil) -> HistoryBatch? {
        guard let shared = state.withLock(\.shared), shared.after == number, shared.batch.end <= last,
            shared.batch.covers(values)
        else { return nil }
        return shared.batch
    }

    /// The transactions after a position.
    ///
    /// - Parameters:
    ///   - last: The last position to read.
    ///   - values: The objects whose rows are wanted, too.
    func batch(after number: Int64, through last: Int64? = nil, values: WantedValues? = nil) throws
        -> HistoryBatch
    {
        if let last { return try source.outlinedBatch(after: number, through: last, values: values) }
        if let known = known(after: number, values: values) { return known }
        let all = WantedValues.union([values, state.withLock(\.wanted)].compactMap { $0 })
        let batch = try source.outlinedBatch(after: number, values: values == nil ? nil : all)
        if batch.end > number { state.withLock { $0.shared = (number, batch) } }
        return batch
    }
}

// MARK: - Reading

/// The pipeline's reads of a store after each signal. Large transactions are outlined.
extension HistoryReader {
    /// Reads what came after a position, and everything needed to know that it really follows it, in one
    /// transaction.
    ///
    /// - Parameters:
    ///   - fingerprint: The position's fingerprint, if known; see `HistoryBatch.fingerprint`.
    ///   - values: The objects whose rows are read, too.
    /// - Returns: An empty batch that is not the last, if the history after the position was deleted
    ///   meanwhile. A consumer that has not received it finds out when it reads on.
    /// - Throws: `HistoryError`; with `.tokenAhead` if another change is at the position.
    func look(after number: Int64, fingerprint: String?, values: WantedValues? = nil) throws -> HistoryLook {
        assertMayWait()
        if values == nil, let fingerprint, let look = readOn(after: number, fingerprint) { return look }
        return try read { db, schemaVersion in
            let look = try self.look(db, schemaVersion, after: number, fingerprint, values)
            // Not needed for a store in which nothing happens.
            if look.end > number {
                try standingLook.withLock { standing in
                    if standing == nil { standing = try StandingLook(db, schemaVersion: schemaVersion) }
                }
            }
            return look
        }
    }

    private func look(
        _ db: Database, _ schemaVersion: Int64, after number: Int64, _ fingerprint: String?,
        _ values: WantedValues?
    ) throws -> HistoryLook {
        func look(_ batch: HistoryBatch, end: Int64) throws -> HistoryLook {
            let fingerprint =
                batch.isLast ? batch.fingerprint : try HistoryHeader(db, fingerprintAt: end).fingerprint
            return HistoryLook(
                batch: batch, end: batch.isLast ? batch.end : end, fingerprint: fingerprint,
                schemaVersion: schemaVersion)
        }
        if let batch = try continuation(db, after: number, fingerprint, values) {
            return try look(batch, end: batch.isLast ? batch.end : HistoryHeader(db).end)
        }
        let header = try HistoryHeader(db, fingerprintAt: number)
        if header.isReplaced(fingerprint) { throw ahead(number) }
        do {
            if header.storeID != storeID || number >= header.floor {
                return try look(
                    batch(db, header, after: number, partSize: partSize, values: values), end: header.end)
            }
        } catch let error as HistoryError where error.code == .tokenExpired {
            // There is a gap. A consumer that needs what is missing finds out, too.
        }
        let nothing = HistoryBatch(transactions: [], end: header.end, isLast: false, fingerprint: nil)
        return try look(nothing, end: header.end)
    }

    /// Reads on from a change by a short path. It skips what is needed only if the schema has changed or
    /// something is wrong.
    ///
    /// - Returns: Nil if the usual path is needed.
    private func readOn(after number: Int64, _ fingerprint: String) -> HistoryLook? {
        guard sideFiles == nil else { return nil }
        return turn.withLock { _ in
            standingLook.withLock { look in
                guard let standing = look else { return nil }
                work.begin()
                // A longer batch is read again by the usual path. The limit keeps that from being a whole
                // batch.
                let most = min(partSize, Self.batchSize / 10)
                let batch = standing.batch(
                    after: number, fingerprint, rows(nil, partSize: most, floor: mayHaveGaps ? .max : number),
                    limit: most)
                guard let batch else {
                    standing.end()
                    look = nil
                    return nil
                }
                // The end of the history must be known, too.
                guard batch.isLast else { return nil }
                return HistoryLook(
                    batch: batch, end: batch.end, fingerprint: batch.fingerprint,
                    schemaVersion: standing.schemaVersion)
            }
        }
    }

    /// What came after a position whose change still exists, as it nearly always does. One statement
    /// reads that change and what came after it.
    ///
    /// - Returns: Nil if more information is needed.
    private func continuation(
        _ db: Database, after number: Int64, _ fingerprint: String?, _ values: WantedValues?
    ) throws -> HistoryBatch? {
        let (id, floor) = try HistoryHeader.bounds(db, known: storeID)
        guard id == storeID, number >= floor, let fingerprint,
            let batch = try readOn(db, after: number, fingerprint, floor: mayHaveGaps ? .max : floor)
        else { return nil }
        guard let values, !batch.transactions.isEmpty else { return batch }
        return try adding(
            values, to: batch, db, end: batch.isLast ? batch.end : HistoryHeader(db).end, after: number,
            through: .max)
    }

    private func readOn(_ db: Database, after number: Int64, _ fingerprint: String, floor: Int64) throws
        -> HistoryBatch?
    {
        do {
            return try rows(db, partSize: partSize, floor: floor).batch(
                after: number, fingerprint: fingerprint, limit: Self.batchSize)
        } catch is HistoryGap {
            return nil
        }
    }

    /// The newest position, and its fingerprint.
    func end() throws -> (number: Int64, fingerprint: String?) {
        try read { db in
            let newest = try HistoryHeader(db).newest
            return (newest, try HistoryHeader(db, fingerprintAt: newest).fingerprint)
        }
    }

    /// The schema version. The schema is read if it has changed.
    func schemaVersion() throws -> Int64 {
        try read { db, version in
            try rowTables.follow(db, version)
            return version
        }
    }

    /// Reads a batch again on another connection to the same store, in its transaction, with what has
    /// come since.
    ///
    /// - Throws: `HistoryError`; with `.tokenAhead` if it differs from what was read before.
    func batch(_ db: Database, after number: Int64, beginningAs batch: HistoryBatch) throws -> HistoryBatch {
        let header = try HistoryHeader(db, fingerprintAt: batch.end)
        if header.isReplaced(batch.fingerprint) { throw ahead(batch.end) }
        if header.newest == batch.end { return batch }
        // It is read completely: an undeclared writer's changes of one millisecond are one transaction,
        // whenever the first read was made, and a repetition must find the same.
        return try self.batch(
            db, header, after: number, partSize: partSize, values: batch.values?.wanted)
    }
}

/// The statement for nearly every look. It shows whether the change to look after still exists, what came
/// after it, and the store's data about its history as a whole.
///
/// After a change of the schema SQLite would parse all of it, so this statement then finds nothing.
/// Therefore the schema version need not be queried either.
struct StandingLook: Sendable {
    /// The schema version for which it was prepared. With any other, it finds nothing.
    let schemaVersion: Int64
    /// It is used only under the reader's lock for its connection, and finalized before that connection.
    /// GRDB would look it up by its text and run it on the connection's queue, which takes longer than
    /// SQLite itself.
    nonisolated(unsafe) private let statement: OpaquePointer

    init(_ db: Database, schemaVersion: Int64) throws {
        self.schemaVersion = schemaVersion
        var statement: OpaquePointer?
        // This version of the interface reports a changed schema and does not parse it
        // (https://www.sqlite.org/c3ref/prepare.html).
        let result = sqlite3_prepare(
            db.sqliteConnection,
            """
            SELECT id, origin, kind, object, detail,
                (SELECT value FROM historyd_store WHERE key = 'floor'), (SELECT value FROM historyd_store WHERE key = 'id')
            FROM historyd_change WHERE id >= ?1 ORDER BY id
            """, -1, &statement, nil)
        guard result == SQLITE_OK, let statement else { throw DatabaseError(lastOf: db) }
        self.statement = statement
    }

    /// What came after a change.
    ///
    /// - Returns: Nil if more information is needed, or something is wrong: the usual path then finds
    ///   out.
    func batch(after number: Int64, _ fingerprint: String, _ rows: HistoryRows, limit: Int) -> HistoryBatch? {
        defer { sqlite3_reset(statement) }
        return try? rows.batch(statement, after: number, fingerprint: fingerprint, limit: limit) { row in
            sqlite3_column_type(row, 5) == SQLITE_INTEGER && sqlite3_column_int64(row, 5) <= number
                && row.isText(6, rows.store.text)
        }
    }

    func end() { sqlite3_finalize(statement) }
}
