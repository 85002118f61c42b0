import GRDB
import GRDBSQLite

/// Copies rows of one entity from a store to a replica, with SQLite's own values: nothing is converted.
///
/// If hooks can affect changes, their rows are first read into a temporary table of the replica's
/// connection, in one snapshot of the store, and copied into the replica later. All others are copied at
/// once.
struct ReplicaTable {
    private let table: TableSchema
    private let key: RowKey
    private let rows: StoreRows
    /// The name of the temporary table: the store's rows, each after the value that it was found by.
    private let staging: String
    private let columns: Int
    private let insert: String

    /// Whether the history may miss a deleted row: all rows are then copied with each change.
    var isDoubtful: Bool { !table.doubts.isEmpty }

    /// The source of rows.
    private enum Source { case store(Database), staging }

    /// - Parameter number: Different for each one that is made for the same replica.
    init(_ name: String, number: Int, in store: StoreSchema, at storePath: String) throws {
        table = try TableSchema(name, in: store)
        key = RowKey(table)
        var columns = table.columns.filter { !$0.isGenerated }.map { SQLText.name($0.name) }
        // Rows that are identified by their rowid keep it.
        if table.rowidIdentifies, let rowid = table.rowid { columns.insert(rowid, at: 0) }
        rows = StoreRows("historyd_rows_\(number)", of: table, key, columns: columns, at: storePath)
        staging = "temp.historyd_copy_\(number)"
        self.columns = columns.count
        insert = "INSERT OR REPLACE INTO main.\(SQLText.name(name)) (\(columns.joined(separator: ", ")))"
    }

    private var list: String { (0..<columns).map { "c\($0)" }.joined(separator: ", ") }

    /// Creates what is needed on the replica's connection.
    func begin(_ replica: Database) throws {
        try rows.begin(replica)
        // Integers come in order, and are appended.
        let (object, kind) =
            key.isRowid ? ("object INTEGER PRIMARY KEY", "") : ("object PRIMARY KEY", "WITHOUT ROWID")
        try replica.execute(sql: "DROP TABLE IF EXISTS \(staging)")
        try replica.execute(sql: "CREATE TABLE \(staging) (\(object), \(list)) \(kind)")
    }

    /// Removes it again.
    func end(_ replica: Database) throws {
        try replica.execute(sql: "DROP TABLE IF EXISTS \(staging)")
        rows.end(replica)
    }

    // MARK: Staging

    func emptyStaging(_ replica: Database) throws {
        try replica.cachedStatement(sql: "DELETE FROM \(staging)").execute()
    }

    /// Reads the rows of the wanted objects that exist in the store.
    ///
    /// - Returns: Whether all of their keys can be used to find rows.
    func stage(_ replica: Database, from store: Database) throws -> Bool {
        try found(.store(store)).allSatisfy { found in
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

    /// Makes the rows of the wanted objects equal to the store's.
    ///
    /// The rows of one snapshot are written together. A row that is replaced by a written one is an old
    /// one, whose own new row, if any, is written as well. So values of a unique index may be exchanged.
    ///
    /// - Parameter store: Where to read the rows; nil for those that were read before.
    /// - Returns: Whether all of their keys can be used to find rows.
    func put(_ replica: Database, from store: Database? = nil) throws -> Bool {
        let source = store.map { Source.store($0) } ?? .staging
        var count = 0
        for found in found(source) {
            guard let more = try put(found, replica, source) else { return false }
            count += more
        }
        if try count < WantedObjects.count(of: table.name, replica) { try removeMissing(replica, in: source) }
        return true
    }

    /// Makes all rows equal to the store's.
    ///
    /// - Parameter store: Where to read the rows; nil for those that were read before.
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

    /// Deletes the rows of wanted objects that are not in a source.
    private func removeMissing(_ replica: Database, in source: Source) throws {
        func missing(_ condition: String) -> String {
            "NOT EXISTS (SELECT 1 FROM \(name(source)) AS r WHERE \(condition))"
        }
        if let integer = key.integer {
            let condition = isInRun(source, "t.\(integer)", "t.\(integer)")
            try run(
                """
                DELETE FROM \(target) WHERE \(integer) IN (
                    SELECT t.\(integer) FROM \(WantedObjects.runs) AS k CROSS JOIN \(target) AS t
                    WHERE k.entity = ?1 AND \(key.isInRun("+k.first", "+k.last", of: "t."))
                    AND \(missing(condition)))
                """, replica, from: source)
        }
        let texts = try replica.cachedStatement(
            sql: """
                SELECT k.object FROM \(WantedObjects.objects) AS k
                WHERE k.entity = ?1 AND \(missing("r.object = +k.object"))
                """)
        try reading(source) {
            let texts = try String.fetchCursor(texts, arguments: [table.name])
            while let object = try texts.next().flatMap(key.object) {
                let condition = key.isByRowid(object) ? key.matchesRowid : key.matches
                try replica.cachedStatement(
                    sql: SQLText.cacheable("DELETE FROM \(target) WHERE \(condition)")
                )
                .write(replica, object.values)
            }
        }
    }

    // MARK: Statements

    private var target: String { "main.\(SQLText.name(table.name))" }

    private func name(_ source: Source) -> String {
        switch source {
        case .store: rows.name
        case .staging: staging
        }
    }

    /// Whether a row of a source belongs to a run.
    private func isInRun(_ source: Source, _ first: String, _ last: String) -> String {
        switch source {
        case .store: "r.first = +\(first) AND r.last = +\(last)"
        case .staging: "r.object BETWEEN +\(first) AND +\(last)"
        }
    }

    /// The wanted objects with their rows: those in runs, and the others.
    private func found(_ source: Source) -> [String] {
        // A + removes a column's affinity from the other operand, which is then not converted and can be
        // looked up in order (https://www.sqlite.org/datatype3.html#affinity_of_an_expression).
        [
            (WantedObjects.runs, isInRun(source, "k.first", "k.last")),
            (WantedObjects.objects, "r.object = +k.object"),
        ].map { objects, condition in
            "\(objects) AS k CROSS JOIN \(name(source)) AS r WHERE k.entity = ?1 AND \(condition)"
        }
    }

    /// Runs a statement whose only argument, if any, is the entity's name.
    ///
    /// - Returns: How many rows it wrote; nil if it met keys that cannot be used to find rows.
    @discardableResult
    private func run(_ sql: String, _ replica: Database, from source: Source) throws -> Int? {
        let statement = try replica.cachedStatement(sql: SQLText.cacheable(sql))
        let arguments: [HistoryValue] =
            sqlite3_bind_parameter_count(statement.sqliteStatement) == 1 ? [.text(table.name)] : []
        try reading(source) { try statement.write(replica, arguments) }
        if case .store = source, rows.metUnknownKey { return nil }
        return Int(sqlite3_changes64(replica.sqliteConnection))
    }

    private func reading(_ source: Source, _ body: () throws -> Void) throws {
        switch source {
        case .store(let store): try rows.read(from: store, body)
        case .staging: try body()
        }
    }
}
