import GRDB

/// The state of a store's recording: none, complete, or what others have left of it.
///
/// Migration tools drop tables that they do not know, and people drop what looks like a leftover.
enum RecordingCondition {
    /// No tables of the history.
    case none
    /// The history exists. The table of conflicts, which holds nothing lasting, may be missing.
    case whole(lacksConflicts: Bool)
    /// The history or its meaning is lost: a new one begins.
    ///
    /// - tracked: The tables that were tracked, with the columns to preserve if known.
    case broken(tracked: [BinaryText: [String]?])

    /// - Throws: `HistoryError` with `.formatTooNew`, or with `.notAnEntity` if the application has
    ///   tables of our names; `UnexpectedValue` if something else is in place of our tables.
    init(_ db: Database, _ schema: StoreSchema) throws {
        let isThere = try StoreRecorder.hasRecordedHistory(db)
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

    /// An application's table with one of our names must not be touched.
    private static func foreignNames(_ schema: StoreSchema, _ cause: UnexpectedValue) -> any Error {
        guard let name = RecordingFormat.tables.first(where: { schema.table($0) != nil }) else { return cause }
        return HistoryError(
            .notAnEntity,
            "The application has a table \"\(name)\", but names that begin with \"\(RecordingFormat.prefix)\" are reserved for the history.",
            hint: "Rename it.")
    }

    /// What was tracked, according to what is left: the catalog, or triggers on tables.
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

extension RecordingFormat {
    /// Whether the table of wanted names exists, in a store whose recording is damaged.
    static func keepsNames(_ schema: StoreSchema) -> Bool { schema.table("historyd_store") != nil }
}
