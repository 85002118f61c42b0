internal import FoundationEssentials
import GRDB

/// The shapes of entities as they stand in a store.
struct EntityCatalog {
    private(set) var shapes: [Int64: Entity] = [:]
    /// The current shape of each entity that is tracked, by name.
    private(set) var tracked: [String: Entity] = [:]

    /// - Throws: `DatabaseError`, or `HistoryError` with `.storeCorrupt`.
    init(_ db: Database) throws {
        for row in try Row.fetchAll(db, sql: "SELECT shape, name, definition, tracked FROM historyd_entity") {
            let entity = try EntityDefinition.entity(shape: row["shape"], name: row["name"], row["definition"])
            shapes[entity.shape] = entity
            if row["tracked"] { tracked[entity.name] = entity }
        }
    }
}

/// A shape as JSON text in `historyd_entity.definition`.
struct EntityDefinition: Codable {
    struct Column: Codable {
        let name: String
        let type: String
    }

    let columns: [Column]
    /// Absent for a row known by its rowid.
    let key: [String]?
    /// Whether `key` is one column stored as it is.
    let plainKey: Bool
    let preserve: [String]
    /// Absent until format 2.
    let plainTombstone: Bool?

    static func text(_ entity: Entity) throws -> String {
        let key: [String]? =
            switch entity.key {
            case .rowid: nil
            case .column(let name): [name]
            case .columns(let names): names
            }
        var isPlain = false
        if case .column = entity.key { isPlain = true }
        let definition = EntityDefinition(
            columns: entity.columns.map { Column(name: $0.name, type: $0.declaredType) },
            key: key, plainKey: isPlain, preserve: entity.preserved.map(\.name),
            plainTombstone: entity.hasPlainTombstone)
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        return String(decoding: try encoder.encode(definition), as: UTF8.self)
    }

    static func entity(shape: Int64, name: String, _ text: String) throws -> Entity {
        let definition: EntityDefinition
        do {
            definition = try JSONDecoder().decode(Self.self, from: Data(text.utf8))
        } catch {
            throw HistoryError(
                .storeCorrupt,
                "The history's description of the entity \"\(name)\" (shape \(shape)) can not be read.",
                hint: "Track the store anew.", cause: error)
        }
        let columns = definition.columns.map { Entity.Column(name: $0.name, declaredType: $0.type) }
        let preserve = Set(definition.preserve)
        let key: Entity.Key =
            switch definition.key {
            case nil: .rowid
            case let names? where definition.plainKey && names.count == 1: .column(names[0])
            case let names?: .columns(names)
            }
        return Entity(
            shape: shape, name: name, columns: columns, key: key,
            preserved: columns.filter { preserve.contains($0.name) },
            hasPlainTombstone: definition.plainTombstone ?? false)
    }
}
