import GRDB

/// Reads a store's history, whoever records it: historyd (`HistoryReader`), or Core Data and SwiftData
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
    /// Checks that everything after a token is still there.
    ///
    /// - Throws: `HistoryError` with `.tokenForeign`, `.tokenExpired` or `.tokenAhead`.
    func check(after token: HistoryToken) throws
    /// Where to begin reading backwards what is older than a token's transaction: for `reversedBatch(before:)`.
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
    /// The next transactions after a number, from the first of the history on by default.
    public func batch(after number: Int64 = 0, filter: HistoryFilter = HistoryFilter()) throws -> HistoryBatch {
        try batch(
            after: number, isPosition: false, through: .max, changes: HistoryReader.batchSize, filter: filter)
    }

    /// What is older than a number, the newest first; from the newest on by default.
    public func reversedBatch(before number: Int64?, filter: HistoryFilter = HistoryFilter()) throws
        -> HistoryBatch
    {
        try reversedBatch(before: number, changes: HistoryReader.batchSize, filter: filter)
    }
}

extension HistoryReader: HistoryReading {}
extension CoreDataReader: HistoryReading {}

/// Opens a store's history, whoever records it.
public enum StoreHistory {
    /// Opens a store for reading its history. Of a store that only Core Data writes not a byte changes.
    ///
    /// - Parameter timeout: How long to wait for a lock that another process holds.
    /// - Throws: `HistoryError`; with `.notTracked` where there is no history.
    public static func open(_ path: String, timeout: Duration = .seconds(5)) throws -> any HistoryReading {
        do {
            let connection = try UntouchedConnection(path: path, timeout: timeout)
            let (source, isOfCoreData) = try connection.read { db in
                (try Self.source(of: db), try CoreDataTables.isCoreData(db))
            }
            if source == .coreData { return try CoreDataReader(connection) }
            try connection.close()
            if source == nil {
                throw isOfCoreData ? CoreDataReader.noHistory(path) : HistoryError.notTracked(path)
            }
        } catch let error as HistoryError
            where [.storeMissing, .storeCorrupt, .storeTooNew, .notTracked].contains(error.code)
        {
            throw error
        } catch {
            // Whatever has to be done to read it, Core Data's own it stays.
            if isCoreDataByItself(path) { throw error }
        }
        return try HistoryReader(path: path, timeout: timeout)
    }

    /// Refuses to change a store whose history Core Data records, before anything is opened that may leave a file
    /// beside it.
    ///
    /// - Throws: `HistoryError` with `.onlyRead`.
    static func requireRecordable(_ path: String) throws {
        // Any other trouble shows when the store is opened.
        guard let connection = try? UntouchedConnection(path: path, timeout: .zero) else { return }
        let source = try? connection.read { db in try Self.source(of: db) }
        try connection.close()
        if source == .coreData { throw HistoryError.onlyRead(path) }
    }

    /// historyd may record in a store that Core Data writes; then that history counts.
    static func source(of db: Database) throws -> Entity.Source? {
        if try RecordingFormat.isThere(db) { return .recorded }
        return try CoreDataTables.areThere(db) ? .coreData : nil
    }

    /// Of a store that cannot be read as it is, by what its file alone says.
    private static func isCoreDataByItself(_ path: String) -> Bool {
        (try? UntouchedConnection.peek(path) { db in try source(of: db) == .coreData }) ?? false
    }
}

/// Which transactions, and which of their changes, a reader wants. Everything, unless said otherwise.
public struct HistoryFilter: Sendable, Equatable {
    /// Only these authors; nil for any, undeclared writers included.
    public var authors: Set<BinaryText>?
    /// Authors whose transactions are left out.
    public var excludedAuthors: Set<BinaryText> = []
    /// Whether transactions without an author are selected in addition to those of `authors`.
    public var includesUndeclared = false
    /// The earliest time, inclusive.
    public var since: HistoryTimestamp?
    /// The latest time, inclusive.
    public var until: HistoryTimestamp?
    /// Only changes of these entities; nil for all.
    public var entities: Set<BinaryText>?
    /// Only these operations; nil for all.
    public var operations: Set<ChangeOperation>?
    /// Only changes of one of these objects, in one of `entities`. If the columns of a key were renamed, the object
    /// has one id for each name.
    public var objects: Set<ObjectID>?

    /// A filter that selects everything.
    public init() {}

    func accepts(_ origin: Origin) -> Bool {
        if let since, origin.timestamp < since { return false }
        if let until, origin.timestamp > until { return false }
        guard let author = origin.author else { return authors == nil || includesUndeclared }
        if excludedAuthors.contains(author) { return false }
        return authors?.contains(author) ?? true
    }

    func accepts(_ entity: Entity, _ operation: ChangeOperation) -> Bool {
        (entities?.contains(entity.name) ?? true) && (operations?.contains(operation) ?? true)
    }

    /// Whether unrecorded changes of these entities may be among what is wanted, whatever their author.
    func accepts(recreated names: [String], at time: HistoryTimestamp) -> Bool {
        if let since, time < since { return false }
        if let until, time > until { return false }
        return entities.map { !$0.isDisjoint(with: names.asBinary) } ?? true
    }

    func accepts(_ change: ObjectID) -> Bool { objects?.contains(change) ?? true }
}
