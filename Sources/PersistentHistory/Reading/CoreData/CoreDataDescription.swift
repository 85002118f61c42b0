import GRDB
import GRDBSQLite

/// The content of `historyctl describe` for a store that Core Data or SwiftData writes.
public struct CoreDataDescription: Sendable {
    /// An entity of the store.
    public struct Entity: Sendable {
        /// The entity's name.
        public let name: String
        /// Its number in the store (`Z_ENT`), which a migration changes.
        public let number: Int64
        /// The entity that it inherits from.
        public let parent: String?
        /// The entity in the model, with its properties including inherited ones; nil if there is no
        /// model.
        public let model: ObjectModel.Entity?
        /// The preserved attributes, in the order of their tombstone columns.
        public let preserved: [String]
        /// Whether the names of the properties that an update changed are known.
        public let namesAreKnown: Bool
        /// The number of the entity's changes in the history.
        public let changes: Int64

        /// In the model's order: inherited ones first, and by name.
        public let properties: [ObjectModel.Property]
    }

    /// `Z_UUID`.
    public let storeID: StoreID
    /// The version of the framework that last wrote the store (`NSPersistenceFrameworkVersion`).
    public let frameworkVersion: Int64?
    /// The identifiers of the model's version, if any.
    public let modelVersions: [String]
    /// Why the model cannot be read; nil if it can.
    public let modelProblem: String?
    /// The oldest token after which the history can be read; nil if nothing was ever recorded.
    public let firstToken: HistoryToken?
    /// The token of the newest transaction.
    public let lastToken: HistoryToken?
    /// When the oldest existing transaction was made.
    public let firstTime: HistoryTimestamp?
    /// When the newest transaction was made.
    public let lastTime: HistoryTimestamp?
    /// How many transactions the history has.
    public let transactions: Int64
    /// How many changes the history has.
    public let changes: Int64
    /// How much of the file the history uses, and what is missing in it.
    public let footprint: CoreDataFootprint
    /// Whether the store has a history.
    public let hasHistory: Bool
    /// By number.
    public let entities: [Entity]

    /// Describes a store with or without a history.
    ///
    /// - Throws: `HistoryError`; with `.notTracked` if Core Data does not write the store.
    public init(anyStore path: String) throws {
        let connection = try UntouchedConnection(path: path, timeout: .seconds(5))
        let result = Result {
            try connection.read { db -> CoreDataDescription in
                guard try StoreRecorder.isCoreData(db) else { throw HistoryError.notTracked(path) }
                let hasHistory = try StoreRecorder.hasCoreDataHistory(db)
                let version = try CoreDataCatalog.version(db, schema: 0)
                let tables = hasHistory ? try CoreDataTables(db) : .none
                return try CoreDataDescription(db, CoreDataCatalog(db, version, tables), hasHistory: hasHistory)
            }
        }
        try connection.close()
        self = try result.get()
    }

    /// - Throws: `HistoryError`; with `.notTracked` if the store has no Core Data history.
    public init(path: String) throws {
        let reader = try CoreDataReader(path: path)
        let result = Result { try CoreDataDescription(reader) }
        try reader.close()
        self = try result.get()
    }

    /// - Throws: `HistoryError`.
    public init(_ reader: CoreDataReader) throws {
        self = try reader.read { db, catalog in try CoreDataDescription(db, catalog) }
    }

    private init(_ db: Database, _ catalog: CoreDataCatalog, hasHistory: Bool = true) throws {
        self.hasHistory = hasHistory
        storeID = catalog.storeID
        let metadata = try Self.metadata(db)
        (frameworkVersion, modelVersions) = (metadata.framework, metadata.versions)
        modelProblem = catalog.modelProblem?.message ?? (catalog.model == nil ? "the store has none" : nil)
        if hasHistory {
            let bounds = try CoreDataTables.bounds(db)
            (firstToken, lastToken) = bounds.end > 0 ? (bounds.oldest, bounds.newest) : (nil, nil)
            (firstTime, lastTime) = (try Self.time(db, "ASC"), try Self.time(db, "DESC"))
            footprint = try CoreDataFootprint(db, catalog.tables, bounds)
        } else {
            (firstToken, lastToken, firstTime, lastTime) = (nil, nil, nil, nil)
            footprint = .none
        }
        (transactions, changes) = (footprint.whole.transactions, footprint.whole.changes)
        entities = Self.entities(catalog, footprint.entities.mapValues(\.changes))
    }

    private static func time(_ db: Database, _ order: String) throws -> HistoryTimestamp? {
        try db.rows("SELECT ZTIMESTAMP FROM ATRANSACTION NOT INDEXED ORDER BY Z_PK \(order) LIMIT 1") { row in
            try row.step(db) ? HistoryTimestamp(secondsSince2001: sqlite3_column_double(row, 0)) : nil
        }
    }

    private static func entities(_ catalog: CoreDataCatalog, _ counts: [Int64: Int64]) -> [Entity] {
        let names = Dictionary(catalog.entities.map { ($0, $1.entity.name) }) { first, _ in first }
        let parents = Dictionary(catalog.version.numbers.map { ($0.number, $0.parent) }) { first, _ in first }
        var all = catalog.entities.filter { !catalog.isOfHistory($0.key) }
        for number in counts.keys where all[number] == nil && !catalog.isOfHistory(number) {
            all[number] = CoreDataCatalog.unnamed(number, nil)
        }
        return all.sorted { $0.key < $1.key }
            .map { number, known -> Entity in
                Entity(
                    name: known.entity.name, number: number, parent: parents[number].flatMap { names[$0] },
                    model: catalog.model?.entities[known.entity.name],
                    preserved: known.preserved.columns.map(\.name), namesAreKnown: known.slots != nil,
                    changes: counts[number] ?? 0,
                    properties: catalog.model?.orderedProperties(of: known.entity.name) ?? [])
            }
    }

    /// From the property list in `Z_METADATA`, which may be missing.
    private static func metadata(_ db: Database) throws -> (framework: Int64?, versions: [String]) {
        let own = try CoreDataTables.columns(of: "Z_METADATA", db)
        guard own.contains("Z_PLIST") else { return (nil, []) }
        let content = try db.rows(
            "SELECT Z_PLIST FROM Z_METADATA NOT INDEXED \(CoreDataTables.newest(own)) LIMIT 1"
        ) { row in
            try row.step(db) ? HistoryValue(row, 0) : .null
        }
        guard case .blob(let bytes) = content, let list = try? BinaryPropertyList(bytes),
            case .dictionary(let keys, let values)? = try? list.node(list.top)
        else { return (nil, []) }
        var (framework, versions) = (Int64?.none, [String]())
        for index in 0..<min(keys.count, 1000) {
            guard let key = try? list.node(list.number(keys, index)),
                let value = try? list.node(list.number(values, index))
            else { continue }
            if list.isText(key, "NSPersistenceFrameworkVersion"), case .integer(let number) = value {
                framework = number
            } else if list.isText(key, "NSStoreModelVersionIdentifiers"), case .array(let elements) = value {
                versions = (0..<min(elements.count, 100)).compactMap { index in
                    (try? list.node(list.number(elements, index))).flatMap { list.text($0) }
                }
            }
        }
        return (framework, versions.filter { !$0.isEmpty })
    }
}

extension CoreDataCatalog {
    /// Whether an entity belongs to the history itself, which the model does not contain.
    func isOfHistory(_ number: Int64) -> Bool {
        guard let name = entities[number]?.entity.name, number > 16_000 else { return false }
        return ["CHANGE", "TRANSACTION", "TRANSACTIONSTRING"].contains(name) && model?.entities[name] == nil
    }
}
