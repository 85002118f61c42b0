/// Which new tables stand for tracked ones that a migration has removed.
///
/// A tool that renames a table and rebuilds it in one transaction leaves nothing that connects the two: neither
/// triggers, nor the name. What is left is the shape: a table that was not there before, with the same primary key and
/// at least half of the columns, and better than any other.
struct ReplacedTables {
    private let before: Set<String>

    /// - Parameter schema: Before the migration.
    init(before schema: StoreSchema) {
        before = Set(schema.ordinaryTables.map { SQLText.folded($0.name) })
    }

    /// The new tables, with the columns to preserve of each.
    ///
    /// - Parameters:
    ///   - removed: The entities whose tables are gone.
    ///   - schema: After the migration.
    func replacements(of removed: [Entity], in schema: StoreSchema) -> [String: [String]?] {
        let new = schema.ordinaryTables.filter { !before.contains(SQLText.folded($0.name)) }
        var replacements: [String: [String]?] = [:]
        for entity in removed {
            let columns = Set(entity.columns.map(\.name))
            let shared = new.map { table in (table, Set(table.columns.map(\.name)).intersection(columns)) }
                .filter { Self.key(of: $0.0) == Self.key(of: entity) && 2 * $0.1.count >= columns.count }
            guard let best = shared.map(\.1.count).max() else { continue }
            let candidates = shared.filter { $0.1.count == best }
            guard candidates.count == 1, let (table, names) = candidates.first else { continue }
            replacements[table.name] = entity.preserved.map(\.name).filter(names.contains)
        }
        return replacements
    }

    private static func key(of table: StoreSchema.Table) -> [String] {
        table.columns.filter { $0.placeInKey > 0 }.sorted { $0.placeInKey < $1.placeInKey }.map(\.name)
    }

    private static func key(of entity: Entity) -> [String] {
        switch entity.key {
        case .rowid: []
        case .column(let name): [name]
        case .columns(let names): names
        }
    }
}
