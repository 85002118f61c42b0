import GRDB
import GRDBSQLite

/// Readable labels for the objects of a Core Data store, from an attribute: they show which object `p10`
/// is. For a deleted object the label comes from its tombstone, if the model preserves the attribute; for
/// any other from the present row.
package struct ObjectLabels: Sendable {
    private let reader: CoreDataReader
    private let property: String
    private let type: ObjectModel.AttributeType
    /// The entity, and those that inherit from it.
    private let entities: Set<BinaryText>
    private let query: String

    /// Longer labels are cut.
    private static let longest = 200

    /// - Throws: `HistoryError` with `.notAnEntity` if the model or the table has no such attribute.
    package init(_ reader: CoreDataReader, entity: String, property: String) throws {
        self.reader = reader
        self.property = property
        (type, entities, query) = try reader.read { db, catalog in
            guard let model = catalog.model, let described = model.entities[entity],
                case .attribute(let attribute)? = described.properties[BinaryText(property)]?.kind,
                let root = model.ancestry(of: entity)?.last
            else {
                throw HistoryError(
                    .notAnEntity, "The model has no attribute \"\(entity).\(property)\".",
                    hint: "`historyctl describe` prints the entities with their attributes.")
            }
            let table = "Z" + root.name.uppercased()
            let column = "Z" + property.uppercased()
            guard try StoreRecorder.isTable(db, table),
                try CoreDataTables.columns(of: table, db).contains(BinaryText(column))
            else {
                throw HistoryError(
                    .notAnEntity,
                    "The table \"\(table)\" has no column \"\(column)\" for \"\(entity).\(property)\"."
                )
            }
            guard ObjectColumns.owners(in: model, below: root.name)[BinaryText(column)]?.count == 1 else {
                throw HistoryError(
                    .notAnEntity,
                    "Several entities in the table \"\(table)\" have a property \"\(property)\", and which column has that of \"\(entity)\" is not known."
                )
            }
            let names = model.entities.values.map(\.name).filter { name in
                model.ancestry(of: name)?.contains { $0.name.hasSameBytes(as: entity) } ?? false
            }
            return (
                attribute.type, Set(names: names),
                "SELECT \(SQLText.name(column)) FROM \(SQLText.name(table)) NOT INDEXED WHERE Z_PK = ?"
            )
        }
    }

    /// Adds labels to the entity's objects in transactions.
    package func label(_ transactions: [HistoryTransaction]) throws -> [HistoryTransaction] {
        let texts = try texts(of: transactions.flatMap(\.changes))
        return transactions.map {
            $0.labelled { change in change.label ?? number(change).flatMap { texts[$0] } }
        }
    }

    /// The same for changes of a large transaction.
    package func label(_ changes: [HistoryChange]) throws -> [HistoryChange] {
        let texts = try texts(of: changes)
        return changes.map { change in
            change.labelled(change.label ?? number(change).flatMap { texts[$0] })
        }
    }

    private func number(_ change: HistoryChange) -> Int64? {
        guard entities.contains(change.entity.name), case .integer(let number)? = change.objectID.onlyValue
        else {
            return nil
        }
        return number
    }

    private func texts(of changes: [HistoryChange]) throws -> [Int64: String] {
        try reader.read { db, _ in
            var texts: [Int64: String] = [:]
            for change in changes {
                guard let number = number(change), texts[number] == nil else { continue }
                let kept = change.tombstone?.values.first { $0.column.name.hasSameBytes(as: property) }
                let stored = try db.rows(query, number) { row in
                    try row.step(db) ? HistoryValue(row, 0) : .null
                }
                let value = kept?.value ?? type.value(stored) ?? .null
                texts[number] = TombstoneText.text(of: value, declaredType: type.name).map {
                    String($0.prefix(Self.longest))
                }
            }
            return texts
        }
    }
}
