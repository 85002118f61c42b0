/// Where the tables of tracked entities are, whatever they are called by now.
///
/// ALTER TABLE … RENAME takes the triggers along: they show where an entity went.
struct FollowedTables {
    private let schema: StoreSchema
    /// The names of the tables that have a shape's triggers.
    private var names: [Int64: String] = [:]

    init(_ schema: StoreSchema) {
        self.schema = schema
        for table in schema.ordinaryTables {
            for trigger in table.triggers where trigger.isOurs {
                guard let shape = StoreSchema.shape(ofObject: trigger.name) else { continue }
                names[shape] = table.name
            }
        }
    }

    /// The table that an entity's triggers are on; nil if they are gone.
    func table(of entity: Entity) throws -> TableSchema? {
        try names[entity.shape].map { try TableSchema($0, in: schema) }
    }

    /// The columns to preserve as they are named now.
    ///
    /// A table that still has the shape's triggers is the same one: its columns may have been renamed
    /// or added to, but have their places (none that a trigger names can be dropped). Of another table
    /// of that name, columns of the same names are preserved.
    func preserved(_ entity: Entity, in table: TableSchema) -> [String] {
        let preserved = Set(entity.preserved.map(\.name))
        guard names[entity.shape] == table.name else {
            return table.columns.map(\.name).filter(preserved.contains)
        }
        return zip(entity.columns, table.columns).filter { preserved.contains($0.0.name) }.map(\.1.name)
    }
}
