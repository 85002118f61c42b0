internal import FoundationEssentials
import GRDB

/// What must be changed so that the store's triggers are as asked for.
struct Plan {
    private struct Step {
        let table: TableSchema
        let current: Entity?
        let preserved: [String]
    }

    private var steps: [Step] = []
    private var dropped: [Entity] = []
    private let isNew: Bool
    /// The format of the store's history.
    private let format: Int64?

    var isEmpty: Bool { steps.isEmpty && dropped.isEmpty && format == RecordingFormat.version }

    init(_ db: Database, entities: [String: [String]?], all: Bool) throws {
        format = try Self.format(db)
        isNew = format == nil
        if isNew, entities.isEmpty, !all {
            throw HistoryError.notTracked
        }
        if isNew { try Self.refuseForeignNames(db) }
        if !isNew { try RecordingTables.check(db) }
        let catalog = isNew ? nil : try EntityCatalog(db)
        var wanted: [String: [String]?] = [:]
        for (name, preserved) in entities {
            let table = try TableSchema(name, in: db)
            wanted.updateValue(preserved, forKey: table.name)
        }
        if all {
            for name in try Self.ordinaryTables(db) where !wanted.keys.contains(name) {
                wanted.updateValue(nil, forKey: name)
            }
        }
        for (name, entity) in catalog?.tracked ?? [:] where !wanted.keys.contains(name) {
            if try db.tableExists(name) {
                wanted.updateValue(nil, forKey: name)
            } else if let table = try Self.renamed(entity, db) {
                steps.append(
                    Step(table: table, current: entity, preserved: try Self.preserved(entity, in: table, db)))
            } else {
                dropped.append(entity)
            }
        }
        for (name, preserved) in wanted.sorted(by: { $0.key < $1.key }) {
            let table = try TableSchema(name, in: db)
            let current = catalog?.tracked[name]
            let kept = try current.map { try Self.preserved($0, in: table, db) } ?? []
            let step = Step(table: table, current: current, preserved: preserved ?? kept)
            if try !Self.isUpToDate(step, db) { steps.append(step) }
        }
    }

    /// Nil where the store is not tracked.
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

    /// A table of the application's that bears one of our names must not be touched.
    private static func refuseForeignNames(_ db: Database) throws {
        for name in RecordingFormat.tables where try db.tableExists(name) {
            throw HistoryError(
                .notAnEntity,
                "The store has a table \"\(name)\" of its own; names that begin with \"\(RecordingFormat.prefix)\" belong to the history.",
                hint: "Rename it.")
        }
    }

    static func ordinaryTables(_ db: Database) throws -> [String] {
        try String.fetchAll(
            db,
            sql: """
                SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
                AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE 'historyd\\_%' ESCAPE '\\' ORDER BY name
                """)
    }

    /// ALTER TABLE … RENAME takes the triggers along: they tell where an entity went.
    private static func renamed(_ entity: Entity, _ db: Database) throws -> TableSchema? {
        let name = try String.fetchOne(
            db, sql: "SELECT tbl_name FROM main.sqlite_schema WHERE type = 'trigger' AND name = ?",
            arguments: ["\(RecordingFormat.prefix)\(entity.shape)_insert"])
        return try name.map { try TableSchema($0, in: db) }
    }

    /// The columns to preserve as they are named now.
    ///
    /// A table that still has the shape's triggers is the same one: its columns may have been renamed
    /// or added to, but have their places (none that a trigger names can be dropped). Of another table
    /// of that name, columns of the same names are preserved.
    private static func preserved(_ entity: Entity, in table: TableSchema, _ db: Database) throws -> [String] {
        let names = Set(entity.preserved.map(\.name))
        let isSame =
            try Bool.fetchOne(
                db,
                sql: "SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND name = ? AND tbl_name = ?",
                arguments: ["\(RecordingFormat.prefix)\(entity.shape)_insert", table.name]) ?? false
        guard isSame else { return table.columns.map(\.name).filter(names.contains) }
        return zip(entity.columns, table.columns).filter { names.contains($0.0.name) }.map(\.1.name)
    }

    private static func isUpToDate(_ step: Step, _ db: Database) throws -> Bool {
        guard let current = step.current else { return false }
        let wanted = try step.table.entity(shape: current.shape, preserving: step.preserved)
        guard wanted == current else { return false }
        let triggers = TriggerWriter(table: step.table, entity: wanted).triggers()
        let present = try Row.fetchAll(
            db,
            sql:
                "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger' AND tbl_name = ? AND name LIKE 'historyd\\_%' ESCAPE '\\'",
            arguments: [step.table.name])
        let sql = Dictionary(present.map { ($0["name"] as String, $0["sql"] as String) }) { first, _ in first }
        return try !Self.hasNewerTriggers(step.table, db) && sql.count == triggers.count
            && triggers.allSatisfy { sql[$0.name] == $0.sql }
    }

    /// Whether the application has made triggers since ours: SQLite would run them before ours, and
    /// what they do would be recorded before what made them do it.
    private static func hasNewerTriggers(_ table: TableSchema, _ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db,
            sql: """
                SELECT max(rowid) FILTER (WHERE NOT ours) > min(rowid) FILTER (WHERE ours) FROM (
                    SELECT rowid, name LIKE 'historyd\\_%' ESCAPE '\\' AS ours FROM main.sqlite_schema
                    WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE)
                """,
            arguments: [table.name]) ?? false
    }

    func carryOut(_ db: Database) throws -> Tracking.Outcome {
        var outcome = Tracking.Outcome()
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
            try db.execute(
                sql: "UPDATE historyd_entity SET tracked = 0 WHERE shape = ?", arguments: [entity.shape])
            outcome.dropped.append(entity.name)
        }
        for step in steps {
            if let current = step.current { try Self.removeTriggers(current, db) }
            let shape =
                try Int64.fetchOne(db, sql: "SELECT coalesce(max(shape), 0) + 1 FROM historyd_entity") ?? 1
            let entity = try step.table.entity(shape: shape, preserving: step.preserved)
            try db.execute(
                sql: "INSERT INTO historyd_entity VALUES (?, ?, ?, 1)",
                arguments: [shape, entity.name, EntityDefinition.text(entity)])
            for trigger in TriggerWriter(table: step.table, entity: entity).triggers() {
                try db.execute(sql: trigger.sql)
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
    static func removeTriggers(_ entity: Entity, _ db: Database) throws {
        let pattern = "\(RecordingFormat.prefix)\(entity.shape)\\_%".replacing("historyd_", with: "historyd\\_")
        let names = try Row.fetchAll(
            db,
            sql:
                "SELECT type, name FROM main.sqlite_schema WHERE type IN ('trigger', 'index') AND name LIKE ? ESCAPE '\\'",
            arguments: [pattern])
        for row in names {
            try db.execute(sql: "DROP \((row["type"] as String).uppercased()) \(SQLText.name(row["name"]))")
        }
        try db.execute(sql: "UPDATE historyd_entity SET tracked = 0 WHERE shape = ?", arguments: [entity.shape])
        try db.execute(sql: "DELETE FROM historyd_conflict WHERE shape = ?", arguments: [entity.shape])
    }
}
