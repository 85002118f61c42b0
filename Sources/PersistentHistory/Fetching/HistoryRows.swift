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

/// Makes transactions of recorded rows: a transaction is the longest run of rows with one origin.
///
/// A value without I/O: rows go in, one after the other, and transactions come out.
struct TransactionAssembler {
    private let store: StoreID
    private let filter: HistoryFilter
    private let isReversed: Bool

    private var origin = Origin.undeclared(milliseconds: 0)
    private var isWanted = false
    private var isOpen = false
    private var last: Int64 = 0
    private var changes: [HistoryChange] = []
    /// Rows of the current run, including those that the filter leaves out.
    private(set) var runLength = 0

    init(store: StoreID, filter: HistoryFilter = HistoryFilter(), isReversed: Bool = false) {
        self.store = store
        self.filter = filter
        self.isReversed = isReversed
    }

    /// Whether the current run's transaction passed the filter, so that its changes are of use.
    var wantsChanges: Bool { isWanted }

    /// Changes of the current run that the filter selects.
    var changeCount: Int { changes.count }

    /// The time that a delete's tombstone carries.
    var timestamp: HistoryTimestamp { origin.timestamp }

    /// A row with another origin than the last one came: gives the transaction that ended, if it
    /// has changes that are wanted.
    mutating func begin(_ origin: Origin, at number: Int64) -> HistoryTransaction? {
        let finished = finish()
        self.origin = origin
        isWanted = filter.accepts(origin)
        isOpen = true
        last = number
        return finished
    }

    /// Counts a row to the current run.
    mutating func count(_ number: Int64) {
        if !isReversed { last = number }
        runLength += 1
    }

    mutating func append(_ change: HistoryChange) {
        // Most transactions have one.
        if changes.isEmpty { changes = [change] } else { changes.append(change) }
    }

    /// The transaction that names entities with unrecorded changes, at the end of the current run; nil where
    /// it is not wanted.
    func recreation(of entities: [String]) -> HistoryTransaction? {
        guard filter.accepts(recreated: entities, at: origin.timestamp) else { return nil }
        return HistoryTransaction(
            token: HistoryToken(store: store, number: last), author: nil, context: nil, processID: nil,
            timestamp: origin.timestamp, changes: [], recreated: entities)
    }

    /// Ends the current run.
    mutating func finish() -> HistoryTransaction? {
        defer {
            changes = []
            runLength = 0
            isOpen = false
        }
        guard isOpen, !changes.isEmpty else { return nil }
        return HistoryTransaction(
            HistoryToken(store: store, number: last), origin.authorship, origin.processID, origin.timestamp,
            .changes(isReversed ? changes.reversed() : changes))
    }
}
