import GRDB

/// Changed objects in two tables of a replica's connection: SQLite keeps them in the order in which their
/// rows are read and put.
struct NotedObjects {
    /// `(entity, object)`, by the text of their keys.
    let objects: String
    /// `(entity, first, last)`, all integers from the first to the last.
    let runs: String

    init(_ name: String) {
        objects = name
        runs = "\(name)_run"
    }

    /// Those whose changes a replica has taken in, but does not show.
    static let pending = NotedObjects("main.historyd_pending")
    /// Those whose rows have been read.
    static let staged = NotedObjects("temp.historyd_staged")

    func make(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS \(objects) (
                    entity TEXT, object TEXT, PRIMARY KEY (entity, object)) WITHOUT ROWID;
                CREATE TABLE IF NOT EXISTS \(runs) (
                    entity TEXT, first INTEGER, last INTEGER, PRIMARY KEY (entity, first)) WITHOUT ROWID;
                """)
    }

    func isEmpty(_ db: Database) throws -> Bool {
        let sql = "SELECT EXISTS (SELECT 1 FROM \(objects)) OR EXISTS (SELECT 1 FROM \(runs))"
        return try Bool.fetchOne(try db.cachedStatement(sql: sql)) == false
    }

    func clear(_ db: Database) throws {
        try db.cachedStatement(sql: "DELETE FROM \(objects)").execute()
        try db.cachedStatement(sql: "DELETE FROM \(runs)").execute()
    }

    func add(_ changed: ChangedObjects, _ db: Database) throws {
        let object = try db.cachedStatement(sql: "INSERT OR IGNORE INTO \(objects) VALUES (?, ?)")
        let run = try db.cachedStatement(sql: "\(insertRun) VALUES (?, ?, ?) \(longer)")
        for (entity, keys) in changed.entities {
            for text in keys.texts { try object.execute(arguments: [entity, text]) }
            for keys in keys.runs {
                try run.execute(arguments: [entity, keys.lowerBound, keys.upperBound])
            }
        }
    }

    func add(_ others: NotedObjects, _ db: Database) throws {
        try db.cachedStatement(sql: "INSERT OR IGNORE INTO \(objects) SELECT * FROM \(others.objects)")
            .execute()
        // WHERE: https://www.sqlite.org/lang_upsert.html#parsing_ambiguity
        try db.cachedStatement(sql: "\(insertRun) SELECT * FROM \(others.runs) WHERE true \(longer)").execute()
    }

    private var insertRun: String { "INSERT INTO \(runs)" }
    private var longer: String { "ON CONFLICT DO UPDATE SET last = max(last, excluded.last)" }

    /// The text keys of an entity's objects.
    func texts(of entity: String, _ db: Database) throws -> FastDatabaseValueCursor<String> {
        try String.fetchCursor(
            try db.cachedStatement(sql: "SELECT object FROM \(objects) WHERE entity = ?"), arguments: [entity])
    }

    /// How many integers there are in an entity's runs.
    func count(inRunsOf entity: String, _ db: Database) throws -> Int {
        let sql = "SELECT CAST(total(last - first + 1) AS INTEGER) FROM \(runs) WHERE entity = ?"
        return try Int.fetchOne(try db.cachedStatement(sql: sql), arguments: [entity]) ?? 0
    }
}
