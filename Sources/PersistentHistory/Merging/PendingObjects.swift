import GRDB
import GRDBSQLite

/// The objects whose changes a replica has taken in, but does not show yet: two tables in it.
///
/// What comes in is put behind what is there, and not in the keys' order: that would write most pages of a long
/// list again with each batch. They are put in order when they are wanted.
enum PendingObjects {
    static func make(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS historyd_pending_run ( -- All integers from the first to the last.
                    entity TEXT, place INTEGER, first INTEGER, last INTEGER,
                    PRIMARY KEY (entity, place, first)) WITHOUT ROWID;
                CREATE TABLE IF NOT EXISTS historyd_pending_object ( -- Keys of other kinds, as text.
                    entity TEXT, place INTEGER, object TEXT, PRIMARY KEY (entity, place, object)) WITHOUT ROWID;
                """)
    }

    static func isEmpty(_ db: Database) throws -> Bool {
        try Bool.fetchOne(
            try db.cachedStatement(
                sql: """
                    SELECT EXISTS (SELECT 1 FROM historyd_pending_run)
                    OR EXISTS (SELECT 1 FROM historyd_pending_object)
                    """)) == false
    }

    static func clear(_ db: Database) throws {
        try db.cachedStatement(sql: "DELETE FROM historyd_pending_run").execute()
        try db.cachedStatement(sql: "DELETE FROM historyd_pending_object").execute()
    }

    /// - Parameter position: How far in the history changes have been taken in with these.
    static func add(_ changed: ChangedObjects, at position: Int64, _ db: Database) throws {
        // Parts of one transaction may have the same objects.
        let object = try db.cachedStatement(
            sql: "INSERT OR IGNORE INTO historyd_pending_object VALUES (?, ?, ?)")
        let run = try db.cachedStatement(
            sql: """
                INSERT INTO historyd_pending_run VALUES (?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET last = max(last, excluded.last)
                """)
        for (entity, keys) in changed.entities {
            for text in keys.texts.sorted() {
                try object.write(db, [.text(entity.text), .integer(position), .text(text.text)])
            }
            for keys in keys.runs {
                let (first, last) = (keys.lowerBound, keys.upperBound)
                try run.write(db, [.text(entity.text), .integer(position), .integer(first), .integer(last)])
            }
        }
    }

    static func entities(_ db: Database) throws -> Set<BinaryText> {
        Set(
            names: try String.fetchAll(
                db,
                sql: "SELECT entity FROM historyd_pending_run UNION SELECT entity FROM historyd_pending_object")
        )
    }

    /// The runs of an entity, by their first integers; they may overlap.
    static func runs(of entity: String, _ db: Database) throws -> MapCursor<RowCursor, ClosedRange<Int64>> {
        try Row.fetchCursor(
            try db.cachedStatement(
                sql:
                    "SELECT first, max(last) AS last FROM historyd_pending_run WHERE entity = ? GROUP BY first ORDER BY first"
            ),
            arguments: [entity]
        ).map { row in
            let first = try row.integer("first")
            return try first...row.integer("last", in: first ... .max)
        }
    }
}
