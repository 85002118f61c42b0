import GRDB
import GRDBSQLite
import Glibc

/// Steps through the rows of one batch.
struct HistoryRows {
    /// Nil where no other statement can be asked than the one whose rows these are.
    let db: Database?
    let store: StoreID
    let decoder: ChangeDecoder
    let filter: HistoryFilter
    let isReversed: Bool
    /// A transaction with more changes is outlined; nil for none.
    let partSize: Int?
    let work: WorkLimit

    /// Rows after the position that is bound to it, or before it.
    func statement() throws -> OpaquePointer {
        try statement(isReversed ? "< ?1 ORDER BY id DESC" : "> ?1 ORDER BY id")
    }

    func statement(_ condition: String) throws -> OpaquePointer {
        guard let db else { throw NeedsConnection() }
        let rows = try db.cachedStatement(
            sql: "SELECT id, origin, kind, object, detail FROM historyd_change WHERE id \(condition)"
        ).sqliteStatement
        sqlite3_reset(rows)
        return rows
    }

    /// There is more to be read than the rows at hand.
    struct NeedsConnection: Error {}

    /// Goes to the next row.
    ///
    /// - Returns: Its number; nil if there is none.
    func next(_ rows: OpaquePointer, after last: Int64) throws -> Int64? {
        let result = sqlite3_step(rows)
        if result == SQLITE_DONE { return nil }
        guard result == SQLITE_ROW else {
            throw DatabaseError(lastOf: rows, result)
        }
        let id = sqlite3_column_int64(rows, 0)
        // The pages of a damaged table may lead back to where they were.
        guard isReversed ? id < last : id > last, HistoryPosition.range.contains(id) else {
            throw UnexpectedValue("the change \(id) follows the change \(last)")
        }
        return id
    }

    func batch(after number: Int64, through last: Int64, limit: Int) throws -> HistoryBatch {
        let rows = try statement()
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, number)
        return try batch(rows, after: number, through: last, limit: limit)
    }

    /// Reads on from a change that is still there: one statement tells that it is, and what came after it.
    ///
    /// - Returns: Nil where another change stands at the position, or none.
    func batch(after number: Int64, fingerprint: String, limit: Int) throws -> HistoryBatch? {
        let rows = try statement(">= ?1 ORDER BY id")
        defer { sqlite3_reset(rows) }
        return try batch(rows, after: number, fingerprint: fingerprint, limit: limit) { _ in true }
    }

    /// - Parameters:
    ///   - rows: A statement of all rows from a position on.
    ///   - isRight: Whether to go on, by the row of the position.
    func batch(
        _ rows: OpaquePointer, after number: Int64, fingerprint: String, limit: Int,
        isRight: (OpaquePointer) -> Bool
    ) throws -> HistoryBatch? {
        sqlite3_bind_int64(rows, 1, number)
        guard try next(rows, after: number - 1) == number, OriginRun.hasFingerprint(fingerprint, rows),
            isRight(rows)
        else { return nil }
        let batch = try batch(rows, after: number, through: .max, limit: limit)
        guard batch.end == number else { return batch }
        return HistoryBatch(transactions: [], end: number, isLast: true, fingerprint: fingerprint)
    }

    /// - Parameter rows: A statement whose next row is the first after the position.
    private func batch(_ rows: OpaquePointer, after number: Int64, through last: Int64, limit: Int) throws
        -> HistoryBatch
    {
        var transactions: [HistoryTransaction] = []
        var assembler = TransactionAssembler(store: store, filter: filter, isReversed: isReversed)
        var decoder = decoder
        var run = OriginRun()
        var end = number
        var count = 0
        // Where the current run begins, and the run before it.
        var start = number
        var before = OriginRun()
        while let id = try next(rows, after: end) {
            let origin = ChangeDecoder.bytes(rows, 1)
            let continues = run.continues(with: rows, origin)
            // A declared writer's transaction is never split: the position may be of before the store was restored.
            if id > last, run.isUndeclared || !continues { break }
            // A notice of unrecorded changes is a batch of its own: it has no author.
            let recreated = try UnrecordedChanges.entities(rows)
            if recreated != nil, count > 0, !isReversed {
                if let last = assembler.finish() { transactions.append(last) }
                return HistoryBatch(
                    transactions: transactions, end: end, isLast: false, fingerprint: run.fingerprint)
            }
            if recreated != nil || !continues {
                // A batch ends between transactions.
                if count >= limit {
                    if let last = assembler.finish() { transactions.append(last) }
                    return HistoryBatch(
                        transactions: transactions, end: end, isLast: false, fingerprint: run.fingerprint)
                }
                start = end
                swap(&run, &before)
                run.begin(rows, origin, like: before)
                if let finished = assembler.begin(run.origin, at: id) { transactions.append(finished) }
            } else if run.isUndeclared, assembler.runLength >= limit {
                if let part = assembler.begin(run.origin, at: id) { transactions.append(part) }
                return HistoryBatch(
                    transactions: transactions, end: end, isLast: false, fingerprint: run.fingerprint)
            }
            assembler.count(id)
            end = id
            count += 1
            if let recreated {
                if let notice = assembler.recreation(of: recreated) { transactions.append(notice) }
                if isReversed { continue }
                return HistoryBatch(
                    transactions: transactions, end: end, isLast: false, fingerprint: run.fingerprint)
            }
            if assembler.wantsChanges, let (entity, operation) = try decoder.kind(rows),
                filter.accepts(entity, operation)
            {
                if let partSize, !run.isUndeclared, assembler.changeCount == partSize {
                    // It is alone in its batch.
                    if start == number {
                        return try outlinedBatch(after: number, through: last, partSize: partSize)
                    }
                    return HistoryBatch(
                        transactions: transactions, end: start, isLast: false, fingerprint: before.fingerprint)
                }
                let change = try decoder.change(rows, entity, operation, at: assembler.timestamp)
                if filter.accepts(change.objectID) { assembler.append(change) }
            }
        }
        if let last = assembler.finish() { transactions.append(last) }
        return HistoryBatch(
            transactions: transactions, end: end, isLast: last == .max, fingerprint: run.fingerprint)
    }
}

