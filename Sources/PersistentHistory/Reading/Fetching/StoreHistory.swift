import GRDB

/// Reads a store's history, whatever records it: historyd (`HistoryReader`), or Core Data and SwiftData
/// (`CoreDataReader`).
public protocol HistoryReading: Sendable {
    /// The store's file.
    var path: String { get }
    /// The id of the store that was opened.
    var storeID: StoreID { get }
    /// The token of the newest transaction; number 0 if nothing was ever recorded.
    func newestToken() throws -> HistoryToken
    /// The oldest token after which the history can be read.
    func oldestToken() throws -> HistoryToken
    /// Checks that everything after a token still exists.
    ///
    /// - Throws: `HistoryError` with `.tokenForeign`, `.tokenExpired` or `.tokenAhead`.
    func check(after token: HistoryToken) throws
    /// Where to start reading backwards from before a token's transaction: for `reversedBatch(before:)`.
    func start(of token: HistoryToken) throws -> Int64
    /// The entities that the history has, or had.
    func entities() throws -> [Entity]
    /// Reads the next transactions: see `HistoryReader.batch(after:isPosition:through:changes:filter:)`.
    func batch(
        after number: Int64, isPosition: Bool, through last: Int64, changes limit: Int, filter: HistoryFilter
    ) throws -> HistoryBatch
    /// Reads backwards: see `HistoryReader.reversedBatch(before:changes:filter:)`.
    func reversedBatch(before number: Int64?, changes limit: Int, filter: HistoryFilter) throws -> HistoryBatch
    /// Closes the connection.
    func close() throws
}

extension HistoryReading {
    /// The next transactions after a number, by default from the start of the history.
    public func batch(after number: Int64 = 0, filter: HistoryFilter = HistoryFilter()) throws -> HistoryBatch {
        try batch(
            after: number, isPosition: false, through: .max, changes: HistoryReader.batchSize, filter: filter)
    }

    /// What is older than a number, the newest first; by default from the newest.
    public func reversedBatch(before number: Int64?, filter: HistoryFilter = HistoryFilter()) throws
        -> HistoryBatch
    {
        try reversedBatch(before: number, changes: HistoryReader.batchSize, filter: filter)
    }
}

extension HistoryReader: HistoryReading {}
extension CoreDataReader: HistoryReading {}

/// Opens a store's history, whatever records it.
public enum StoreHistory {
    /// Opens a store for reading its history. Not a byte of a store that only Core Data writes changes.
    ///
    /// - Parameters:
    ///   - path: The store's file.
    ///   - timeout: How long to wait for a lock that another process holds.
    /// - Throws: `HistoryError`; with `.notTracked` if there is no history.
    public static func open(_ path: String, timeout: Duration = .seconds(5)) throws -> any HistoryReading {
        do {
            let connection = try UntouchedConnection(path: path, timeout: timeout)
            let result = Result { try connection.read { db in try recorder(of: db, path) } }
            if case .success(.coreData) = result { return try CoreDataReader(connection) }
            try connection.close()
            _ = try result.get()
        } catch let error as HistoryError
            where [.storeMissing, .storeCorrupt, .storeTooNew, .notTracked].contains(error.code)
        {
            throw error
        } catch {
            // A store of Core Data is never opened in a way that changes it. A busy store of an unknown writer
            // may be Core Data's.
            let writer = StoreRecorder.writer(ofFile: path)
            let isBusy = (error as? HistoryError)?.code == .storeBusy
            if writer?.isOnlyRead ?? isBusy { throw error }
        }
        return try HistoryReader(path: path, timeout: timeout)
    }

    private static func recorder(of db: Database, _ path: String) throws -> Entity.Source {
        if let source = try StoreRecorder.source(of: db) { return source }
        if try StoreRecorder.isCoreData(db) { throw CoreDataReader.noHistory(path) }
        let hasTables = try Bool.fetchOne(db, sql: "SELECT 1 FROM sqlite_schema LIMIT 1") ?? false
        throw hasTables ? HistoryError.notTracked(path) : .hasNoTables(path)
    }
}
