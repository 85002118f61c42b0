internal import FoundationEssentials
package import GRDB

/// The shapes of entities that a store describes.
package struct EntityCatalog {
    package private(set) var shapes: [Int64: Entity] = [:]
    /// The current shape of each entity that is tracked, by name.
    private(set) var tracked: [BinaryText: Entity] = [:]
    /// What records, or recorded, each shape.
    private(set) var guards: [Int64: RecordingGuard] = [:]

    /// - Throws: `DatabaseError`, or `HistoryError` with `.storeCorrupt`.
    package init(_ db: Database) throws {
        let rows = try Row.fetchCursor(
            db, sql: "SELECT shape, name, definition, tracked FROM historyd_entity")
        while let row = try rows.next() {
            guard shapes.count < Limits.shapes else {
                throw UnexpectedValue("the history has more than \(Limits.shapes) shapes of entities")
            }
            let (entity, recorded) = try EntityDefinition.entity(
                shape: row.integer("shape", in: RecordingFormat.shapes),
                name: row.text("name", atMost: Limits.name), row.text("definition", atMost: Limits.definition))
            shapes[entity.shape] = entity
            guards[entity.shape] = recorded
            if try row.flag("tracked") { tracked[entity.name] = entity }
        }
    }

    /// The tracked entity with a name, compared without case as SQLite does.
    func tracked(as name: String) -> Entity? {
        tracked[name] ?? tracked.values.first { SQLText.areSame($0.name, name) }
    }

    /// The names of entities, tracked or not, that SQLite takes for a table's name.
    func names(like table: String) -> Set<BinaryText> {
        Set(names: shapes.values.map(\.name).filter { SQLText.areSame($0, table) })
    }

    /// The limits of a store's descriptions, beyond any real one.
    package enum Limits {
        static let shapes = 1 << 18
        /// SQLite's largest number of columns (https://www.sqlite.org/limits.html).
        static let columns = 32_767
        /// In bytes.
        package static let name = 1 << 16
        package static let definition = 1 << 24
    }
}

/// A shape as JSON text in `historyd_entity.definition`.
struct EntityDefinition: Codable {
    struct Column: Codable {
        let name: String
        let type: String
    }

    let columns: [Column]
    /// Absent if the rowid identifies rows.
    let key: [String]?
    /// Whether `key` is one column that is stored unchanged.
    let plainKey: Bool
    let preserve: [String]
    let plainTombstone: Bool
    let recordedBy: RecordingGuard

    static func text(_ entity: Entity, _ recordedBy: RecordingGuard) throws -> String {
        let key = entity.key == .rowid ? nil : entity.key.columns
        var isPlain = false
        if case .column = entity.key { isPlain = true }
        let definition = EntityDefinition(
            columns: entity.columns.map { Column(name: $0.name, type: $0.declaredType) },
            key: key, plainKey: isPlain, preserve: entity.preserved.map(\.name),
            plainTombstone: entity.hasPlainTombstone, recordedBy: recordedBy)
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return String(decoding: try encoder.encode(definition), as: UTF8.self)
    }

    /// Checks that the definition is possible.
    private func check(shape: Int64, name: String) throws {
        let names = Set<BinaryText>(names: columns.map(\.name))
        let key = key?.asBinary
        let preserve = preserve.asBinary
        let problem: String? =
            if name.isEmpty {
                "has no name"
            } else if columns.count > EntityCatalog.Limits.columns {
                "has \(columns.count) columns"
            } else if names.count < columns.count {
                "has two columns of one name"
            } else if let key, key.isEmpty || !names.isSuperset(of: key) || Set(key).count < key.count {
                "has a key that is not one of its columns"
            } else if !names.isSuperset(of: preserve) {
                "preserves a column that it does not have"
            } else if plainTombstone, Set(preserve).count != 1 {
                "has a tombstone of one value for \(preserve.count) columns"
            } else {
                nil
            }
        guard let problem else { return }
        throw UnexpectedValue("the entity of shape \(shape) \(problem)")
    }

    static func entity(shape: Int64, name: String, _ text: String) throws -> (Entity, RecordingGuard) {
        let definition: EntityDefinition
        do {
            definition = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
        } catch {
            throw HistoryError(
                .storeCorrupt,
                "The history's description of the entity \"\(name)\" (shape \(shape)) cannot be read.",
                hint: "Track the store again.", cause: error)
        }
        try definition.check(shape: shape, name: name)
        let columns = definition.columns.map { Entity.Column(name: $0.name, declaredType: $0.type) }
        let preserve = Set<BinaryText>(names: definition.preserve)
        let key: Entity.Key =
            switch definition.key {
            case nil: .rowid
            case let names? where definition.plainKey && names.count == 1: .column(names[0])
            case let names?: .columns(names)
            }
        let entity = Entity(
            shape: shape, name: name, columns: columns, key: key,
            preserved: columns.filter { preserve.contains($0.name) },
            hasPlainTombstone: definition.plainTombstone)
        return (entity, definition.recordedBy)
    }
}
