import GRDB

extension TrackingPlan {
    /// - Parameter isComplete: Whether it is known that nothing changed while triggers were missing.
    func carryOut(_ db: Database, isComplete: Bool = false) throws -> Tracking.Outcome {
        var outcome = Tracking.Outcome(doubts: doubts, unfit: unfit.mapValues { "\($0)" })
        var unrecorded = isComplete ? [] : try unrecorded(db)
        switch condition {
        case .none: try Self.begin(db)
        case .broken:
            _ = try Tracking.removeAll(db)
            try Self.begin(db)
            outcome.beganAgain = true
        case .whole(let lacksConflicts):
            if lacksConflicts { try db.execute(sql: RecordingFormat.conflicts) }
            // An older program may not understand what is written from now on.
            try db.execute(
                sql: "UPDATE historyd_store SET value = ?1 WHERE key = 'format' AND value < ?1",
                arguments: [RecordingFormat.version])
        }
        for entity in dropped {
            try Self.removeTriggers(entity, schema, db)
            outcome.dropped.append(entity.name)
        }
        if placesSentinel { try RowidSentinel.place(db) }
        for step in steps {
            do {
                try db.inSavepoint {
                    try computing(step.table) { try carryOut(step, db) }
                    return .commit
                }
            } catch let error as HistoryError
                where error.code == .notAnEntity && !demanded.contains(step.table.name)
            {
                outcome.unfit[step.table.name] = "\(error)"
                // Announced when it is recorded again.
                unrecorded.remove(BinaryText(step.table.name))
                continue
            }
            if step.current == nil {
                outcome.added.append(step.table.name)
            } else {
                outcome.updated.append(step.table.name)
            }
        }
        if !steps.isEmpty { try SchemaRows.announce(db) }
        if savesNames { try names.save(db) }
        if !isComplete {
            try UnrecordedChanges.note(unrecorded, db)
            outcome.recreated = unrecorded.sorted().map(\.text)
        }
        return outcome
    }

    /// Explains errors where SQLite cannot compute a table's own index expressions.
    private func computing(_ table: TableSchema, _ body: () throws -> Void) throws {
        do {
            try body()
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            throw HistoryError(
                .notAnEntity,
                "The table \"\(table.name)\" cannot be recorded: this program's SQLite \(SuspectedDamage.version(SuspectedDamage.own)) cannot compute an expression of its indexes: \(error.message ?? "no reason given").",
                hint:
                    "If a newer SQLite can, such as the application's, use a historyd with that one; or change the index.",
                cause: error)
        }
    }

    private static func begin(_ db: Database) throws {
        let id = try StoreID.random()
        try db.execute(sql: RecordingFormat.schema)
        try db.execute(
            sql: "INSERT INTO historyd_store VALUES ('format', ?), ('id', ?), ('floor', 0)",
            arguments: [RecordingFormat.version, id.text])
    }

    private func carryOut(_ step: Step, _ db: Database) throws {
        if let current = step.current { try Self.removeTriggers(current, schema, db) }
        // Another writer may have used the next number since the plan was made.
        let row = try Row.fetchOne(db, sql: "SELECT coalesce(max(shape), 0) + 1 AS shape FROM historyd_entity")
        let shape = try row?.integer("shape", in: RecordingFormat.shapes) ?? 1
        let entity = try step.table.entity(shape: shape, preserving: step.preserved)
        let writer = TriggerWriter(table: step.table, entity: entity)
        try db.execute(
            sql: "INSERT INTO historyd_entity VALUES (?, ?, ?, 1)",
            arguments: [shape, entity.name, EntityDefinition.text(entity, RecordingGuard(writer))])
        for statement in writer.knownRows() { try db.execute(sql: statement) }
        try SchemaRows.create(writer.triggers(), on: step.table.name, db)
        try RowidKeeper.keepRowids(of: step.table, entity, db)
    }

    /// Removes a shape's triggers. The shape stays known for the changes recorded with it.
    static func removeTriggers(_ entity: Entity, _ schema: StoreSchema, _ db: Database) throws {
        try removeObjects(of: entity, schema, db)
        try db.execute(sql: "UPDATE historyd_entity SET tracked = 0 WHERE shape = ?", arguments: [entity.shape])
    }

    /// Removes everything that records a shape, which stays tracked.
    static func removeObjects(of entity: Entity, _ schema: StoreSchema, _ db: Database) throws {
        for object in schema.ownObjects(ofShape: entity.shape) {
            try db.execute(sql: "DROP \(object.type.uppercased()) \(SQLText.name(object.name))")
        }
        try db.execute(
            sql: "DELETE FROM \(RecordingFormat.conflictTable) WHERE shape = ?", arguments: [entity.shape])
    }
}

/// VACUUM may change the rowids of tables without an INTEGER PRIMARY KEY
/// (https://www.sqlite.org/lang_vacuum.html), and with them the identity of rows that have no key. In
/// practice it does so for tables without an index. A partial index that contains no row prevents it, and
/// does not slow writes. The application may drop its own indexes without notice.
enum RowidKeeper {
    static func keepRowids(of table: TableSchema, _ entity: Entity, _ db: Database) throws {
        for name in names(of: table, entity) {
            try db.execute(sql: "CREATE INDEX \(name) ON \(SQLText.name(table.name)) ((0)) WHERE 0")
        }
    }

    /// The name of the index, if there should be one.
    static func names(of table: TableSchema, _ entity: Entity) -> [String] {
        table.rowidIdentifies && !table.hasLastingIndex
            ? ["\(RecordingFormat.prefix)\(entity.shape)_rowids"] : []
    }
}
