internal import CSQLiteHistory
import GRDB
import GRDBSQLite

/// Reads a store's history after a token, in bounded memory and without delaying writers.
///
/// Each batch is read in its own SQL transaction. So reading a long history delays neither checkpoints nor, in a
/// rollback-journal store, writers.
public final class HistoryReader: Sendable {
    /// The number of changes after which a batch ends, at the end of a transaction.
    public static let batchSize = 5000

    /// The store's file.
    public let path: String
    /// The id of the store that was opened.
    public let storeID: StoreID
    private let queue: DatabaseQueue
    let tables: CheckedTables
    let rowTables = RowTables()
    let work = WorkLimit()
    /// Transactions with more changes are read in parts where possible.
    let partSize: Int
    let sideFiles: SideFiles?
    private let encoding: StoreEncoding
    /// A mirror contains what its source publishes, so numbers may be missing in it.
    let mayHaveGaps: Bool
    let gaps: KnownGaps
    /// A cache. Shapes never change and are rarely added, so they are read when a new one is met.
    private let shapes = Locked<[Int64: Entity]>([:])
    /// Held while the connection is used.
    let turn = Locked(())
    let standingLook = Locked<StandingLook?>(nil)

    /// - Parameters:
    ///   - path: The store's file.
    ///   - timeout: How long to wait for a lock that another process holds.
    /// - Throws: `HistoryError`.
    public convenience init(path: String, timeout: Duration = .seconds(5)) throws {
        try self.init(path: path, timeout: timeout, partSize: TransactionOutline.partSize)
    }

    init(path: String, timeout: Duration = .seconds(5), partSize: Int, gaps: KnownGaps = KnownGaps()) throws {
        self.path = path
        self.partSize = partSize
        self.gaps = gaps
        queue = try StoreConnection.open(path, .read, timeout: timeout, work: work)
        tables = CheckedTables()
        sideFiles = SideFiles.forLater(path)
        do {
            (storeID, encoding, mayHaveGaps) = try Self.prepare(queue, tables, path)
        } catch {
            // The first error is the one to report.
            try? queue.end()
            throw error
        }
    }

    private static func prepare(_ queue: DatabaseQueue, _ tables: CheckedTables, _ path: String) throws
        -> (StoreID, StoreEncoding, mayHaveGaps: Bool)
    {
        try HistoryError.translating(path) {
            try queue.read { db in
                // It reads everything only once, and there may be a thousand readers.
                try db.execute(sql: "PRAGMA cache_size = -256")
                guard try StoreRecorder.hasRecordedHistory(db) else { throw HistoryError.notTracked(db) }
                try tables.check(db)
                return (try HistoryHeader(db).storeID, try StoreEncoding(db), try StoreRecorder.isMirror(db))
            }
        }
    }

    /// How many times SQLite may check in a read that others wait for: a hundred times the work of a
    /// batch.
    private static let mostLooks = 1000

    func stopWaitingForLocks() throws {
        work.setMost(Self.mostLooks)
        try HistoryError.translating(path) {
            try turn.withLock { _ in
                try queue.read { db in try db.execute(sql: "PRAGMA busy_timeout = 0") }
            }
        }
    }

    /// Frees the pages in memory. They are useless until the next commit, and the system's memory still
    /// has them then.
    func forgetPages() {
        assertMayWait()
        turn.withLock { _ in
            queue.unsafeRead { db in
                // The connection is nil if it was closed meanwhile.
                if let connection = db.sqliteConnection { history_forget_pages(connection) }
            }
        }
    }

    /// Closes the connection.
    public func close() throws {
        try HistoryError.translating(path) {
            try turn.withLock { _ in
                endStandingLook()
                try queue.end()
            }
        }
    }

    deinit { endStandingLook() }

    private func endStandingLook() {
        standingLook.withLock { look in
            look?.end()
            look = nil
        }
    }

    func file() throws -> FileID {
        let file = turn.withLock { _ in queue.unsafeRead(\.openedFile) }
        guard let file else { throw HistoryError.ledElsewhere(path) }
        return file
    }

