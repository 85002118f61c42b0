package import PersistentHistory
internal import FoundationEssentials
import GRDB

/// A store's schema, as far as a mirror needs it: tables, indexes, the shapes of entities.
package struct MirrorSchema: Codable, Hashable, Sendable {
    package struct Table: Codable, Hashable, Sendable {
        package let name: String
        /// The CREATE TABLE statement, as in the store.
        package let sql: String
        /// The number of its tracking, which differs if a table was recreated with the same statement.
        package let shape: Int64

        /// Whether both are the same to the byte.
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
    package internal(set) var tables: [Table]
    package internal(set) var indexes: [Index]
    package internal(set) var shapes: [Shape]
    /// Tracked tables that cannot be created elsewhere.
    package internal(set) var leftOut: [String]

    /// Equal for equal content.
    package var digest: String {
        get throws { String(try SHA256.of(json).prefix(16)) }
    }

    /// The JSON of a group's line.
    var json: [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // It consists of text and numbers only, so encoding cannot fail.
        return (try? encoder.encode(self)).map { Array($0) } ?? []
    }

    /// Reads the schema of a store.
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

    /// The tables that must be copied completely after a change of the schema.
    package func newTables(since other: MirrorSchema?) -> Set<BinaryText> {
        let known = other?.tables ?? []
        return Set(names: tables.filter { table in !known.contains { $0.isSame(as: table) } }.map(\.name))
    }
}

/// What makes a store a mirror: a table beside the history's own, and triggers that refuse all writers but one.
///
/// A mirror has the source's tables, its history and its id, but does not record changes itself. Triggers are
/// off on the follower's connection (`SQLITE_DBCONFIG_ENABLE_TRIGGER`); on any other, a write to a mirrored
/// table fails.
package enum MirrorFormat {
    /// One row: the position, and where in the stream it was found.
    static let schema = """
        CREATE TABLE historyd_mirror (
            id INTEGER PRIMARY KEY CHECK (id = 1), name TEXT NOT NULL, store TEXT NOT NULL, epoch INTEGER NOT NULL,
            position TEXT NOT NULL, sequence INTEGER NOT NULL, message TEXT NOT NULL);
        CREATE TABLE historyd_object (
            name TEXT PRIMARY KEY, type TEXT NOT NULL, entity TEXT NOT NULL, sql TEXT NOT NULL) WITHOUT ROWID;
        """

    /// The statements that refuse other writers to a table, and keep its rowids through a VACUUM (see
    /// `RowidKeeper`).
    static func guards(of table: MirrorSchema.Table) -> [String] {
        let name = SQLText.name(table.name)
        let triggers = ["insert", "update", "delete"].map { operation in
            """
            CREATE TRIGGER historyd_mirror_\(operation)_\(table.shape) BEFORE \(operation.uppercased())
            ON \(name) BEGIN SELECT RAISE(ABORT, \
            'this is a mirror: only historyd-nats writes to it; write to the source'); END
            """
        }
        return triggers + ["CREATE INDEX historyd_mirror_rowids_\(table.shape) ON \(name) ((0)) WHERE 0"]
    }
}
