import GRDB
import GRDBSQLite

/// Brings rows of one entity from a store to a replica, with SQLite's own values: nothing is converted on
/// the way.
///
/// Rows whose changes hooks have a say in are first read into a temporary table of the replica's
/// connection, in one snapshot of the store, and put into the replica later. All others are put at once.
struct ReplicaTable {
    private let table: TableSchema
    private let key: RowKey
    private let rows: StoreRows
    /// The name of the temporary table: the store's rows, each behind what it was found by.
    private let staging: String
    private let columns: Int
    private let insert: String

    /// Where rows are taken from.
    private enum Source { case store(Database), staging }

    /// - Parameter number: Another one for each that is made for the same replica.
    init(_ name: String, number: Int, in store: Database, at storePath: String) throws {
        table = try TableSchema(name, in: store)
        key = RowKey(table)
        var columns = table.columns.filter { !$0.isGenerated }.map { SQLText.name($0.name) }
        // Rows that are known by their rowid keep it.
        if let rowid = table.rowid, !table.keyIsRowid { columns.insert(rowid, at: 0) }
        rows = StoreRows("historyd_rows_\(number)", of: table, key, columns: columns, at: storePath)
        staging = "temp.historyd_copy_\(number)"
        self.columns = columns.count
        insert = "INSERT OR REPLACE INTO main.\(SQLText.name(name)) (\(columns.joined(separator: ", ")))"
    }

    private var list: String { (0..<columns).map { "c\($0)" }.joined(separator: ", ") }

    /// Makes what is needed on the replica's connection.
    func begin(_ replica: Database) throws {
        try rows.begin(replica)
        // Integers come in their order, and are put behind each other.
        let (object, kind) =
            key.isRowid ? ("object INTEGER PRIMARY KEY", "") : ("object PRIMARY KEY", "WITHOUT ROWID")
        try replica.execute(sql: "DROP TABLE IF EXISTS \(staging)")
        try replica.execute(sql: "CREATE TABLE \(staging) (\(object), \(list)) \(kind)")
    }

    /// Takes it away again.
    func end(_ replica: Database) throws {
        try replica.execute(sql: "DROP TABLE IF EXISTS \(staging)")
        rows.end(replica)
    }

    // MARK: Staging

    func emptyStaging(_ replica: Database) throws {
        try replica.cachedStatement(sql: "DELETE FROM \(staging)").execute()
    }

    /// Reads the rows of objects, if the store has them.
    ///
    /// - Returns: Whether rows can be found by all of their keys.
    func stage(_ objects: NotedObjects, _ replica: Database, from store: Database) throws -> Bool {
        try [foundInRuns(objects, .store(store)), foundByText(objects, .store(store))].allSatisfy { found in
            let copy = "INSERT OR REPLACE INTO \(staging) SELECT r.object, \(list) FROM \(found)"
            return try run(copy, replica, from: .store(store)) != nil
        }
    }

    /// Reads all rows.
    func stageAll(_ replica: Database, from store: Database) throws {
        try emptyStaging(replica)
        try run(
            "INSERT INTO \(staging) SELECT object, \(list) FROM \(rows.name)", replica, from: .store(store))
    }

    // MARK: Into the replica

    /// Makes the rows of objects the store's.
    ///
    /// - Parameter store: Where they are read; nil for those that were read before.
    /// - Returns: Whether rows can be found by all of their keys.
    func put(_ objects: NotedObjects, _ replica: Database, from store: Database? = nil) throws -> Bool {
        let source = store.map { Source.store($0) } ?? .staging
        // All are taken away before any is put, so that values of a unique index may change places. Where
        // only the key is unique, a row that is put takes the other's place, which is much cheaper.
        guard try removeByText(objects, replica) else { return false }
        if !key.isAllThatIsUnique { try removeRuns(objects, replica) }
        guard let count = try put(foundInRuns(objects, source), replica, source) else { return false }
        if key.isAllThatIsUnique, try count < objects.count(inRunsOf: table.name, replica) {
            try removeRuns(objects, replica, missingIn: source)
        }
        return try put(foundByText(objects, source), replica, source) != nil
    }