    /// The token of the newest transaction; number 0 if nothing was ever recorded.
    ///
    /// - Throws: `HistoryError`.
    public func newestToken() throws -> HistoryToken { try bounds().newest }

    /// The oldest token after which the history can be read.
    ///
    /// - Throws: `HistoryError`.
    public func oldestToken() throws -> HistoryToken { try bounds().oldest }

    /// When the first transaction after a position was made; nil if there is none.
    func time(after number: Int64) throws -> HistoryTimestamp? {
        try read { db in
            let row = try Row.fetchOne(
                try db.cachedStatement(
                    sql: "SELECT origin FROM historyd_change WHERE id > ? ORDER BY id LIMIT 1"),
                arguments: [number])
            return row.map { Origin($0[0] as DatabaseValue).timestamp }
        }
    }

    /// Whether another change is at a position than the one of this fingerprint, because a backup was
    /// restored. A deleted change shows nothing.
    func isReplaced(_ fingerprint: String?, at number: Int64) throws -> Bool {
        try read { db in try HistoryHeader(db, fingerprintAt: number).isReplaced(fingerprint) }
    }

    /// The fingerprint of a position in a batch. It distinguishes the position from the same number in a
    /// restored store; see `HistoryBatch.fingerprint`.
    ///
    /// - Throws: `HistoryError`; with `.tokenAhead` if the store was restored since.
    func fingerprint(at number: Int64, in batch: HistoryBatch?) throws -> String? {
        if let batch, batch.end == number { return batch.fingerprint }
        return try read { db in
            if let batch, try HistoryHeader(db, fingerprintAt: batch.end).isReplaced(batch.fingerprint) {
                throw ahead(batch.end)
            }
            return try HistoryHeader(db, fingerprintAt: number).fingerprint
        }
    }

    func bounds() throws -> HistoryBounds { try read { db in try HistoryHeader(db).bounds.with(gaps) } }

    /// Reads the next transactions.
    ///
    /// - Parameters:
    ///   - number: The position to begin after: the number of a token that was read before, or 0 for the start.
    ///   - isPosition: Whether the number is the position of a consumer. Then 0 is not the start of the existing
    ///     history, but a position that expires like any other.
    ///   - last: The last position to read.
    ///   - limit: The number of changes after which the batch ends. A transaction with an author is never split;
    ///     the changes of a writer without an author may be.
    ///   - filter: Selects transactions and changes. The batch's `end` also moves past what the filter
    ///     excludes.
    /// - Throws: `HistoryError` with `.tokenExpired`, `.tokenAhead`, `.notTracked`, or SQLite's error.
    public func batch(
        after number: Int64, isPosition: Bool = false, through last: Int64 = .max,
        changes limit: Int = batchSize,
        filter: HistoryFilter = HistoryFilter()
    ) throws -> HistoryBatch {
        try read { db in
            try batch(
                db, HistoryHeader(db), after: number, isPosition: isPosition, through: last, changes: limit,
                filter: filter)
        }
    }

    /// - Parameters:
    ///   - partSize: Transactions with more changes are outlined; nil for none.
    ///   - values: The objects whose rows are read, too.
    func batch(
        _ db: Database, _ header: HistoryHeader, after number: Int64, isPosition: Bool = false,
        through last: Int64 = .max, changes limit: Int = batchSize, filter: HistoryFilter = HistoryFilter(),
        partSize: Int? = nil, values: WantedValues? = nil
    ) throws -> HistoryBatch {
        guard header.storeID == storeID else { throw Self.isGone }
        try header.bounds.with(gaps).check(after: number, isPosition: isPosition)
        // The usual case for a look that comes too early, or is repeated.
        if header.newest <= number {
            return HistoryBatch(transactions: [], end: number, isLast: last == .max, fingerprint: nil)
        }
        let batch = try reportingGaps(db, header) { floor in
            try rows(db, filter, partSize: partSize, floor: floor)
                .batch(after: number, through: last, limit: limit)
        }
        guard let values else { return batch }
        return try adding(values, to: batch, db, end: header.end, after: number, through: last)
    }

