import GRDB
import GRDBSQLite

/// Reads the rows of one batch.
struct HistoryRows {
    /// Nil if only the statement with these rows may be used.
    let db: Database?
    let store: StoreID
    let decoder: ChangeDecoder
    let filter: HistoryFilter
    let isReversed: Bool
    /// A transaction with more changes is outlined; nil for none.
    let partSize: Int?
    let work: WorkLimit
    /// Numbers after this are consecutive unless some were deleted by other means; `.max` if they need
    /// not be.
    var floor = Int64.max

    /// Selects the rows after, or before, the bound position.
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

    /// More has to be read than the statement's rows.
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
        // The pages of a damaged table may form a cycle.
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

    /// Reads on from a change if it still exists: one statement reads that change and what came after it.
    ///
    /// - Returns: Nil if another change, or none, is at the position.
    func batch(after number: Int64, fingerprint: String, limit: Int) throws -> HistoryBatch? {
        let rows = try statement(">= ?1 ORDER BY id")
        defer { sqlite3_reset(rows) }
        return try batch(rows, after: number, fingerprint: fingerprint, limit: limit) { _ in true }
    }

    /// - Parameters:
    ///   - rows: A statement that selects all rows from a position on.
    ///   - isRight: Whether to continue, judging by the row at the position.
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
    /// - Throws: `HistoryGap` if numbers are missing right after the position.
    private func batch(_ rows: OpaquePointer, after number: Int64, through last: Int64, limit: Int) throws
        -> HistoryBatch
    {
        var transactions: [HistoryTransaction] = []
        var assembler = TransactionAssembler(store: store, filter: filter, isReversed: isReversed)
        var decoder = decoder
        var run = OriginRun()
        var end = number
        var (count, bytes) = (0, 0)
        // Where the current run and the previous run begin.
        var start = number
        var before = OriginRun()
        while let id = try next(rows, after: end) {
            let origin = rows.textBytes(1)
            let continues = run.continues(with: rows, origin)
            // A declared writer's transaction is never split: the position may be from before the store
            // was restored.
            if id > last, run.isUndeclared || !continues { break }
            if let gap = gap(between: end, and: id) {
                // Part of a transaction that continues after the gap is missing.
                let (last, whole) = (continues ? start : end, assembler.finish())
                guard last != number else { throw gap }
                if !continues, let whole { transactions.append(whole) }
                return HistoryBatch(
                    transactions: transactions, end: last, isLast: false,
                    fingerprint: continues ? before.fingerprint : run.fingerprint)
            }
            // A notice of unrecorded changes is a separate batch: it has no author.
            let recreated = try UnrecordedChanges.entities(rows)
            if recreated != nil, count > 0, !isReversed {
                if let last = assembler.finish() { transactions.append(last) }
                return HistoryBatch(
                    transactions: transactions, end: end, isLast: false, fingerprint: run.fingerprint)
            }
            if recreated != nil || !continues {
                // A batch ends between transactions.
                if count >= limit || bytes >= TransactionOutline.partBytes {
                    if let last = assembler.finish() { transactions.append(last) }
                    return HistoryBatch(
                        transactions: transactions, end: end, isLast: false, fingerprint: run.fingerprint)
                }
                start = end
                swap(&run, &before)
                run.begin(rows, origin, like: before)
                if let finished = assembler.begin(run.origin, at: id) { transactions.append(finished) }
            } else if run.isUndeclared,
                assembler.runLength >= limit || assembler.size.bytes >= TransactionOutline.partBytes
            {
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
                let payload = rows.payload(from: 3, count: 2)
                var size = assembler.size
                size.add(1, bytes: payload)
                if let partSize, !run.isUndeclared, size.isLarge(partSize: partSize) {
                    // It is alone in its batch.
                    if start == number {
                        return try isReversed
                            ? outlinedBatch(rows, run, before: id, partSize: partSize)
                            : outlinedBatch(after: number, through: last, partSize: partSize)
                    }
                    return HistoryBatch(
                        transactions: transactions, end: start, isLast: false, fingerprint: before.fingerprint)
                }
                let change = try decoder.change(rows, entity, operation, at: assembler.timestamp)
                if filter.accepts(change.objectID), filter.accepts(change) {
                    assembler.append(change, bytes: payload)
                    bytes += payload
                }
            }
        }
        if let last = assembler.finish() { transactions.append(last) }
        if isReversed, let gap = HistoryGap(after: 0, before: end, floor: floor) {
            guard end != number else { throw gap }
            return HistoryBatch(
                transactions: transactions, end: end, isLast: false, fingerprint: run.fingerprint)
        }
        return HistoryBatch(
            transactions: transactions, end: end, isLast: last == .max, fingerprint: run.fingerprint)
    }

    /// The large transaction of the statement's current row, when reading backwards.
    private func outlinedBatch(
        _ rows: OpaquePointer, _ run: borrowing OriginRun, before number: Int64, partSize: Int
    ) throws -> HistoryBatch {
        var (first, count) = (number, 0)
        while let id = try next(rows, after: first), run.continues(with: rows, rows.textBytes(1)) {
            first = id
            count += 1
            if count % Self.rowsPerWork == 0 { work.begin() }
        }
        let forward = HistoryRows(
            db: db, store: store, decoder: decoder, filter: filter, isReversed: false, partSize: partSize,
            work: work, floor: floor)
        let batch = try forward.outlinedBatch(after: first - 1, through: .max, partSize: partSize)
        return HistoryBatch(
            transactions: batch.transactions, end: first, isLast: false, fingerprint: batch.fingerprint)
    }

    /// The last gap, starting from a known one.
    func lastGap(from first: HistoryGap) throws -> HistoryGap {
        let rows = try statement("> ?1 ORDER BY id")
        defer { sqlite3_reset(rows) }
        sqlite3_bind_int64(rows, 1, first.end)
        var (gap, end, count) = (first, first.end, 0)
        while let id = try next(rows, after: end) {
            if let next = HistoryGap(after: end, before: id, floor: floor) { gap = next }
            end = id
            count += 1
            if count % Self.rowsPerWork == 0 { work.begin() }
        }
        return gap
    }

    func gap(between last: Int64, and next: Int64) -> HistoryGap? {
        HistoryGap(after: min(last, next), before: max(last, next), floor: floor)
    }
}
