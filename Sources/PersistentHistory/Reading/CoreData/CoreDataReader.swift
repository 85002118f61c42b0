import GRDB
import GRDBSQLite

/// Reads the history that Core Data or SwiftData wrote into a store, and changes nothing: not a byte of
/// the file, its `-wal` or its folder.
///
/// A transaction's position is its `Z_PK` in `ATRANSACTION`. Each batch is read in its own SQL
/// transaction, together with the model and the numbers of the entities, which a migration changes.
public final class CoreDataReader: Sendable {
    /// The store's file.
    public let path: String
    /// `Z_UUID` of the store that was opened.
    public let storeID: StoreID
    /// Transactions with more changes are read in parts where possible.
    let partSize: Int
    let gaps: KnownGaps
    private let connection: UntouchedConnection
    private let known = Locked<Known?>(nil)

    /// What was read from the store besides the history, and the state of the store at that time.
    private struct Known: Sendable {
        let catalog: CoreDataCatalog
        let dataVersion: Int64
    }

    /// Opens a store for reading the history that Core Data keeps in it.
    ///
    /// - Parameters:
    ///   - path: The store's file.
    ///   - timeout: How long to wait for a lock that another process holds.
    /// - Throws: `HistoryError`; with `.notTracked` if the store has no Core Data history.
    public convenience init(path: String, timeout: Duration = .seconds(5)) throws {
        try self.init(path: path, timeout: timeout, partSize: TransactionOutline.partSize)
    }

    convenience init(
        path: String, timeout: Duration = .seconds(5), partSize: Int, gaps: KnownGaps = KnownGaps()
    ) throws {
        try self.init(UntouchedConnection(path: path, timeout: timeout), partSize: partSize, gaps: gaps)
    }

    /// - Parameter connection: Closed if this fails.
    init(
        _ connection: UntouchedConnection, partSize: Int = TransactionOutline.partSize,
        gaps: KnownGaps = KnownGaps()
    ) throws {
        path = connection.path
        self.partSize = partSize
        self.gaps = gaps
        self.connection = connection
        do {
            storeID = try connection.read { db in
                guard try StoreRecorder.hasCoreDataHistory(db) else {
                    throw try StoreRecorder.hasRecordedHistory(db)
                        ? Self.isRecorded(connection.path) : Self.noHistory(connection.path)
                }
                return try CoreDataTables.storeID(db)
            }
        } catch {
            // The first error is the one to report.
            try? connection.close()
            throw error
        }
    }

    private static func isRecorded(_ path: String) -> HistoryError {
        HistoryError(
            .notTracked, "The store \"\(path)\" is one in which historyd records, not Core Data or SwiftData.",
            hint: "Leave \"source\": \"coreData\" out of the configuration.")
    }

    static func noHistory(_ path: String) -> HistoryError {
        HistoryError(
            .notTracked, "The store \"\(path)\" has no history of Core Data or SwiftData.",
            hint: "The app must have set NSPersistentHistoryTrackingKey; SwiftData sets it by itself.")
    }

    /// Closes the connection.
    public func close() throws { try connection.close() }

    func stopWaitingForLocks() throws { try connection.stopWaitingForLocks() }
    func forgetPages() { connection.forgetPages() }

    // MARK: Reading

    /// Reads in one transaction, with the catalog that belongs to the history at that moment.
    func read<T>(_ body: (Database, CoreDataCatalog) throws -> T) throws -> T {
        try connection.read { db in try body(db, try catalog(db)) }
    }

    /// Reads the catalog again if the store was written to and something that a migration changes is
    /// different.
    private func catalog(_ db: Database) throws -> CoreDataCatalog {
        let schema = try db.currentSchemaVersion()
        let dataVersion = try db.firstRow("PRAGMA data_version") { sqlite3_column_int64($0, 0) }
        let known = known.withLock(\.self)
        if let known, known.dataVersion == dataVersion, known.catalog.version.schema == schema {
            return known.catalog
        }
        let version = try CoreDataCatalog.version(db, schema: schema)
        let catalog: CoreDataCatalog
        if let known, known.catalog.version == version {
            catalog = known.catalog
        } else {
            catalog = try CoreDataCatalog(db, version)
        }
        self.known.withLock { $0 = Known(catalog: catalog, dataVersion: dataVersion) }
        return catalog
    }

    func bounds(_ db: Database) throws -> HistoryBounds {
        let bounds = try CoreDataTables.bounds(db)
        guard bounds.store == storeID else {
            throw HistoryError(
                .notTracked, "The store \"\(path)\" is another one now: its UUID is \(bounds.store).",
                hint: "Open it again.")
        }
        return bounds
    }

    func bounds() throws -> HistoryBounds { try read { db, _ in try bounds(db).with(gaps) } }

