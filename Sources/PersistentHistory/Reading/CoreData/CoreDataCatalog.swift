import GRDB
import GRDBSQLite

/// What a store says of its entities: their numbers and names, and its model. A migration changes all of it, and the
/// history with it, so it is read in the same transaction as the history.
struct CoreDataCatalog: Sendable {
    /// What Core Data changes with the model.
    struct Version: Sendable, Equatable {
        let schema: Int64
        fileprivate let metadata: [UInt8]
        fileprivate let modelSize: Int64
        let numbers: [PrimaryKey]
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
        /// Nil where the slots of its properties are not known.
        let slots: PropertySlots?
        let preserved: PreservedAttributes
    }

    let version: Version
    let storeID: StoreID
    let tables: CoreDataTables
    let entities: [Int64: Known]
    /// Nil where the store has none, or it cannot be read.
    let model: ObjectModel?
    /// Why the names of properties are not known.
    let modelProblem: ObjectModel.Unreadable?

    /// Far more than any model has.
    private static let mostEntities = 10_000
    private static let mostModelBytes: Int64 = 16 << 20

    /// Reads what changes with the model, without the model.
    static func version(_ db: Database, schema: Int64) throws -> Version {
        var metadata: [UInt8] = []
        try db.rows("SELECT CAST(Z_UUID AS BLOB), Z_PLIST FROM Z_METADATA ORDER BY Z_VERSION DESC LIMIT 1") {
            row in
            guard try row.step(db) else { return }
            for column: Int32 in 0...1 {
                if case .blob(let bytes) = HistoryValue(row, column) { metadata += bytes }
            }
        }
        let hasModel = try StoreRecorder.isTable(db, "Z_MODELCACHE")
        let modelSize =
            hasModel
            ? try db.rows("SELECT length(Z_CONTENT) FROM Z_MODELCACHE LIMIT 1") { row in
                try row.step(db) ? sqlite3_column_int64(row, 0) : 0
            } : 0
        return Version(schema: schema, metadata: metadata, modelSize: modelSize, numbers: try numbers(db))
    }

    private static func numbers(_ db: Database) throws -> [PrimaryKey] {
        guard try StoreRecorder.isTable(db, "Z_PRIMARYKEY") else { return [] }
        return try db.rows("SELECT Z_ENT, Z_NAME, Z_SUPER FROM Z_PRIMARYKEY ORDER BY Z_ENT") { row in
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

    init(_ db: Database, _ version: Version) throws {
        self.version = version
        tables = try CoreDataTables(db)
        storeID = try CoreDataTables.storeID(db)
        do {
            model = try Self.model(db, version)
            modelProblem = nil
        } catch let problem as ObjectModel.Unreadable {
            (model, modelProblem) = (nil, problem)
        }
        let evidence = try model.map { try ColumnEvidence(db, $0) }
        let names = Dictionary(version.numbers.map { ($0.number, $0.name) }) { first, _ in first }
        var entities: [Int64: Known] = [:]
        for key in version.numbers where entities[key.number] == nil {
            entities[key.number] = Self.known(key, parent: names[key.parent]?.text, model, evidence)
        }
        self.entities = entities
    }

    private static func known(
        _ key: PrimaryKey, parent: String?, _ model: ObjectModel?, _ evidence: ColumnEvidence?
    ) -> Known {
        guard let model, let described = model.entities[key.name] else {
            return unnamed(key.number, key.name.text)
        }
        let name = described.name
        let isAgreed = described.parent.hasSameBytes(as: parent) && evidence?.contradicts(name) == false
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

    /// An entity of which nothing but its name, or nothing but its number, is known.
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

/// Whether the tables have the columns that the model asks for: a to-one relationship to an entity with sub-entities has
/// one for the entity's number, one whose inverse is ordered one for the place in that order.
private struct ColumnEvidence {
    private let model: ObjectModel
    private let columns: [BinaryText: Set<BinaryText>]

    init(_ db: Database, _ model: ObjectModel) throws {
        self.model = model
        var columns: [BinaryText: Set<BinaryText>] = [:]
        let roots = Set<BinaryText>(
            names: model.entities.values.filter { $0.parent == nil }.map { "Z" + $0.name.uppercased() })
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT t.name AS "table", c.name AS "column" FROM sqlite_master AS t JOIN pragma_table_xinfo(t.name) AS c
                WHERE t.type = 'table' AND t.name LIKE 'Z%' AND t.sql NOT LIKE 'CREATE VIRTUAL%'
                AND (c.name LIKE 'Z\\_FOK\\_%' ESCAPE '\\' OR c.name GLOB 'Z[0-9]*')
                """)
        while let row = try rows.next() {
            let table = try row.text("table")
            if roots.contains(table) { columns[table, default: []].insert(try row.text("column")) }
        }
        self.columns = columns
    }

    /// Whether a column is missing that the model asks for: then the model is not that of the table.
    func contradicts(_ name: String) -> Bool {
        guard let chain = model.ancestry(of: name), let entity = chain.first, let root = chain.last else {
            return true
        }
        let found = columns["Z" + root.name.uppercased()] ?? []
        for property in entity.properties.values {
            guard case .relationship(let relationship) = property.kind, !relationship.isToMany else { continue }
            let column = property.name.uppercased()
            if let destination = relationship.destination, model.parents.contains(destination),
                !found.contains(where: { Self.isEntityColumn($0.text, of: column) })
            {
                return true
            }
            if let inverse = relationship.inverse, inverse.isToMany, inverse.isOrdered,
                !found.contains(where: { $0.text.hasBytePrefix("Z_FOK_" + column) })
            {
                return true
            }
        }
        return false
    }

    /// `Z9_PARENT` or `Z9PARENT`, perhaps with a number behind it, where siblings have columns of one name.
    private static func isEntityColumn(_ column: String, of name: String) -> Bool {
        func isDigit(_ byte: UInt8) -> Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte }
        var rest = column.utf8.dropFirst().drop(while: isDigit)
        if rest.first == UInt8(ascii: "_") { rest = rest.dropFirst() }
        return rest.starts(with: name.utf8) && rest.dropFirst(name.utf8.count).allSatisfy(isDigit)
    }
}
