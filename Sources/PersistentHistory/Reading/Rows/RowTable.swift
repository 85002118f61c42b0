package import GRDB
import GRDBSQLite

/// Finds and reads the rows of changed objects in one of the store's tables: for a mirror's groups, and
/// for the values of calls and feeds.
package struct RowTable: Sendable {
    package let schema: TableSchema
    package let key: RowKey
    /// The columns to read: all except generated ones, which follow from the others.
    package let columns: [String]
    /// The names for calls and feeds.
    let names: RowNames
    package let select: String
    private let byKey: String
    private let byRowid: String

    /// - Parameter withRowid: Whether to read the rowid first if it identifies rows.
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
    /// - Parameter row: Receives the statement at the row.
    /// - Returns: Whether the row exists.
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

    /// Whether SQLite can look rows up: a key may need functions that only the application has.
    func isReadable(_ db: Database) throws -> Bool {
        do {
            for sql in [byKey, byRowid] { _ = try db.cachedStatement(sql: sql) }
            return true
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            return false
        }
    }
}

/// The tables of a store whose rows are read, for one schema version.
final class RowTables: Sendable {
    fileprivate struct State {
        var version: Int64 = -1
        var schema: StoreSchema?
        /// Nil stands for a name that is not a table, or cannot be read.
        var tables: [BinaryText: RowTable?] = [:]
        var conditions: [RowCondition: Result<TableCondition, TableCondition.Unfit>] = [:]
        var databases: [BinaryText: ConditionDatabase] = [:]
    }

    fileprivate let state = Locked(State())

    /// Reads a changed schema, if rows were read before, so that the next read has it.
    func follow(_ db: Database, _ version: Int64) throws {
        try state.withLock { state in
            guard state.schema != nil, state.version != version else { return }
            state = State(version: version, schema: try StoreSchema(db))
        }
    }

    /// Call it in the transaction that reads the rows.
    ///
    /// - Returns: Nil if rows of that table cannot be read.
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
    /// A condition for the rows of the present table.
    ///
    /// - Throws: `TableCondition.Unfit`, and SQLite's errors.
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

/// The SQL that finds the rows of a table by the keys of changed objects.
package struct RowKey {
    /// The integer column whose values form runs; nil if the key has several columns.
    package let integer: String?
    /// Whether that column is the rowid, so that it contains only integers.
    let isRowid: Bool
    /// The condition for the row of an object, with the key's values as arguments.
    let matches: String
    /// The same for a row that is identified by its rowid, although most are by their keys.
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

    /// The condition for the rows whose key is an integer in a range; always false if there is no such
    /// key.
    func isInRun(_ first: String, _ last: String, of row: String = "") -> String {
        guard let integer else { return "NULL" }
        let key = row + integer
        // Other numbers lie between two integers.
        return "\(key) BETWEEN \(first) AND \(last)" + (isRowid ? "" : " AND typeof(\(key)) = 'integer'")
    }

    /// Whether an object that was recorded with an older shape can still be found by its key.
    func fits(_ object: ObjectID) -> Bool {
        if object.isRowID { return table.rowid != nil }
        return table.key != .rowid && object.values.count == table.primaryKey.count
    }

    /// Parses the key of an object that was noted; nil if keys are now of another kind.
    package func object(_ keyText: String) -> ObjectID? {
        guard let object = ObjectID(keyText: keyText, keyedBy: table.key), fits(object) else { return nil }
        return object
    }

    /// Whether an object is found by its rowid, not by its key.
    package func isByRowid(_ object: ObjectID) -> Bool { object.isRowID && table.key != .rowid }
}
