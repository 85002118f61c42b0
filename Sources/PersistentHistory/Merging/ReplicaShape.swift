import GRDB

/// The tables and indexes of a replica, in the words of the store.
struct ReplicaShape: Equatable {
    struct Index: Equatable {
        let entity: String
        let sql: String
    }

    /// The CREATE TABLE of each entity, and behind it the number of its tracking: a table that was
    /// made anew in the same words has other rows, of which nothing was recorded.
    private(set) var tables: [String: String] = [:]
    /// The CREATE INDEX of each index that has one; those of constraints come with their table.
    private(set) var indexes: [String: Index] = [:]

    /// Nothing at all.
    init() {}

    /// What the store has of the entities that are wanted; nil wants all that are tracked.
    init(store db: Database, wanted: Set<String>?) throws {
        let entities = try EntityCatalog(db).tracked.filter { wanted?.contains($0.key) ?? true }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, tbl_name, sql FROM main.sqlite_schema
                WHERE type IN ('table', 'index') AND sql IS NOT NULL AND name NOT LIKE 'historyd\\_%' ESCAPE '\\'
                """)
        for row in rows {
            let (name, entity, sql): (String, String, String) = (row["name"], row["tbl_name"], row["sql"])
            guard let shape = entities[entity]?.shape else { continue }
            if row["type"] == "table" {
                tables[name] = "\(sql) -- \(shape)"
            } else {
                indexes[name] = Index(entity: entity, sql: sql)
            }
        }
    }

    /// What was made in a replica.
    init(replica db: Database) throws {
        for row in try Row.fetchAll(db, sql: "SELECT name, type, entity, sql FROM historyd_object") {
            let (name, sql): (String, String) = (row["name"], row["sql"])
            if row["type"] == "table" {
                tables[name] = sql
            } else {
                indexes[name] = Index(entity: row["entity"], sql: sql)
            }
        }
    }

    /// The entities whose tables have to be made, or made anew, where a replica has another shape.
    func newTables(in replica: ReplicaShape) -> Set<String> {
        Set(tables.filter { replica.tables[$0.key] != $0.value }.keys)
    }

    /// Takes away what does not belong here any more, and makes the tables that are new, empty.
    func makeTables(_ db: Database, insteadOf old: ReplicaShape) throws {
        for (name, index) in old.indexes where indexes[name] != index {
            try db.execute(sql: "DROP INDEX IF EXISTS \(SQLText.name(name))")
        }
        for (name, sql) in old.tables where tables[name] != sql {
            try db.execute(sql: "DROP TABLE IF EXISTS \(SQLText.name(name))")
        }
        for (name, sql) in tables where old.tables[name] != sql {
            try db.execute(sql: "DROP TABLE IF EXISTS \(SQLText.name(name))")
            try db.execute(sql: sql)
        }
    }

    /// Makes the indexes that are missing, and notes the shape.
    ///
    /// - Returns: Indexes that can not be made here, with the reason: they need a function or a
    ///   collation of the application's own.
    func makeIndexes(_ db: Database, insteadOf old: ReplicaShape) throws -> [ReplicaContext.LeftOutIndex] {
        var leftOut: [ReplicaContext.LeftOutIndex] = []
        for (name, index) in indexes.sorted(by: { $0.key < $1.key })
        where old.indexes[name] != index || old.tables[index.entity] != tables[index.entity] {
            do {
                try db.execute(sql: index.sql)
            } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
                let reason = error.message ?? "SQLite result \(error.resultCode.rawValue)"
                leftOut.append(.init(name: name, reason: reason))
            }
        }
        try db.execute(sql: "DELETE FROM historyd_object")
        let insert = try db.cachedStatement(sql: "INSERT INTO historyd_object VALUES (?, ?, ?, ?)")
        for (name, sql) in tables { try insert.execute(arguments: [name, "table", name, sql]) }
        for (name, index) in indexes {
            try insert.execute(arguments: [name, "index", index.entity, index.sql])
        }
        return leftOut
    }
}
