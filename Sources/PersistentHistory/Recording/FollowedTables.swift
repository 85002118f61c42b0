/// Finds the tables of tracked entities, whatever their names are now.
///
/// ALTER TABLE … RENAME moves the triggers along, so they show which table is an entity's.
struct FollowedTables {
    /// The names of the tables that have a shape's triggers.
    private var names: [Int64: String] = [:]
    /// The shapes that have a recording trigger, and not only the one that is followed (see `Migration`).
    private var recorded: Set<Int64> = []

    init(_ schema: StoreSchema) {
        for table in schema.ordinaryTables {
            for trigger in table.triggers where trigger.isOurs {
                guard let shape = StoreSchema.shape(ofObject: trigger.name) else { continue }
                names[shape] = table.name
                if StoreSchema.role(ofObject: trigger.name) != Migration.followingRole {
                    recorded.insert(shape)
                }
            }
        }
    }

    /// All tables that have triggers of the history.
    var all: Set<BinaryText> { Set(names: names.values) }

    /// The table that has an entity's triggers; nil if there is none.
    func name(of entity: Entity) -> String? { names[entity.shape] }

    /// The columns to preserve, by their present names.
    ///
    /// If the table still has the shape's triggers, its columns may have been renamed or added to, but
    /// keep their order: SQLite drops no column that a trigger names. Otherwise columns are matched by
    /// name. One whose name is gone counts as renamed if a new name is in its place.
    func preserved(_ entity: Entity, in table: TableSchema) -> [String] {
        let before = entity.columns.map { BinaryText($0.name) }
        let now = table.columns.map { BinaryText($0.name) }
        let isSameTable = names[entity.shape].hasSameBytes(as: table.name) && now.count >= before.count
        let hasItsPlaces = isSameTable && recorded.contains(entity.shape)
        return entity.preserved.compactMap { column in
            let name = BinaryText(column.name)
            if !hasItsPlaces, now.contains(name) { return name.text }
            guard isSameTable, let place = before.firstIndex(of: name) else { return nil }
            return hasItsPlaces || !before.contains(now[place]) ? now[place].text : nil
        }
    }
}

/// Finds the new tables that replace tracked ones after a migration.
///
/// A tool that renames a table and rebuilds it in one transaction leaves neither triggers nor the name to
/// connect the two. Only the shape is left: a table that did not exist before, with the same primary key
/// and at least half of the columns, and a better match than any other.
struct ReplacedTables {
    /// What a new table stands for.
    struct Replacement {
        let replaced: BinaryText
        let preserved: [String]?
    }

    private let before: Set<BinaryText>

    /// - Parameter schema: The schema before the migration.
    init(before schema: StoreSchema) {
        before = Set(names: schema.ordinaryTables.map { SQLText.folded($0.name) })
    }

    /// The new tables, by name.
    ///
    /// - Parameters:
    ///   - removed: The entities whose tables are gone.
    ///   - schema: The schema after the migration.
    func replacements(of removed: [Entity], in schema: StoreSchema) -> [BinaryText: Replacement] {
        let new = schema.ordinaryTables.filter { !before.contains(SQLText.folded($0.name)) }
        var replacements: [BinaryText: Replacement] = [:]
        for entity in removed {
            let columns = Set<BinaryText>(names: entity.columns.map(\.name))
            let shared = new.map { table in
                (table, Set<BinaryText>(names: table.columns.map(\.name)).intersection(columns))
            }
            .filter { Self.key(of: $0.0) == entity.key.columns.asBinary && 2 * $0.1.count >= columns.count }
            guard let best = shared.map(\.1.count).max() else { continue }
            let candidates = shared.filter { $0.1.count == best }
            guard candidates.count == 1, let (table, names) = candidates.first else { continue }
            replacements[table.name] = Replacement(
                replaced: BinaryText(entity.name),
                preserved: entity.preserved.map(\.name).filter { names.contains($0) })
        }
        return replacements
    }

    private static func key(of table: StoreSchema.Table) -> [BinaryText] {
        table.columns.filter { $0.placeInKey > 0 }.sorted { $0.placeInKey < $1.placeInKey }
            .map { BinaryText($0.name) }
    }
}
