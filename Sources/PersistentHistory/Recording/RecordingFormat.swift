import GRDB

/// How the history lies in the store.
///
/// A commit of one changed row touches one page more than it would untracked: the last leaf of
/// `historyd_change`, which has no index. The other tables are written when tracking begins or the
/// schema changes, and on conflicts (see `TriggerWriter`). Few tables need one of their own beside them, from
/// format 4 on: `historyd_<shape>_rows` (see `KnownRows.swift`). From format 5 on a row may say that changes
/// went unrecorded up to it (see `UnrecordedChanges`).
///
/// A history transaction is the longest run of changes with one `origin`. For a declared writer
/// that is the text the extension gives (key, process, time, author, context), another one for each
/// SQL transaction; for an undeclared one the time in milliseconds.
enum RecordingFormat {
    static let version: Int64 = 5

    /// The number that triggers ask `sqlite_compileoption_get` for. "HIST" in ASCII.
    static let originRequest = 1_212_765_012

    /// All names that begin so are ours.
    static let prefix = "historyd_"

    /// In `historyd_change.kind`: shape * 4 + operation.
    enum Operation: Int64 {
        case insert = 0
        case update = 1
        case delete = 2
        /// No change: stands where the newest change was taken away, so that its number is not given again, or
        /// is a notice of changes that went unrecorded (see `UnrecordedChanges`).
        case void = 3
    }

    /// The numbers that shapes may have: `kind` cannot overflow.
    static let shapes: ClosedRange<Int64> = 1...(1 << 60)

    static func kind(shape: Int64, _ operation: Operation) -> Int64 {
        shape * 4 + operation.rawValue
    }

    /// Whether a store is tracked. (GRDB's `tableExists` reads and keeps the whole schema.)
    static func isThere(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'historyd_store'") ?? false
    }

    /// Whether there is the table that keeps the wanted names, in a store whose recording is damaged.
    static func keepsNames(_ schema: StoreSchema) -> Bool { schema.table("historyd_store") != nil }

    static let tables = [
        "historyd_store", "historyd_entity", "historyd_change", conflictTable,
    ]

    static let schema = """
        CREATE TABLE historyd_store (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
        CREATE TABLE historyd_entity (
            shape INTEGER PRIMARY KEY, name TEXT NOT NULL, definition TEXT NOT NULL, tracked INTEGER NOT NULL);
        CREATE TABLE historyd_change (id INTEGER PRIMARY KEY, origin, kind INTEGER, object, detail);
        \(conflicts);
        """

    static let conflictTable = "historyd_conflict"

    /// Has a row only while a statement runs, or what the last one left.
    static let conflicts =
        "CREATE TABLE historyd_conflict (shape INTEGER, object, tombstone, at INTEGER, updating, k0, k1, k2, k3)"
}

/// What a store has of the recording: nothing, all, or what others have left of it.
///
/// Migration tools drop tables that they do not know, and people drop what they take for left over.
enum RecordingCondition {
    /// Nothing of ours.
    case none
    /// The history is there. The table of conflicts may be missing, which holds nothing that lasts.
    case whole(lacksConflicts: Bool)
    /// The history or its meaning is gone: a new one begins.
    ///
    /// - tracked: The tables that were tracked, with the columns to preserve where they are known.
    case broken(tracked: [BinaryText: [String]?])

    /// - Throws: `HistoryError` with `.formatTooNew`, or with `.notAnEntity` where the application has tables of
    ///   our names; `UnexpectedValue` where somebody has put something else in the place of our tables.
    init(_ db: Database, _ schema: StoreSchema) throws {
        let isThere = try RecordingFormat.isThere(db)
        let hasFormat = try isThere && Self.hasFormat(db)
        let missing: Set<BinaryText>
        do {
            missing = try RecordingTables.missing(db)
        } catch let error as UnexpectedValue {
            if isThere { throw error }
            throw Self.foreignNames(schema, error)
        }
        if !isThere, schema.shapesWithObjects.isEmpty, missing == Set(names: RecordingFormat.tables) {
            self = .none
        } else if hasFormat, missing.isSubset(of: [BinaryText(RecordingFormat.conflictTable)]),
            try Self.hasIdentity(db)
        {
            self = .whole(lacksConflicts: !missing.isEmpty)
        } else {
            self = .broken(
                tracked: try Self.tracked(db, schema, hasCatalog: !missing.contains("historyd_entity")))
        }
    }

    private static func hasIdentity(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            db, sql: "SELECT 1 FROM historyd_store WHERE key = 'id' AND value = ?",
            arguments: [StoreID.withoutEntropy.text]) == nil
    }

    private static func hasFormat(_ db: Database) throws -> Bool {
        let row = try Row.fetchOne(
            db, sql: "SELECT value AS \"the history's format\" FROM historyd_store WHERE key = 'format'")
        guard let version = try row?.integer("the history's format", in: 1 ... .max) else { return false }
        guard version <= RecordingFormat.version else {
            throw HistoryError(
                .formatTooNew,
                "The store's history has format \(version); this program knows up to \(RecordingFormat.version).",
                hint: "Use a newer historyd.")
        }
        return true
    }

    /// A table of the application's that has one of our names must not be touched.
    private static func foreignNames(_ schema: StoreSchema, _ cause: UnexpectedValue) -> any Error {
        guard let name = RecordingFormat.tables.first(where: { schema.table($0) != nil }) else { return cause }
        return HistoryError(
            .notAnEntity,
            "The application has a table \"\(name)\", but names that begin with \"\(RecordingFormat.prefix)\" are reserved for the history.",
            hint: "Rename it.")
    }

    /// What was tracked, by what is left: the catalog, or the triggers that still are on tables.
    private static func tracked(_ db: Database, _ schema: StoreSchema, hasCatalog: Bool) throws
        -> [BinaryText: [String]?]
    {
        let followed = FollowedTables(schema)
        var tracked: [BinaryText: [String]?] = [:]
        for name in followed.all { tracked.updateValue(nil, forKey: name) }
        guard hasCatalog else { return tracked }
        for entity in try EntityCatalog(db).tracked.values {
            let name = followed.name(of: entity) ?? entity.name
            guard let table = schema.table(name), table.type == "table" else { continue }
            tracked[table.name] = followed.preserved(entity, in: try TableSchema(name, in: schema))
        }
        return tracked
    }
}
