import GRDB
import GRDBSQLite

/// The objects whose rows are read or written now, each once, in key order: two temporary tables of a
/// replica's connection, through which its statements find the rows.
enum WantedObjects {
    /// `(entity, first, last)`: all integers from the first to the last.
    static let runs = "temp.historyd_wanted_run"
    /// `(entity, object)`: the text of keys of other kinds.
    static let objects = "temp.historyd_wanted_object"

    static func make(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS \(runs) (
                    entity TEXT, first INTEGER, last INTEGER, PRIMARY KEY (entity, first)) WITHOUT ROWID;
                CREATE TABLE IF NOT EXISTS \(objects) (
                    entity TEXT, object TEXT, PRIMARY KEY (entity, object)) WITHOUT ROWID;
                """)
    }

    /// Fills the tables with the changed and the pending objects.
    ///
    /// - Returns: Their entities.
    static func gather(_ changed: ChangedObjects, hasPending: Bool, _ db: Database) throws -> Set<BinaryText> {
        try db.cachedStatement(sql: "DELETE FROM \(runs)").execute()
        try db.cachedStatement(sql: "DELETE FROM \(objects)").execute()
        var entities = Set(changed.entities.keys)
        if hasPending {
            entities.formUnion(try PendingObjects.entities(db))
            try db.cachedStatement(
                sql: """
                    INSERT INTO \(objects) SELECT DISTINCT entity, object FROM historyd_pending_object
                    ORDER BY entity, object
                    """
            ).execute()
        }
        let object = try db.cachedStatement(sql: "INSERT OR IGNORE INTO \(objects) VALUES (?, ?)")
        for entity in entities.map(\.text) {
            let keys = changed.entities[entity] ?? ChangedObjects.Keys()
            for text in keys.texts { try object.write(db, [.text(entity), .text(text.text)]) }
            let pending = hasPending ? try PendingObjects.runs(of: entity, db) : nil
            try add(keys.runs, pending?.next, entity, db)
        }
        return entities
    }

    /// Adds runs in order, merged into as few as possible.
    private static func add(
        _ changed: [ClosedRange<Int64>], _ nextPending: (() throws -> ClosedRange<Int64>?)?, _ entity: String,
        _ db: Database
    ) throws {
        let insert = try db.cachedStatement(sql: "INSERT INTO \(runs) VALUES (?, ?, ?)")
        func write(_ run: ClosedRange<Int64>) throws {
            try insert.write(db, [.text(entity), .integer(run.lowerBound), .integer(run.upperBound)])
        }
        var changed = changed[...]
        var pending = try nextPending?()
        var last: ClosedRange<Int64>?
        while true {
            let next: ClosedRange<Int64>
            if let run = pending, run.lowerBound <= changed.first?.lowerBound ?? .max {
                next = run
                pending = try nextPending?()
            } else if let run = changed.popFirst() {
                next = run
            } else {
                break
            }
            if let before = last, before.isFollowed(by: next) {
                last = before.lowerBound...max(before.upperBound, next.upperBound)
            } else {
                if let last { try write(last) }
                last = next
            }
        }
        if let last { try write(last) }
    }

    /// The number of an entity's objects, in its runs and outside of them.
    static func count(of entity: String, _ db: Database) throws -> Int {
        let sql = """
            SELECT (SELECT CAST(total(last - first + 1) AS INTEGER) FROM \(runs) WHERE entity = ?1)
                + (SELECT count(*) FROM \(objects) WHERE entity = ?1)
            """
        return try Int.fetchOne(try db.cachedStatement(sql: sql), arguments: [entity]) ?? 0
    }
}

extension ClosedRange<Int64> {
    /// Whether there is no gap between this run and another that begins no earlier.
    func isFollowed(by next: Self) -> Bool { upperBound == .max || next.lowerBound <= upperBound + 1 }
}

/// The objects whose changes a replica has merged, but does not show yet: two tables in it.
///
/// New objects are appended, not sorted by key: sorting would rewrite most pages of a long list with each
/// batch. They are sorted when they are needed.
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

    /// - Parameter position: The position up to which changes, including these, have been merged.
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

    /// The runs of an entity, by their first integers. They may overlap.
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
