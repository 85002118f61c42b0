package import GRDB
import GRDBSQLite

/// How the rows of changed objects are found in one of the store's tables and read: for a mirror's groups, and for the
/// values of calls and feeds.
package struct RowTable: Sendable {
    package let schema: TableSchema
    package let key: RowKey
    /// What is read: all but generated columns, which follow from the others.
    package let columns: [String]
    /// The same in calls and feeds.
    let names: RowNames
    package let select: String
    private let byKey: String
    private let byRowid: String

    /// - Parameter withRowid: Whether the rowid is read first where it identifies rows.
    package init(_ table: TableSchema, withRowid: Bool) {
        schema = table
        key = RowKey(table)
        var columns = table.columns.filter { !$0.isGenerated }.map(\.name)
        if withRowid, table.rowidIdentifies, let rowid = table.rowid { columns.insert(rowid, at: 0) }
        self.columns = columns
        names = RowNames(columns)
        let select =
            "SELECT \(columns.map(SQLText.name).joined(separator: ", ")) FROM main.\(SQLText.name(table.name))"
        self.select = SQLText.cacheable(select)
        byKey = SQLText.cacheable("\(select) WHERE \(key.matches)")
        byRowid = SQLText.cacheable("\(select) WHERE \(key.matchesRowid)")
    }

    /// Reads the row of an object.
    ///
    /// - Parameter row: Is given the statement that stands at it.
    /// - Returns: Whether there is one.
    package func read(_ object: ObjectID, _ db: Database, _ row: (OpaquePointer) throws -> Void) throws -> Bool
    {
        try read(object.values, key.isByRowid(object) ? byRowid : byKey, db, row)
    }

    /// The same for an object whose key is one integer.
    package func read(_ integer: Int64, _ db: Database, _ row: (OpaquePointer) throws -> Void) throws -> Bool {
        try read([.integer(integer)], byKey, db, row)
    }

    private func read(
        _ key: [HistoryValue], _ sql: String, _ db: Database, _ row: (OpaquePointer) throws -> Void
    ) throws -> Bool {
        let rows = try db.cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(rows)
        defer { sqlite3_reset(rows) }
        rows.bind(key)
        var found = false
        while try rows.step(db) {
            found = true
            try row(rows)
        }
        return found
    }

    /// Whether SQLite can look rows up: a key may be compared by functions that only the application has.
    func isReadable(_ db: Database) throws -> Bool {
        do {
            for sql in [byKey, byRowid] { _ = try db.cachedStatement(sql: sql) }
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            return false
        }
    }
}

/// The tables of a store whose rows are read, as of one version of its schema.
final class RowTables: Sendable {
    fileprivate struct State {
        var version: Int64 = -1
        var schema: StoreSchema?
        /// Nil is what is no table, or cannot be read.
        var tables: [BinaryText: RowTable?] = [:]
        var conditions: [RowCondition: Result<TableCondition, TableCondition.Unfit>] = [:]
        var databases: [BinaryText: ConditionDatabase] = [:]
    }

    fileprivate let state = Locked(State())

    /// Reads a schema that has changed, where rows were read before, so that the next reading finds it.
    func follow(_ db: Database, _ version: Int64) throws {
        try state.withLock { state in
            guard state.schema != nil, state.version != version else { return }
            state = State(version: version, schema: try StoreSchema(db))
        }
    }

    /// To be called in the transaction that reads the rows.
    ///
    /// - Returns: Nil where rows of that name cannot be read.
    func table(_ name: String, _ db: Database) throws -> RowTable? {
        let version = try db.currentSchemaVersion()
        return try state.withLock { state in
            if state.version != version || state.schema == nil { state = State(version: version) }
            if let known = state.tables[name] { return known }
            let schema = try state.schema ?? StoreSchema(db)
            state.schema = schema
            var table = (try? TableSchema(name, in: schema)).map { RowTable($0, withRowid: false) }
            if let found = table, try !found.isReadable(db) { table = nil }
            state.tables[name] = .some(table)
            return table
        }
    }
}

extension RowTables {
    /// A condition for the rows of a table as it is now.
    ///
    /// - Throws: `TableCondition.Unfit`, and what SQLite says.
    func condition(_ condition: RowCondition, _ db: Database) throws -> TableCondition {
        let name = condition.entity.text
        let table = try self.table(name, db)
        return try state.withLock { state in
            if let known = state.conditions[condition] { return try known.get() }
            let result: Result<TableCondition, TableCondition.Unfit>
            do {
                guard let table else {
                    throw TableCondition.Unfit("there is no table \"\(name)\" whose rows can be read")
                }
                let database =
                    try state.databases[condition.entity] ?? ConditionDatabase(of: table.schema, in: db)
                state.databases[condition.entity] = database
                result = .success(try TableCondition(condition, table, database))
            } catch let error as TableCondition.Unfit {
                result = .failure(error)
            }
            state.conditions[condition] = result
            return try result.get()
        }
    }
}

/// How SQL finds the rows of a table by the keys of changed objects.
package struct RowKey {
    /// The column whose integers make runs; nil where several columns are the key.
    package let integer: String?
    /// Whether that is the rowid, so that nothing but integers is in it.
    let isRowid: Bool
    /// The condition for the row of an object, with the key's values as arguments.
    let matches: String
    /// The same for one that is known by its rowid, though most are known by their keys.
    let matchesRowid: String
    private let table: TableSchema

    init(_ table: TableSchema) {
        self.table = table
        isRowid = table.key == .rowid || table.keyIsRowid
        matchesRowid = "\(table.rowid ?? "NULL") = ?"
        switch table.key {
        case .rowid:
            integer = table.rowid
            matches = matchesRowid
        case .column(let name):
            integer = SQLText.name(name)
            matches = "\(SQLText.name(name)) IS ?"
        case .columns(let names):
            integer = nil
            matches = names.map { "\(SQLText.name($0)) IS ?" }.joined(separator: " AND ")
        }
    }

    /// The condition for the rows whose key is an integer from one to another; never met where there is no such key.
    func isInRun(_ first: String, _ last: String, of row: String = "") -> String {
        guard let integer else { return "NULL" }
        let key = row + integer
        // Between two integers there are other numbers.
        return "\(key) BETWEEN \(first) AND \(last)" + (isRowid ? "" : " AND typeof(\(key)) = 'integer'")
    }

    /// Whether an object recorded under an older shape can still be looked up by its key.
    func fits(_ object: ObjectID) -> Bool {
        if object.isRowID { return table.rowid != nil }
        return table.key != .rowid && object.values.count == table.primaryKey.count
    }

    /// Reads the key of an object that was noted; nil where keys are of another kind by now.
    package func object(_ keyText: String) -> ObjectID? {
        guard let object = ObjectID(keyText: keyText, keyedBy: table.key), fits(object) else { return nil }
        return object
    }

    /// Whether an object is looked up by its rowid, and not by its key.
    package func isByRowid(_ object: ObjectID) -> Bool { object.isRowID && table.key != .rowid }
}
