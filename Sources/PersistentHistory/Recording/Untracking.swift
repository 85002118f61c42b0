import GRDB

extension Tracking {
    /// Stops recording.
    ///
    /// For a whole store, this removes everything that tracking added, including the history; the schema is then as
    /// it was before. For some entities, it removes their triggers; their recorded changes stay until they are
    /// cleaned, unless purged.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - entities: Nil for the whole store.
    ///   - purging: Whether the recorded changes of `entities` are deleted at once.
    /// - Returns: The entities that are no longer tracked.
    /// - Throws: `HistoryError`.
    @discardableResult
    public static func untrack(_ path: String, _ entities: [String]? = nil, purging: Bool = false) throws
        -> [String]
    {
        try StoreRecorder.requireRecordable(path)
        return try StoreConnection.withConnection(to: path, .write) { queue in
            try queue.inSoloTransaction { db in
                guard let entities else { return try removeAll(db) }
                guard try StoreRecorder.hasRecordedHistory(db) else { throw HistoryError.notTracked(db) }
                try RecordingTables.check(db)
                let catalog = try EntityCatalog(db)
                var wanted = try WantedNames(db) ?? WantedNames(tracked: catalog.tracked.values)
                // A wanted name may have no table at the moment.
                let missing = entities.compactMap {
                    catalog.tracked(as: $0) == nil ? wanted[$0]?.name.text : nil
                }
                let chosen = try choose(
                    entities.filter { catalog.tracked(as: $0) != nil || wanted[$0] == nil }, from: catalog)
                let schema = try StoreSchema(db)
                for entity in chosen { try TrackingPlan.removeTriggers(entity, schema, db) }
                let names = chosen.map(\.name) + missing
                for name in names { wanted.forget(name) }
                try wanted.save(db)
                if purging { try purge(Set(names: names), catalog, db) }
                return names.sorted { $0.precedes($1) }
            }
        }
    }

    /// Untracks a whole store that no process serves. A daemon that tracks the store would track it again
    /// at once with another id, and its consumers would start over.
    ///
    /// - Throws: `HistoryError` with `.storeServedElsewhere`; what `untrack` throws.
    package static func untrackUnserved(_ path: String) async throws -> [String] {
        // A lease without a state folder conflicts with every other lease.
        try await WriterProbe.withLease(on: path, stateFolder: "", isUsedInProcess: true) { try untrack(path) }
    }

    /// Removes everything with one of the history's names. It reads none of it, because it may be damaged
    /// or incomplete.
    ///
    /// - Returns: The tables that had triggers.
    /// - Throws: `HistoryError` with `.notTracked` if there is nothing.
    static func removeAll(_ db: Database) throws -> [String] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, tbl_name FROM main.sqlite_schema WHERE name LIKE 'historyd\\_%' ESCAPE '\\'
                ORDER BY type = 'trigger' DESC, type = 'index' DESC, type = 'view' DESC
                """)
        if rows.isEmpty { throw HistoryError.notTracked(db) }
        var entities: Set<BinaryText> = []
        for row in rows {
            let (type, name) = (try row.text("type"), try row.text("name"))
            guard ["trigger", "index", "view", "table"].contains(type) else { continue }
            if type == "trigger" { entities.insert(try row.text("tbl_name")) }
            try db.execute(sql: "DROP \(type.uppercased()) IF EXISTS main.\(SQLText.name(name))")
        }
        return entities.sorted().map(\.text).filter { !SQLText.isReserved($0) }
    }

    static func choose(_ names: [String], from catalog: EntityCatalog) throws -> [Entity] {
        try names.map { name in
            guard let entity = catalog.tracked(as: name) else {
                throw HistoryError(
                    .notAnEntity, "The entity \"\(name)\" is not tracked.",
                    hint:
                        "Tracked entities: \(catalog.tracked.keys.sorted().quoted)."
                )
            }
            return entity
        }
    }

    /// Empties changes instead of deleting them: a missing number would be a gap, which readers take for
    /// lost history, and the newest number must not be used again. A cleanup deletes empty changes.
    private static func purge(_ names: Set<BinaryText>, _ catalog: EntityCatalog, _ db: Database) throws {
        for entity in catalog.shapes.values where names.contains(entity.name) {
            try db.execute(
                sql:
                    "UPDATE historyd_change SET kind = 3, object = NULL, detail = NULL WHERE kind BETWEEN ? AND ?",
                arguments: [entity.shape * 4, entity.shape * 4 + 3])
        }
    }
}