    /// Makes all rows the store's.
    ///
    /// - Parameter store: Where they are read; nil for those that were read before.
    func putAll(_ replica: Database, from store: Database? = nil) throws {
        try replica.execute(sql: "DELETE FROM \(target)")
        let source = store.map { Source.store($0) } ?? .staging
        try put(name(source), replica, source)
    }

    /// - Returns: As `run`.
    @discardableResult
    private func put(_ found: String, _ replica: Database, _ source: Source) throws -> Int? {
        try run("\(insert) SELECT \(list) FROM \(found)", replica, from: source)
    }

    private func removeByText(_ objects: NotedObjects, _ replica: Database) throws -> Bool {
        let texts = try objects.texts(of: table.name, replica)
        while let text = try texts.next() {
            guard let object = key.object(text) else { return false }
            let condition = key.isByRowid(object) ? key.matchesRowid : key.matches
            let statement = try replica.cachedStatement(sql: "DELETE FROM \(target) WHERE \(condition)")
                .sqliteStatement
            sqlite3_reset(statement)
            defer { sqlite3_reset(statement) }
            statement.bind(object.values)
            _ = try statement.step(replica)
        }
        return true
    }

    /// - Parameter source: Only what is not there is taken away; nil for all.
    private func removeRuns(_ objects: NotedObjects, _ replica: Database, missingIn source: Source? = nil)
        throws
    {
        guard let integer = key.integer else { return }
        var missing = ""
        if let source {
            let isSame = isInRun(source, "t.\(integer)", "t.\(integer)")
            missing = " AND NOT EXISTS (SELECT 1 FROM \(name(source)) AS r WHERE \(isSame))"
        }
        try run(
            """
            DELETE FROM \(target) WHERE \(integer) IN (
                SELECT t.\(integer) FROM \(objects.runs) AS k CROSS JOIN \(target) AS t
                WHERE k.entity = ?1 AND \(key.isInRun("+k.first", "+k.last", of: "t."))\(missing))
            """, replica, from: source ?? .staging)
    }

    // MARK: Statements

    private var target: String { "main.\(SQLText.name(table.name))" }

    private func name(_ source: Source) -> String {
        switch source {
        case .store: rows.name
        case .staging: staging
        }
    }

    /// Whether a row of a source is one of a run's.
    private func isInRun(_ source: Source, _ first: String, _ last: String) -> String {
        switch source {
        case .store: "r.first = +\(first) AND r.last = +\(last)"
        case .staging: "r.object BETWEEN +\(first) AND +\(last)"
        }
    }

    // A + keeps a column's affinity away from what it is compared with, which is not converted and can be looked
    // up in its order (https://www.sqlite.org/datatype3.html#affinity_of_an_expression). The objects lead.

    private func foundInRuns(_ objects: NotedObjects, _ source: Source) -> String {
        let condition = isInRun(source, "k.first", "k.last")
        return "\(objects.runs) AS k CROSS JOIN \(name(source)) AS r WHERE k.entity = ?1 AND \(condition)"
    }

    private func foundByText(_ objects: NotedObjects, _ source: Source) -> String {
        "\(objects.objects) AS k CROSS JOIN \(name(source)) AS r WHERE k.entity = ?1 AND r.object = +k.object"
    }

    /// Runs a statement whose one argument, if it has any, is the entity's name.
    ///
    /// - Returns: How many rows it wrote; nil where it met keys by which rows can not be found.
    @discardableResult
    private func run(_ sql: String, _ replica: Database, from source: Source) throws -> Int? {
        let statement = try replica.cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(statement)
        defer { sqlite3_reset(statement) }
        if sqlite3_bind_parameter_count(statement) == 1 { statement.bind([.text(table.name)]) }
        switch source {
        case .staging: _ = try statement.step(replica)
        case .store(let store):
            try rows.read(from: store) { _ = try statement.step(replica) }
            if rows.metUnknownKey { return nil }
        }
        return Int(sqlite3_changes64(replica.sqliteConnection))
    }
}
