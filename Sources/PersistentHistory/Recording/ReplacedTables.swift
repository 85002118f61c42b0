/// Which new tables stand for tracked ones that a migration has removed.
///
/// A tool that renames a table and rebuilds it in one transaction leaves nothing that connects the two: neither
/// triggers, nor the name. What is left is the shape: a table that was not there before, with the same primary key and
/// at least half of the columns, and better than any other.
struct ReplacedTables {
    private let before: Set<BinaryText>

    /// - Parameter schema: Before the migration.
    init(before schema: StoreSchema) {
        before = Set(names: schema.ordinaryTables.map { SQLText.folded($0.name) })
    }

    /// The new tables, with the columns to preserve of each.
    ///
    /// - Parameters:
    ///   - removed: The entities whose tables are gone.
    ///   - schema: After the migration.
    func replacements(of removed: [Entity], in schema: StoreSchema) -> [BinaryText: [String]?] {
        let new = schema.ordinaryTables.filter { !before.contains(SQLText.folded($0.name)) }
        var replacements: [BinaryText: [String]?] = [:]
        for entity in removed {
            let columns = Set<BinaryText>(names: entity.columns.map(\.name))
            let shared = new.map { table in
                (table, Set<BinaryText>(names: table.columns.map(\.name)).intersection(columns))
            }
            .filter { Self.key(of: $0.0) == entity.key.columns.asBinary && 2 * $0.1.count >= columns.count }
            guard let best = shared.map(\.1.count).max() else { continue }
            let candidates = shared.filter { $0.1.count == best }
            guard candidates.count == 1, let (table, names) = candidates.first else { continue }
            replacements[table.name] = entity.preserved.map(\.name).filter { names.contains($0) }
        }
        return replacements
    }

    private static func key(of table: StoreSchema.Table) -> [BinaryText] {
        table.columns.filter { $0.placeInKey > 0 }.sorted { $0.placeInKey < $1.placeInKey }
            .map { BinaryText($0.name) }
    }
}
