import GRDB
import GRDBSQLite

/// A store's description of its entities: their numbers and names, and its model. A migration changes all
/// of it together with the history, so it is read in the same transaction as the history.
struct CoreDataCatalog: Sendable {
    /// What Core Data changes together with the model.
    struct Version: Sendable, Equatable {
        let schema: Int64
        fileprivate let metadata: [UInt8]
        fileprivate let modelSize: Int64
        let numbers: [PrimaryKey]

        /// Whether entities and properties are the same.
        func hasModel(of other: Version) -> Bool {
            schema == other.schema && modelSize == other.modelSize && numbers == other.numbers
        }
    }

    /// A row of `Z_PRIMARYKEY`.
    struct PrimaryKey: Sendable, Hashable {
        let number: Int64
        let name: BinaryText
        let parent: Int64
    }

    /// An entity, and how its changes are read.
    struct Known: Sendable {
        let entity: Entity
        /// Nil if the slots of its properties are unknown.
        let slots: PropertySlots?
        let preserved: PreservedAttributes
    }

    let version: Version
    let storeID: StoreID
    let tables: CoreDataTables
    let entities: [Int64: Known]
    /// Nil if the store has none, or it cannot be read.
    let model: ObjectModel?
    /// Why the names of properties are unknown.
    let modelProblem: ObjectModel.Unreadable?

    /// Far more than any model has.
    private static let mostEntities = 10_000
    private static let mostModelBytes: Int64 = 16 << 20

    /// Reads the version without the model itself.
    static func version(_ db: Database, schema: Int64) throws -> Version {
        var metadata: [UInt8] = []
        let own = try CoreDataTables.columns(of: "Z_METADATA", db)
        let plist = own.contains("Z_PLIST") ? "Z_PLIST" : "NULL"
        try db.rows(
            "SELECT CAST(Z_UUID AS BLOB), \(plist) FROM Z_METADATA NOT INDEXED \(CoreDataTables.newest(own)) LIMIT 1"
        ) {
            row in
            guard try row.step(db) else { return }
            for column: Int32 in 0...1 {
                if case .blob(let bytes) = HistoryValue(row, column) { metadata += bytes }
            }
        }
        return Version(
            schema: schema, metadata: metadata, modelSize: try modelSize(db), numbers: try numbers(db))
    }

    /// 0 if the store has no model.
    private static func modelSize(_ db: Database) throws -> Int64 {
        guard try StoreRecorder.isTable(db, "Z_MODELCACHE"),
            try CoreDataTables.columns(of: "Z_MODELCACHE", db).contains("Z_CONTENT")
        else { return 0 }
        return try db.rows("SELECT length(Z_CONTENT) FROM Z_MODELCACHE LIMIT 1") { row in
            try row.step(db) ? sqlite3_column_int64(row, 0) : 0
        }
    }

    private static func numbers(_ db: Database) throws -> [PrimaryKey] {
        guard try StoreRecorder.isTable(db, "Z_PRIMARYKEY") else { return [] }
        let own = try CoreDataTables.columns(of: "Z_PRIMARYKEY", db)
        guard own.isSuperset(of: ["Z_ENT", "Z_NAME"]) else { return [] }
        let parent = own.contains("Z_SUPER") ? "Z_SUPER" : "0"
        return try db.rows("SELECT Z_ENT, Z_NAME, \(parent) FROM Z_PRIMARYKEY NOT INDEXED ORDER BY Z_ENT") {
            row in
            var numbers: [PrimaryKey] = []
            while try row.step(db) {
                guard numbers.count < mostEntities else { throw UnexpectedValue("it has too many entities") }
                guard sqlite3_column_type(row, 0) == SQLITE_INTEGER, case .text(let name) = HistoryValue(row, 1)
                else {
                    throw UnexpectedValue("an entity", expected: "a number with a name", found: row, 1)
                }
                numbers.append(
                    PrimaryKey(
                        number: sqlite3_column_int64(row, 0), name: BinaryText(name),
                        parent: sqlite3_column_int64(row, 2)))
            }
            return numbers
        }
    }

    init(_ db: Database, _ version: Version) throws { try self.init(db, version, CoreDataTables(db)) }

