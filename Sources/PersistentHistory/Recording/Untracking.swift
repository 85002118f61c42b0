import GRDB

extension Tracking {
    /// Stops recording.
    ///
    /// For a whole store everything that tracking made goes, the history included, and the schema
    /// is as it was before. For some of its entities their triggers go; their recorded changes
    /// stay until they are cleaned, unless purged.
    ///
    /// - Parameters:
    ///   - entities: Nil for the whole store.
    ///   - purging: Whether the recorded changes of `entities` are deleted at once.
    /// - Returns: The entities that are no longer tracked.
    /// - Throws: `HistoryError`.
    @discardableResult
    public static func untrack(_ path: String, _ entities: [String]? = nil, purging: Bool = false) throws
        -> [String]
    {
        try StoreConnection.withConnection(to: path, .write) { queue in
            try queue.inTransaction(.immediate) { db in
                guard try RecordingFormat.isThere(db) else { throw HistoryError.notTracked }
                let catalog = try EntityCatalog(db)
                let chosen = try entities.map { try choose($0, from: catalog) } ?? Array(catalog.tracked.values)
                let schema = try StoreSchema(db)
                let all = entities == nil ? Array(catalog.shapes.values) : chosen
                for entity in all { try Plan.removeTriggers(entity, schema, db) }
                if entities == nil {
                    for table in RecordingFormat.tables.reversed() {
                        try db.execute(sql: "DROP TABLE \(table)")
                    }
                } else if purging {
                    try purge(Set(chosen.map(\.name)), catalog, db)
                }
                return chosen.map(\.name).sorted()
            }
        }
    }

    private static func choose(_ names: [String], from catalog: EntityCatalog) throws -> [Entity] {
        try names.map { name in
            guard
                let entity = catalog.tracked.values.first(where: { $0.name.lowercased() == name.lowercased() })
            else {
                throw HistoryError(
                    .notAnEntity, "The entity \"\(name)\" is not tracked.",
                    hint:
                        "Tracked are \(catalog.tracked.keys.sorted().map { "\"\($0)\"" }.joined(separator: ", "))."
                )
            }
            return entity
        }
    }

    /// The newest change is only emptied: its number must not be given again.
    private static func purge(_ names: Set<String>, _ catalog: EntityCatalog, _ db: Database) throws {
        for entity in catalog.shapes.values where names.contains(entity.name) {
            let kinds = [entity.shape * 4, entity.shape * 4 + 3]
            try db.execute(
                sql:
                    "DELETE FROM historyd_change WHERE kind BETWEEN ? AND ? AND id < (SELECT max(id) FROM historyd_change)",
                arguments: StatementArguments(kinds))
            try db.execute(
                sql:
                    "UPDATE historyd_change SET kind = 3, object = NULL, detail = NULL WHERE kind BETWEEN ? AND ?",
                arguments: StatementArguments(kinds))
        }
    }
}
