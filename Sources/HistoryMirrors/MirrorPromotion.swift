import PersistentHistory
import GRDB

/// A mirror becomes a store of its own: it goes on where the source was, and records what is written to it.
extension Mirror {
    /// Makes a store of a mirror, and tracks its tables.
    ///
    /// - Parameter epoch: The epoch that begins with the store. Only it continues the stream from then on.
    package func promote(in epoch: Int64) throws {
        try close()
        try Tracking.takeOver(path) { try Self.convert($0, epoch) }
    }

    /// - Returns: The tables that were recorded at the source, with the columns that they preserve.
    private static func convert(_ db: Database, _ epoch: Int64) throws -> [BinaryText: [String]?] {
        let shapes = try EntityCatalog(db).shapes.values.sorted { $0.shape < $1.shape }
        let names = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM sqlite_schema WHERE type = 'table'
                AND name NOT LIKE 'historyd\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
                """)
        var tables: [BinaryText: [String]?] = [:]
        for name in names {
            tables[BinaryText(name)] =
                shapes.last { $0.name.hasSameBytes(as: name) }?.preserved.map(\.name) ?? []
        }
        guard let position = try MirrorPosition(db) else {
            throw MirrorError.needsSnapshot("it has received nothing yet")
        }
        let own = try Row.fetchAll(
            db,
            sql: """
                SELECT type, name FROM sqlite_schema WHERE type IN ('trigger', 'index')
                AND name LIKE 'historyd\\_mirror\\_%' ESCAPE '\\'
                """)
        for object in own {
            let (type, name) = (try object.text("type", atMost: 16), try object.text("name", atMost: 256))
            try db.execute(sql: "DROP \(type.uppercased()) \(SQLText.name(name))")
        }
        try db.execute(
            sql:
                "DROP TABLE historyd_mirror; DROP TABLE historyd_object; DELETE FROM historyd_store WHERE key = 'entities'"
        )
        try continueNumbers(after: position.position.number, db)
        try db.execute(
            sql:
                "UPDATE historyd_entity SET tracked = 0; INSERT OR REPLACE INTO historyd_store VALUES ('promoted', ?)",
            arguments: [epoch])
        return tables
    }

    /// The next change has the number after the source's last one. A mirror's history may have gaps, and a
    /// store's may not, except up to its floor.
    private static func continueNumbers(after number: Int64, _ db: Database) throws {
        try db.execute(
            sql: """
                INSERT INTO historyd_change SELECT ?1, 0, 3, NULL, NULL
                WHERE coalesce((SELECT max(id) FROM historyd_change), 0) < ?1;
                """, arguments: [number])
        try db.execute(
            sql: """
                UPDATE historyd_store SET value = max(value, (SELECT coalesce(max(id) - 1, 0) FROM historyd_change AS later
                WHERE NOT EXISTS (SELECT 1 FROM historyd_change WHERE id = later.id - 1))) WHERE key = 'floor'
                """)
    }
}

extension MirrorSource {
    /// The epoch in which the store was promoted from a mirror; nil if it never was.
    package func promotion() throws -> Int64? {
        try read { db in
            try Row.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'promoted'")?
                .integer("value", in: 1 ... .max)
        }
    }

    /// Whether the store is a mirror that has only some of its source's tables.
    package func hasSomeTables() throws -> Bool {
        try read { db in
            try Row.fetchOne(db, sql: "SELECT 1 FROM historyd_store WHERE key = 'entities'") != nil
        }
    }
}