    // MARK: Positions

    /// The token of the newest transaction, even if it has been purged.
    public func newestToken() throws -> HistoryToken { try bounds().newest }

    /// The oldest token after which the history can be read.
    public func oldestToken() throws -> HistoryToken { try bounds().oldest }

    /// Checks that everything after a token still exists.
    ///
    /// - Throws: `HistoryError` with `.tokenForeign`, `.tokenExpired` or `.tokenAhead`.
    public func check(after token: HistoryToken) throws {
        try bounds().check(after: token)
    }

    /// Where to start reading backwards from before a token's transaction: for `reversedBatch(before:)`.
    public func start(of token: HistoryToken) throws -> Int64 {
        try bounds().checkReaches(token)
        return token.number
    }

    /// The entities in the store's present model.
    public func entities() throws -> [Entity] {
        try read { _, catalog in
            catalog.entities.filter { !catalog.isOfHistory($0.key) }.map(\.value.entity).sorted {
                $0.shape < $1.shape
            }
        }
    }

    // MARK: Batches

    /// Reads the next transactions, as `HistoryReader.batch(after:isPosition:through:changes:filter:)` does.
    ///
    /// - Throws: `HistoryError`.
    public func batch(
        after number: Int64, isPosition: Bool = false, through last: Int64 = .max,
        changes limit: Int = HistoryReader.batchSize, filter: HistoryFilter = HistoryFilter()
    ) throws -> HistoryBatch {
        try batch(after: number, isPosition: isPosition, through: last, limit, filter, partSize: nil)
    }

    /// Reads backwards.
    ///
    /// - Parameters:
    ///   - number: Read what is older than this; nil for everything.
    ///   - limit: The approximate maximum number of changes in a batch.
    ///   - filter: Selects transactions and changes.
    /// - Throws: `HistoryError`.
    public func reversedBatch(
        before number: Int64?, changes limit: Int = HistoryReader.batchSize,
        filter: HistoryFilter = HistoryFilter()
    ) throws -> HistoryBatch {
        try reversedBatch(before: number, limit, filter, partSize: nil)
    }

    func reversedBatch(before number: Int64?, _ limit: Int, _ filter: HistoryFilter, partSize: Int?)
        throws -> HistoryBatch
    {
        try read { db, catalog in
            let bounds = try bounds(db)
            return try reportingGaps(db, catalog, bounds) {
                var rows = CoreDataRows(
                    db, catalog, bounds, filter: filter, isReversed: true, partSize: partSize,
                    work: connection.work)
                return try rows.batch(after: number ?? .max, through: .max, limit: limit)
            }
        }
    }

    func batch(
        after number: Int64, isPosition: Bool, through last: Int64, _ limit: Int, _ filter: HistoryFilter,
        partSize: Int?
    ) throws -> HistoryBatch {
        try read { db, catalog in
            try batch(
                db, catalog, try bounds(db), after: number, isPosition: isPosition, through: last, limit,
                filter,
                partSize: partSize)
        }
    }

    func batch(
        _ db: Database, _ catalog: CoreDataCatalog, _ bounds: HistoryBounds, after number: Int64,
        isPosition: Bool, through last: Int64 = .max, _ limit: Int = HistoryReader.batchSize,
        _ filter: HistoryFilter = HistoryFilter(), partSize: Int?
    ) throws -> HistoryBatch {
        try bounds.with(gaps).check(after: number, isPosition: isPosition)
        // There may be changes without any transaction: then some transactions are missing.
        if bounds.end <= number, number > 0 {
            return HistoryBatch(transactions: [], end: number, isLast: last == .max, fingerprint: nil)
        }
        return try reportingGaps(db, catalog, bounds) {
            var rows = CoreDataRows(
                db, catalog, bounds, filter: filter, partSize: partSize, work: connection.work)
            return try rows.batch(after: number, through: last, limit: limit)
        }
    }

    /// Reads transactions, and remembers a gap that it finds.
    ///
    /// - Throws: `HistoryError` with `.tokenExpired` if the history has a gap.
    private func reportingGaps<T>(
        _ db: Database, _ catalog: CoreDataCatalog, _ bounds: HistoryBounds, _ body: () throws -> T
    ) throws -> T {
        do {
            return try body()
        } catch let gap as HistoryGap {
            var rows = CoreDataRows(db, catalog, bounds, work: connection.work)
            gaps.note(try rows.lastGap(from: gap).end)
            throw HistoryError.missing(gap, "transactions", oldest: bounds.with(gaps).oldest)
        }
    }

    func work(_ db: Database, _ catalog: CoreDataCatalog) throws -> CoreDataRows {
        CoreDataRows(db, catalog, try bounds(db), work: connection.work)
    }
}
