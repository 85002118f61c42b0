import GRDB
import GRDBSQLite

/// The columns of an entity's table that certainly hold its attributes and to-one relationships.
struct ObjectColumns: Sendable {
    private struct Column: Sendable {
        let column: Entity.Column
        /// Nil for a to-one relationship: its value is the number of the other object.
        let type: ObjectModel.AttributeType?
    }

    /// An object's row.
    struct Row: Sendable {
        var values: [(column: Entity.Column, value: HistoryValue)] = []
        var omitted: [String] = []
        /// The size of its texts and blobs.
        var bytes = 0
    }

    /// The number of the entity in the row.
    private let number: Int64
    private let columns: [Column]
    private let query: String

    /// Longer texts and blobs are not shown.
    private static let longest = 64 << 10

    /// - Returns: Nil if the table is not that of the model.
    init?(_ db: Database, _ catalog: CoreDataCatalog, entity number: Int64) throws {
        guard let known = catalog.entities[number], known.slots != nil, let model = catalog.model,
            let entity = model.entities[known.entity.name], let root = model.ancestry(of: entity.name)?.last
        else { return nil }
        let table = "Z" + root.name.uppercased()
        guard try StoreRecorder.isTable(db, table) else { return nil }
        let found = try CoreDataTables.columns(of: table, db)
        guard found.isSuperset(of: ["Z_PK", "Z_ENT"]) else { return nil }
        let owners = Self.owners(in: model, below: root.name)
        self.number = number
        columns = entity.properties.values.sorted { BinaryText($0.name) < BinaryText($1.name) }.compactMap {
            property in
            let name = BinaryText("Z" + property.name.uppercased())
            // Siblings' properties of the same name have columns with numbers, in an order that is not known.
            guard found.contains(name), owners[name]?.count == 1 else { return nil }
            switch property.kind {
            case .attribute(let attribute) where !attribute.isTransient:
                return Column(
                    column: Entity.Column(name: property.name, declaredType: attribute.type.name),
                    type: attribute.type)
            case .relationship(let relationship) where !relationship.isToMany:
                return Column(column: Entity.Column(name: property.name, declaredType: ""), type: nil)
            default: return nil
            }
        }
        let names = columns.map { ", " + SQLText.name("Z" + $0.column.name.uppercased()) }.joined()
        query = "SELECT Z_ENT\(names) FROM \(SQLText.name(table)) NOT INDEXED WHERE Z_PK = ?"
    }

    /// The entities that introduce a property, by the name of its column, in one table.
    static func owners(in model: ObjectModel, below root: String) -> [BinaryText: Set<BinaryText>] {
        var owners: [BinaryText: Set<BinaryText>] = [:]
        for entity in model.entities.values {
            guard let chain = model.ancestry(of: entity.name), let top = chain.last,
                top.name.hasSameBytes(as: root)
            else { continue }
            for property in entity.properties.values {
                guard let owner = chain.last(where: { $0.properties[BinaryText(property.name)] != nil }) else {
                    continue
                }
                // Two properties of an entity may differ in case only.
                owners[BinaryText("Z" + property.name.uppercased()), default: []].insert(
                    BinaryText(owner.name + "." + property.name))
            }
        }
        return owners
    }

    /// Reads an object's row.
    ///
    /// - Parameter room: How many bytes of texts and blobs are still to be read.
    /// - Returns: Nil if there is none, or one of another entity.
    func row(_ db: Database, of object: Int64, room: Int) throws -> Row? {
        try db.rows(query, object) { statement in
            guard try statement.step(db), sqlite3_column_type(statement, 0) == SQLITE_INTEGER,
                sqlite3_column_int64(statement, 0) == number
            else { return nil }
            var row = Row()
            for (index, column) in columns.enumerated() {
                let place = Int32(index + 1)
                let size = statement.payload(from: place, count: 1)
                guard size <= Self.longest, row.bytes + size <= room else {
                    row.omitted.append(column.column.name)
                    continue
                }
                row.bytes += size
                if let value = Self.value(HistoryValue(statement, place), column.type) {
                    row.values.append((column.column, value))
                }
            }
            return row
        }
    }

    /// Nil if the value is not of its type.
    private static func value(_ stored: HistoryValue, _ type: ObjectModel.AttributeType?) -> HistoryValue? {
        switch (type, stored) {
        case (_, .null): .null
        case (nil, .integer): stored
        case (nil, _): nil
        // A column for numbers keeps one without a fraction as an integer.
        case (.date?, .integer(let seconds)): ObjectModel.AttributeType.date.value(.real(Double(seconds)))
        case (let type?, _): type.value(stored)
        }
    }
}

/// Objects' rows in one state of a store. Where a table is damaged, or not that of the model, there are none.
struct ObjectRows {
    private let catalog: CoreDataCatalog
    /// By the entity's number.
    private var columns: [Int64: ObjectColumns?] = [:]

    init(_ catalog: CoreDataCatalog) { self.catalog = catalog }

    /// As `ObjectColumns.row`; nil also if it cannot be read.
    mutating func row(_ db: Database, _ entity: Int64, _ object: Int64, room: Int) -> ObjectColumns.Row? {
        if columns[entity] == nil {
            columns[entity] = .some(try? ObjectColumns(db, catalog, entity: entity))
        }
        return try? columns[entity]??.row(db, of: object, room: room)
    }
}
