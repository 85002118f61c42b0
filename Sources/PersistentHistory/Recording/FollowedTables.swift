/// Where the tables of tracked entities are, whatever they are called by now.
///
/// ALTER TABLE … RENAME takes the triggers along: they show where an entity went.
struct FollowedTables {
    /// The names of the tables that have a shape's triggers.
    private var names: [Int64: String] = [:]
    /// The shapes that have a trigger that records, and not only one to be followed by (see `Migration`).
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

    /// All tables that have triggers of ours.
    var all: Set<BinaryText> { Set(names: names.values) }

    /// The table that an entity's triggers are on; nil where they are gone.
    func name(of entity: Entity) -> String? { names[entity.shape] }

    /// The columns to preserve as they are named now.
    ///
    /// Where the shape's triggers still are on the table, its columns may have been renamed or added to, but have
    /// their places: SQLite drops no column that a trigger names. Otherwise columns of the same names are
    /// preserved; one whose name is gone is taken for renamed where a new name stands in its place.
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

/// Which new tables stand for tracked ones that a migration has removed.
///
/// A tool that renames a table and rebuilds it in one transaction leaves nothing that connects the two: neither
/// triggers, nor the name. What is left is the shape: a table that was not there before, with the same primary key and
/// at least half of the columns, and better than any other.
struct ReplacedTables {
    /// What a new table stands for.
    struct Replacement {
        let replaced: BinaryText
        let preserved: [String]?
    }

    private let before: Set<BinaryText>

    /// - Parameter schema: Before the migration.
    init(before schema: StoreSchema) {
        before = Set(names: schema.ordinaryTables.map { SQLText.folded($0.name) })
    }

    /// The new tables, by name.
    ///
    /// - Parameters:
    ///   - removed: The entities whose tables are gone.
    ///   - schema: After the migration.
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
