package import GRDB

/// The tables and indexes of a replica, with the store's SQL.
package struct ReplicaShape {
    package struct Table: Equatable {
        /// The CREATE TABLE statement.
        package let sql: String
        /// The number of its tracking. A table that was created again with the same SQL has other rows,
        /// whose changes were not recorded.
        package let shape: Int64?

        package init(sql: String, shape: Int64?) { (self.sql, self.shape) = (sql, shape) }

        /// Its form in a replica's notes.
        var note: String { shape.map { "\(sql) -- \($0)" } ?? sql }

        package static func == (a: Self, b: Self) -> Bool { a.note.hasSameBytes(as: b.note) }
    }

    package struct Index: Equatable {
        package let entity: String
        package let sql: String

        package init(entity: String, sql: String) { (self.entity, self.sql) = (entity, sql) }

        package static func == (a: Self, b: Self) -> Bool {
            a.entity.hasSameBytes(as: b.entity) && a.sql.hasSameBytes(as: b.sql)
        }
    }

    package private(set) var tables: [BinaryText: Table] = [:]
    /// The CREATE INDEX statement of each index that has one. Indexes of constraints come with their
    /// table.
    package private(set) var indexes: [BinaryText: Index] = [:]
    /// Tables that a replica cannot have.
    package private(set) var leftOut: [BinaryText: Table] = [:]
    /// Why tables and indexes are left out, by name.
    private var reasons: [BinaryText: String] = [:]

    /// An empty shape.
    package init() {}

    /// The shape of a mirror's source, as the stream describes it.
    package init(tables: [BinaryText: Table], indexes: [BinaryText: Index]) {
        self.tables = tables
        self.indexes = indexes
    }

    /// Whether a replica lacks an index or a table.
    package func isLeftOut(_ name: BinaryText) -> Bool { reasons[name] != nil }

    /// The store's tables and indexes for the wanted entities; nil for all tracked ones.
    package init(store db: Database, wanted: Set<BinaryText>?) throws {
        let entities = try EntityCatalog(db).tracked.filter { wanted?.contains($0.key) ?? true }
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name, tbl_name, CAST(sql AS TEXT) AS sql FROM main.sqlite_schema
                WHERE type IN ('table', 'index') AND sql IS NOT NULL AND name NOT LIKE 'historyd\\_%' ESCAPE '\\'
                ORDER BY type DESC, name
                """)
        let check = try ReplicaSchemaCheck()
        for row in rows {
            let (name, entity) = (try row.text("name"), try row.text("tbl_name"))
            guard let shape = entities[entity]?.shape else { continue }
            let sql = try row.text("sql", atMost: .max)
            let isTable = try row.text("type") == "table"
            if !isTable, leftOut[entity] != nil { continue }
            do {
                if isTable {
                    try check.checkTable(name, sql)
                    tables[name] = Table(sql: sql, shape: shape)
                } else {
                    indexes[name] = Index(entity: entity, sql: sql)
                    try check.checkIndex(name, on: entity, sql)
                }
            } catch let refusal as ReplicaSchemaCheck.Refusal {
                reasons[name] = refusal.reason
                if isTable { leftOut[name] = Table(sql: sql, shape: shape) }
            }
        }
        try check.close()
    }

    /// The tables and indexes that were created in a replica.
    package init(replica db: Database) throws {
        for row in try Row.fetchAll(db, sql: "SELECT name, type, entity, sql FROM historyd_object") {
            let (name, sql) = (try row.text("name"), try row.text("sql", atMost: .max))
            guard !SQLText.isOfSQLite(name), !SQLText.isReserved(name)
            else { throw UnexpectedValue("a replica cannot have made \"\(name.prefix(80))\"") }
            switch try row.text("type") {
            case "table": tables[name] = Table(sql: sql, shape: nil)
            case "left out": leftOut[name] = Table(sql: sql, shape: nil)
            default: indexes[name] = Index(entity: try row.text("entity"), sql: sql)
            }
        }
    }

    /// The entities whose tables have to be created, possibly again, in a replica of another shape.
    package func newTables(in replica: ReplicaShape) -> Set<BinaryText> {
        Set(tables.filter { replica.tables[$0.key] != $0.value }.keys)
    }

    /// Drops what no longer belongs here, and creates the new tables, empty.
    package func makeTables(_ db: Database, insteadOf old: ReplicaShape) throws {
        for (name, index) in old.indexes where indexes[name] != index {
            try db.execute(sql: "DROP INDEX IF EXISTS main.\(SQLText.name(name.text))")
        }
        for (name, table) in old.tables where tables[name] != table {
            try db.execute(sql: "DROP TABLE IF EXISTS main.\(SQLText.name(name.text))")
        }
        for (name, table) in tables where old.tables[name] != table {
            try db.execute(sql: "DROP TABLE IF EXISTS main.\(SQLText.name(name.text))")
            try db.runSchemaStatement(table.sql)
        }
    }

    /// Creates the missing indexes, and notes the shape.
    ///
    /// - Returns: What is left out and was not before.
    package func makeIndexes(_ db: Database, insteadOf old: ReplicaShape) throws -> [ReplicaContext.LeftOut] {
        var leftOut: [ReplicaContext.LeftOut] = []
        for (name, table) in self.leftOut.sorted(by: { $0.key < $1.key })
        where old.leftOut[name] != table {
            leftOut.append(.init(kind: .table, name: name.text, reason: reasons[name] ?? ""))
        }
        for (name, index) in indexes.sorted(by: { $0.key < $1.key })
        where old.indexes[name] != index || old.tables[index.entity] != tables[index.entity] {
            if let reason = reasons[name] {
                leftOut.append(.init(kind: .index, name: name.text, reason: reason))
            } else {
                try db.runSchemaStatement(index.sql)
            }
        }
        try db.execute(sql: "DELETE FROM historyd_object")
        let insert = try db.cachedStatement(sql: "INSERT INTO historyd_object VALUES (?, ?, ?, ?)")
        for (name, table) in tables {
            try insert.execute(arguments: [name.text, "table", name.text, table.note])
        }
        for (name, table) in self.leftOut {
            try insert.execute(arguments: [name.text, "left out", name.text, table.note])
        }
        for (name, index) in indexes {
            try insert.execute(arguments: [name.text, "index", index.entity, index.sql])
        }
        return leftOut
    }
}

extension ReplicaShape: Equatable {
    /// Whether both require the same objects.
    package static func == (a: Self, b: Self) -> Bool {
        a.indexes == b.indexes && a.tables == b.tables && a.leftOut == b.leftOut
    }
}