    init(_ db: Database, _ version: Version, _ tables: CoreDataTables) throws {
        self.version = version
        self.tables = tables
        storeID = try CoreDataTables.storeID(db)
        do {
            model = try Self.model(db, version)
            modelProblem = nil
        } catch let problem as ObjectModel.Unreadable {
            (model, modelProblem) = (nil, problem)
        }
        entities = try Self.entities(db, version, model)
    }

    /// Reads what is readable. Damage outside the history and entities without names are ignored.
    init(salvaging db: Database) throws {
        tables = try CoreDataTables(db)
        storeID = (try? CoreDataTables.storeID(db)) ?? .none
        let version =
            (try? Self.version(db, schema: 0))
            ?? Version(schema: 0, metadata: [], modelSize: 0, numbers: Self.readableNumbers(db))
        self.version = version
        let size = (try? Self.modelSize(db)) ?? 0
        model = try? Self.model(db, Version(schema: 0, metadata: [], modelSize: size, numbers: []))
        modelProblem = nil
        entities = (try? Self.entities(db, version, model)) ?? [:]
    }

    /// Reads each entity's row separately.
    private static func readableNumbers(_ db: Database) -> [PrimaryKey] {
        // Core Data numbers an app's entities from 1, and its own from 16001.
        (Array(1...2000) + Array(16_001...16_010)).compactMap { number in
            try? db.rows("SELECT Z_ENT, Z_NAME, Z_SUPER FROM Z_PRIMARYKEY NOT INDEXED WHERE Z_ENT = ?", number)
            {
                row in
                guard try row.step(db), case .text(let name) = HistoryValue(row, 1) else { return nil }
                return PrimaryKey(
                    number: number, name: BinaryText(name), parent: sqlite3_column_int64(row, 2))
            }
        }
    }

    private static func entities(_ db: Database, _ version: Version, _ model: ObjectModel?) throws -> [Int64:
        Known]
    {
        let evidence = try model.map { try ModelColumns(db, $0) }
        let names = Dictionary(version.numbers.map { ($0.number, $0.name) }) { first, _ in first }
        var entities: [Int64: Known] = [:]
        for key in version.numbers where entities[key.number] == nil {
            entities[key.number] = known(key, parent: names[key.parent]?.text, model, evidence)
        }
        return entities
    }

    private static func known(
        _ key: PrimaryKey, parent: String?, _ model: ObjectModel?, _ evidence: ModelColumns?
    ) -> Known {
        guard let model, let described = model.entities[key.name] else {
            return unnamed(key.number, key.name.text)
        }
        let name = described.name
        let isAgreed = described.parent.hasSameBytes(as: parent) && evidence?.agree(with: name) == true
        let preserved = isAgreed ? PreservedAttributes(of: name, in: model) : .none
        let columns = (model.orderedProperties(of: name) ?? []).compactMap { property -> Entity.Column? in
            guard case .attribute(let attribute) = property.kind, !attribute.isTransient else { return nil }
            return Entity.Column(name: property.name, declaredType: attribute.type.name)
        }
        return Known(
            entity: Entity(
                shape: key.number, name: name, columns: columns, key: .column("Z_PK"),
                preserved: preserved.columns, source: .coreData),
            slots: isAgreed ? PropertySlots(of: name, in: model) : nil, preserved: preserved)
    }

    /// An entity of which only the name, or only the number, is known.
    static func unnamed(_ number: Int64, _ name: String?) -> Known {
        Known(
            entity: Entity(
                shape: number, name: name ?? "#\(number)", columns: [], key: .column("Z_PK"), preserved: [],
                source: .coreData),
            slots: nil, preserved: .none)
    }

    private static func model(_ db: Database, _ version: Version) throws -> ObjectModel? {
        guard version.modelSize > 0 else { return nil }
        guard version.modelSize <= mostModelBytes else {
            throw ObjectModel.Unreadable("it has \(version.modelSize) bytes")
        }
        let content = try db.rows("SELECT Z_CONTENT FROM Z_MODELCACHE LIMIT 1") { row in
            try row.step(db) ? HistoryValue(row, 0) : .null
        }
        guard case .blob(let bytes) = content else { throw ObjectModel.Unreadable("it is no blob") }
        return try ObjectModel(compressed: bytes)
    }
}