    static var isGone: HistoryError {
        HistoryError(
            .notTracked, "The history that was read is gone: the store was untracked and tracked again.")
    }

    /// Reads backwards from a token.
    ///
    /// - Parameters:
    ///   - number: Read what is older than this; nil for everything.
    ///   - limit: The number of changes after which the batch ends.
    ///   - filter: Selects transactions and changes.
    /// - Throws: `HistoryError`.
    public func reversedBatch(
        before number: Int64?, changes limit: Int = batchSize, filter: HistoryFilter = HistoryFilter()
    ) throws -> HistoryBatch {
        try reversedBatch(before: number, limit, filter, partSize: nil)
    }

    func page(after number: Int64, filter: HistoryFilter) throws -> HistoryBatch {
        try read { db in
            try batch(db, HistoryHeader(db), after: number, filter: filter, partSize: partSize)
        }
    }

    func reversedPage(before number: Int64?, filter: HistoryFilter) throws -> HistoryBatch {
        try reversedBatch(before: number, Self.batchSize, filter, partSize: partSize)
    }

    private func reversedBatch(before number: Int64?, _ limit: Int, _ filter: HistoryFilter, partSize: Int?)
        throws -> HistoryBatch
    {
        try read { db in
            let header = try HistoryHeader(db)
            return try reportingGaps(db, header) { floor in
                try rows(db, filter, isReversed: true, partSize: partSize, floor: floor)
                    .batch(after: min(number ?? .max, header.end + 1), through: .max, limit: limit)
            }
        }
    }

    /// Reads rows, and remembers a gap that it finds.
    ///
    /// - Throws: `HistoryError` with `.tokenExpired` if the history has a gap.
    private func reportingGaps<T>(_ db: Database, _ header: HistoryHeader, _ body: (_ floor: Int64) throws -> T)
        throws -> T
    {
        do {
            return try body(mayHaveGaps ? .max : header.floor)
        } catch let gap as HistoryGap {
            let rows = rows(db, floor: header.floor)
            gaps.note(try rows.lastGap(from: gap).end)
            throw HistoryError.missing(gap, "changes", oldest: header.bounds.with(gaps).oldest)
        }
    }

    func rows(
        _ db: Database?, _ filter: HistoryFilter = HistoryFilter(), isReversed: Bool = false,
        partSize: Int? = nil, floor: Int64 = .max
    ) -> HistoryRows {
        let decoder = ChangeDecoder(encoding: encoding) { [shapes] shape in
            try shapes.withLock { known in
                if let entity = known[shape] { return entity }
                guard let db else { throw HistoryRows.NeedsConnection() }
                known = try EntityCatalog(db).shapes
                return known[shape]
            }
        }
        return HistoryRows(
            db: db, store: storeID, decoder: decoder, filter: filter, isReversed: isReversed,
            partSize: partSize, work: work, floor: floor)
    }

    /// Reads a store's history once, through a separate connection.
    static func reading<T>(
        _ path: String, timeout: Duration = .seconds(5), _ body: (Database) throws -> T
    ) throws -> T {
        let reader = try HistoryReader(path: path, timeout: timeout)
        let result = Result { try reader.read(body) }
        try reader.close()
        return try result.get()
    }

    func read<T>(_ body: (Database) throws -> T) throws -> T { try read { db, _ in try body(db) } }

    /// - Parameter body: Also receives the schema version. The history's tables have been checked.
    func read<T>(_ body: (Database, _ schemaVersion: Int64) throws -> T) throws -> T {
        assertMayWait()
        let hold = try sideFiles?.prepare(for: .read, timeout: .zero)
        defer { withExtendedLifetime(hold) {} }
        return try HistoryError.translating(path) {
            work.begin()
            return try work.explaining {
                try StoreConnection.rollingBack(path) {
                    try turn.withLock { _ in
                        try queue.readEndingTransactions { db in try tables.inTransaction(db, body) }
                    }
                }
            }
        }
    }
}