/// The origin of a run of rows, compared with each row's as bytes.
struct OriginRun: ~Copyable {
    private var text = ByteBuffer()
    private var milliseconds: Int64 = 0
    private(set) var isBegun = false
    private(set) var isUndeclared = false
    private(set) var origin = Origin.undeclared(milliseconds: 0)

    /// See `HistoryBatch.fingerprint`. Nil also for a row that is void.
    var fingerprint: String? {
        guard isBegun else { return nil }
        return isUndeclared ? Self.fingerprint(milliseconds) : text.withBytes { HistoryBatch.fingerprint($0) }
    }

    /// Of the run that a row is in.
    static func fingerprint(of row: OpaquePointer) -> String? {
        ChangeDecoder.bytes(row, 1).map { HistoryBatch.fingerprint($0) }
            ?? fingerprint(sqlite3_column_int64(row, 1))
    }

    /// Whether a row is in the run of a fingerprint.
    static func hasFingerprint(_ fingerprint: String, _ row: OpaquePointer) -> Bool {
        // Nearly all are so short that nothing of them is left out.
        ChangeDecoder.isText(row, 1, fingerprint) || self.fingerprint(of: row) == fingerprint
    }

    private static func fingerprint(_ milliseconds: Int64) -> String? {
        milliseconds > 0 ? String(milliseconds) : nil
    }

    /// - Parameters:
    ///   - bytes: The row's origin, where it is text.
    ///   - last: The run before, mostly of the same author.
    mutating func begin(
        _ row: OpaquePointer, _ bytes: UnsafeBufferPointer<UInt8>?, like last: borrowing OriginRun
    ) {
        isBegun = true
        text.removeAll()
        if let bytes {
            isUndeclared = false
            text.append(bytes)
            origin = .declared(bytes, like: last.origin.authorship)
        } else {
            isUndeclared = true
            milliseconds = sqlite3_column_int64(row, 1)
            origin = .undeclared(milliseconds: milliseconds)
        }
    }

    func continues(with row: OpaquePointer, _ bytes: UnsafeBufferPointer<UInt8>?) -> Bool {
        guard isBegun else { return false }
        guard let bytes else {
            return isUndeclared && milliseconds == sqlite3_column_int64(row, 1)
        }
        return !isUndeclared
            && text.withBytes { text in
                guard text.count == bytes.count, let a = text.baseAddress, let b = bytes.baseAddress else {
                    return false
                }
                return memcmp(a, b, text.count) == 0
            }
    }
}
