internal import FoundationEssentials
import GRDB

/// What must be changed so that the store's triggers are as asked for.
struct Plan {
    private struct Step {
        let table: TableSchema
        let current: Entity?
        let preserved: [String]
    }

    private let schema: StoreSchema
    private var steps: [Step] = []
    private var dropped: [Entity] = []
    /// Why the recording of entities may miss something.
    private(set) var doubts: [String: [String]] = [:]
    private let isNew: Bool
    /// The format of the store's history.
    private let format: Int64?

    var isEmpty: Bool { steps.isEmpty && dropped.isEmpty && format == RecordingFormat.version }

    init(_ db: Database, entities: [String: [String]?], all: Bool) throws {
        if try MirrorFormat.isThere(db) { throw HistoryError.isMirror }
        format = try Self.format(db)
        isNew = format == nil
        if isNew, entities.isEmpty, !all {
            throw HistoryError.notTracked
        }
        if !isNew { try RecordingTables.check(db) }
        schema = try StoreSchema(db)
        if isNew { try Self.refuseForeignNames(schema) }
        let catalog = isNew ? nil : try EntityCatalog(db)
        var wanted: [String: [String]?] = [:]
        for (name, preserved) in entities {
            let table = try TableSchema(name, in: schema)
            wanted.updateValue(preserved, forKey: table.name)
        }
        if all {
            for table in schema.ordinaryTables where !wanted.keys.contains(table.name) {
                wanted.updateValue(nil, forKey: table.name)
            }
        }
        let follower = FollowedTables(schema)
        for (name, entity) in catalog?.tracked ?? [:] where !wanted.keys.contains(name) {
            if schema.table(name)?.type == "table" {
                wanted.updateValue(nil, forKey: name)
            } else if let table = try follower.table(of: entity) {
                note(table)
                steps.append(
                    Step(table: table, current: entity, preserved: follower.preserved(entity, in: table)))
            } else {
                dropped.append(entity)
            }
        }
        for (name, preserved) in wanted.sorted(by: { $0.key < $1.key }) {
            let table = try TableSchema(name, in: schema)
            note(table)
            let current = catalog?.tracked[name]
            let kept = current.map { follower.preserved($0, in: table) } ?? []
            let step = Step(table: table, current: current, preserved: preserved ?? kept)
            if try !Self.isUpToDate(step) { steps.append(step) }
        }
    }

    private mutating func note(_ table: TableSchema) {
        if !table.doubts.isEmpty { doubts[table.name] = table.doubts }
    }

    /// Nil if the store is not tracked.
    private static func format(_ db: Database) throws -> Int64? {
        guard try RecordingFormat.isThere(db) else { return nil }
        let row = try Row.fetchOne(
            db, sql: "SELECT value AS \"the history's format\" FROM historyd_store WHERE key = 'format'")
        let version = try row?.integer("the history's format", in: 1 ... .max)
        if let version, version > RecordingFormat.version {
            throw HistoryError(
                .formatTooNew,
                "The store's history has format \(version); this program knows up to \(RecordingFormat.version).",
                hint: "Use a newer historyd.")
        }
        return version
    }

    /// A table of the application's that has one of our names must not be touched.
    private static func refuseForeignNames(_ schema: StoreSchema) throws {
        for name in RecordingFormat.tables where schema.table(name) != nil {
            throw HistoryError(
                .notAnEntity,
                "The application has a table \"\(name)\", but names that begin with \"\(RecordingFormat.prefix)\" are reserved for the history.",
                hint: "Rename it.")
        }
    }

    private static func isUpToDate(_ step: Step) throws -> Bool {
        guard let current = step.current else { return false }
        let wanted = try step.table.entity(shape: current.shape, preserving: step.preserved)
        guard wanted == current, !hasNewerTriggers(step.table) else { return false }
        let writer = TriggerWriter(table: step.table, entity: wanted)
        let triggers = writer.triggers()
        let present = step.table.triggers.filter(\.isOurs)
        let sql = Dictionary(present.map { ($0.name, $0.sql) }) { first, _ in first }
        return sql.count == triggers.count && triggers.allSatisfy { sql[$0.name] == $0.sql }
    }

    /// Whether the application has made triggers since ours: SQLite would run them before ours, and
    /// what they do would be recorded before what made them do it.
    private static func hasNewerTriggers(_ table: TableSchema) -> Bool {
        guard let oldest = table.triggers.filter(\.isOurs).map(\.rowid).min() else { return false }
        return table.triggers.contains { !$0.isOurs && $0.rowid > oldest }
    }

    func carryOut(_ db: Database) throws -> Tracking.Outcome {
        var outcome = Tracking.Outcome(doubts: doubts)
        if isNew {
            try db.execute(sql: RecordingFormat.schema)
            try db.execute(
                sql: "INSERT INTO historyd_store VALUES ('format', ?), ('id', ?), ('floor', 0)",
                arguments: [RecordingFormat.version, StoreID(UUID()).text])
        }
        if let format, format < RecordingFormat.version {
            // What is noted there lasts no longer than a statement.
            if format < 2 { try db.execute(sql: "DROP TABLE historyd_conflict; \(RecordingFormat.conflicts)") }
            try db.execute(
                sql: "UPDATE historyd_store SET value = ? WHERE key = 'format'",
                arguments: [RecordingFormat.version])
        }
        for entity in dropped {
            try Self.removeTriggers(entity, schema, db)
            outcome.dropped.append(entity.name)
        }
        for step in steps {
            if let current = step.current { try Self.removeTriggers(current, schema, db) }
            let shape =
                try Int64.fetchOne(db, sql: "SELECT coalesce(max(shape), 0) + 1 FROM historyd_entity") ?? 1
            let entity = try step.table.entity(shape: shape, preserving: step.preserved)
            try db.execute(
                sql: "INSERT INTO historyd_entity VALUES (?, ?, ?, 1)",
                arguments: [shape, entity.name, EntityDefinition.text(entity)])
            let writer = TriggerWriter(table: step.table, entity: entity)
            for statement in writer.knownRows() + writer.triggers().map(\.sql) {
                try db.execute(sql: statement)
            }
            try RowidKeeper.keepRowids(of: step.table, entity, db)
            if step.current == nil {
                outcome.added.append(entity.name)
            } else {
                outcome.updated.append(entity.name)
            }
        }
        return outcome
    }

    /// Takes a shape's triggers away; it stays known for the changes recorded under it.
    static func removeTriggers(_ entity: Entity, _ schema: StoreSchema, _ db: Database) throws {
        for object in schema.ownObjects(ofShape: entity.shape) {
            try db.execute(sql: "DROP \(object.type.uppercased()) \(SQLText.name(object.name))")
        }
        try db.execute(sql: "UPDATE historyd_entity SET tracked = 0 WHERE shape = ?", arguments: [entity.shape])
        try db.execute(sql: "DELETE FROM historyd_conflict WHERE shape = ?", arguments: [entity.shape])
    }
}
