internal import FoundationEssentials
import GRDB

/// What a mirror needs to know of a store besides its rows: tables, indexes, the shapes of entities.
package struct MirrorSchema: Codable, Hashable, Sendable {
    package struct Table: Codable, Hashable, Sendable {
        package let name: String
        /// The CREATE TABLE, in the store's words.
        package let sql: String
        /// The number of its tracking: a table that was made again in the same words has another.
        package let shape: Int64

        /// Whether it is the same, to the byte.
        func isSame(as other: Table) -> Bool {
            shape == other.shape && [name, sql].haveSameBytes(as: [other.name, other.sql])
        }
    }

    package struct Index: Codable, Hashable, Sendable {
        package let name: String
        package let table: String
        package let sql: String
    }

    /// A row of `historyd_entity`.
    package struct Shape: Codable, Hashable, Sendable {
        package let shape: Int64
        package let name: String
        package let definition: String
        package let tracked: Int64
    }

    /// `UTF-8`, `UTF-16le` or `UTF-16be`.
    package let encoding: String
    /// The format of the recording.
    package let format: Int64
    package let tables: [Table]
    package let indexes: [Index]
    package let shapes: [Shape]
    /// Tracked tables that cannot be made elsewhere.
    package let leftOut: [String]

    /// What two of the same content have in common.
    package var digest: String { String(SHA256.of(json).prefix(16)) }

    /// As it stands in a line.
    var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // Of texts and numbers alone: it can always be written.
        return (try? encoder.encode(self)).map { Array($0) } ?? []
    }

    /// Reads it from a store.
    init(_ db: Database) throws {
        let shape = try ReplicaShape(store: db, wanted: nil)
        tables = shape.tables.map { Table(name: $0.key.text, sql: $0.value.sql, shape: $0.value.shape ?? 0) }
            .sorted { $0.name.precedes($1.name) }
        indexes = shape.indexes.filter { !shape.isLeftOut($0.key) }
            .map { Index(name: $0.key.text, table: $0.value.entity, sql: $0.value.sql) }
            .sorted { $0.name.precedes($1.name) }
        leftOut = shape.leftOut.keys.sorted().map(\.text)
        encoding = try String.fetchOne(db, sql: "PRAGMA encoding") ?? "UTF-8"
        let row = try Row.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'format'")
        format = try row?.integer("value") ?? RecordingFormat.version
        shapes = try Row.fetchAll(
            db, sql: "SELECT shape, name, definition, tracked FROM historyd_entity ORDER BY shape"
        ).map { row in
            Shape(
                shape: try row.integer("shape", in: RecordingFormat.shapes),
                name: try row.text("name", atMost: EntityCatalog.Limits.name),
                definition: try row.text("definition", atMost: EntityCatalog.Limits.definition),
                tracked: try row.flag("tracked") ? 1 : 0)
        }
    }

    /// The tables that have to be copied whole where the schema was another one.
    package func newTables(since other: MirrorSchema?) -> Set<BinaryText> {
        let known = other?.tables ?? []
        return Set(names: tables.filter { table in !known.contains { $0.isSame(as: table) } }.map(\.name))
    }
}
