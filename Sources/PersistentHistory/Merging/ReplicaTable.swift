import GRDB
import GRDBSQLite

/// Copies rows of one entity from a store to a replica, with SQLite's own values: nothing is
/// converted on the way.
///
/// Rows are first read into a temporary table of the replica's connection, in one snapshot of the
/// store, and put into the replica later, when the hooks have had their say.
struct ReplicaTable {
    let table: TableSchema
    private let storePath: String
    /// The name of the temporary table.
    private let staging: String
    private let columns: [String]
    private let select: String
    private let selectOne: String
    private let selectByRowid: String
    private let insert: String
    private let stage: String
    private let put: String
    private let putOne: String
    private let delete: String
    private let deleteByRowid: String

    /// - Parameter number: Another one for each entity.
    init(_ name: String, number: Int, in store: Database, at storePath: String) throws {
        table = try TableSchema(name, in: store)
        self.storePath = storePath
        staging = "temp.historyd_staged_\(number)"

        var columns = table.columns.filter { !$0.isGenerated }.map { SQLText.name($0.name) }
        // Rows that are known by their rowid keep it.
        if let rowid = table.rowid, !table.keyIsRowid { columns.insert(rowid, at: 0) }
        self.columns = columns
        let name = SQLText.name(table.name)
        let key =
            table.key == .rowid
            ? "\(table.rowid ?? "rowid") = ?"
            : table.primaryKey.map { "\(SQLText.name($0)) IS ?" }.joined(separator: " AND ")
        let byRowid = "\(table.rowid ?? "NULL") = ?"
        let list = columns.joined(separator: ", ")
        select = "SELECT \(list) FROM main.\(name)"
        selectOne = "\(select) WHERE \(key)"
        selectByRowid = "\(select) WHERE \(byRowid)"
        insert = "INSERT OR REPLACE INTO main.\(name) (\(list))"
        stage = "INSERT OR IGNORE INTO \(staging) VALUES (?\(columns.map { _ in ", ?" }.joined()))"
        put = "\(insert) SELECT \(columns.indices.map { "c\($0)" }.joined(separator: ", ")) FROM \(staging)"
        putOne = "\(put) WHERE object = ?"
        delete = "DELETE FROM main.\(name) WHERE \(key)"
        deleteByRowid = "DELETE FROM main.\(name) WHERE \(byRowid)"
    }

    // MARK: From the store

    /// Makes the temporary table, or empties it.
    func beginStaging(_ replica: Database) throws {
        let list = columns.indices.map { "c\($0)" }.joined(separator: ", ")
        try replica.execute(sql: "DROP TABLE IF EXISTS \(staging)")
        try replica.execute(sql: "CREATE TABLE \(staging) (object TEXT UNIQUE, \(list))")
    }

    func emptyStaging(_ replica: Database) throws {
        try replica.cachedStatement(sql: "DELETE FROM \(staging)").execute()
    }

    /// Reads an object's row, if the store has it.
    func stage(_ object: ObjectID, _ replica: Database, from store: Database) throws {
        let target = try stagingInsert(replica)
        let rows = try StoreRows(isByRowid(object) ? selectByRowid : selectOne, store, storePath)
        defer { rows.end() }
        Self.bind(object, to: rows.statement)
        while try rows.next() {
            Self.bind(.text(object.keyText), to: target, 1)
            try Self.copyRow(rows, into: target, from: 2, replica)
        }
    }

    /// Reads all rows.
    func stageAll(_ replica: Database, from store: Database) throws {
        let target = try stagingInsert(replica)
        sqlite3_bind_null(target, 1)
        try copyAll(into: target, from: 2, replica, store)
    }

    private func stagingInsert(_ replica: Database) throws -> OpaquePointer {
        try replica.cachedStatement(sql: stage).sqliteStatement
    }

    /// Reads all rows into the replica's own table at once.
    func fill(_ replica: Database, from store: Database) throws {
        let places = columns.map { _ in "?" }.joined(separator: ", ")
        let target = try replica.cachedStatement(sql: "\(insert) VALUES (\(places))").sqliteStatement
        try copyAll(into: target, from: 1, replica, store)
    }

    private func copyAll(
        into target: OpaquePointer, from first: Int32, _ replica: Database, _ store: Database
    ) throws {
        let rows = try StoreRows(select, store, storePath)
        defer { rows.end() }
        while try rows.next() { try Self.copyRow(rows, into: target, from: first, replica) }
    }

    /// Whether an object recorded under an older shape can still be looked up by its key.
    func knows(_ object: ObjectID) -> Bool {
        if object.isRowID { return table.rowid != nil }
        return table.key != .rowid && object.values.count == table.primaryKey.count
    }

    /// Reads the key of an object that was noted; nil where keys are of another kind by now.
    func object(_ keyText: String) -> ObjectID? {
        guard let object = ObjectID(keyText: keyText, keyedBy: table.key), knows(object) else { return nil }
        return object
    }

    // MARK: Into the replica

    /// Takes an object away.
    func remove(_ object: ObjectID, _ replica: Database) throws {
        let statement = try replica.cachedStatement(sql: isByRowid(object) ? deleteByRowid : delete)
            .sqliteStatement
        Self.bind(object, to: statement)
        defer { sqlite3_reset(statement) }
        _ = try statement.step(replica)
    }

    func removeAll(_ replica: Database) throws {
        try replica.execute(sql: "DELETE FROM main.\(SQLText.name(table.name))")
    }

    /// Puts in what was read of an object, if there was something.
    func put(_ object: ObjectID, _ replica: Database) throws {
        let statement = try replica.cachedStatement(sql: putOne).sqliteStatement
        sqlite3_reset(statement)
        Self.bind(.text(object.keyText), to: statement, 1)
        defer { sqlite3_reset(statement) }
        _ = try statement.step(replica)
    }

    /// Puts in all that was read.
    func putAll(_ replica: Database) throws {
        try replica.execute(sql: put)
    }

    // MARK: Values

    private func isByRowid(_ object: ObjectID) -> Bool { object.isRowID && table.key != .rowid }

    private static func copyRow(
        _ rows: StoreRows, into target: OpaquePointer, from first: Int32, _ replica: Database
    ) throws {
        for column in 0..<sqlite3_column_count(rows.statement) {
            sqlite3_bind_value(target, column + first, sqlite3_column_value(rows.statement, column))
        }
        defer { sqlite3_reset(target) }
        _ = try target.step(replica)
    }

    private static func bind(_ object: ObjectID, to statement: OpaquePointer) {
        sqlite3_reset(statement)
        for (index, value) in object.values.enumerated() { bind(value, to: statement, Int32(index + 1)) }
    }

    private static func bind(_ value: HistoryValue, to statement: OpaquePointer, _ place: Int32) {
        switch value {
        case .null: sqlite3_bind_null(statement, place)
        case .integer(let value): sqlite3_bind_int64(statement, place, value)
        case .real(let value): sqlite3_bind_double(statement, place, value)
        case .text(let value):
            let bytes = Array(value.utf8)
            sqlite3_bind_text64(
                statement, place, bytes.map { CChar(bitPattern: $0) }, UInt64(bytes.count),
                copied, UInt8(SQLITE_UTF8))
        case .blob(let bytes):
            sqlite3_bind_blob64(statement, place, bytes, UInt64(bytes.count), copied)
        }
    }
}

/// Rows of a store, read while a replica is written: what fails here is told as the store's.
private struct StoreRows {
    let statement: OpaquePointer
    private let store: Database
    private let path: String

    init(_ sql: String, _ store: Database, _ path: String) throws {
        statement = try HistoryError.translating(path) { try store.cachedStatement(sql: sql).sqliteStatement }
        self.store = store
        self.path = path
        sqlite3_reset(statement)
    }

    func next() throws -> Bool { try HistoryError.translating(path) { try statement.step(store) } }
    func end() { sqlite3_reset(statement) }
}

/// "The application must not modify or free the memory until SQLite is done with it"; this value
/// asks SQLite for a copy of its own (https://www.sqlite.org/c3ref/c_static.html).
private let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

extension OpaquePointer {
    /// Steps a statement; whether it stands on a row.
    fileprivate func step(_ db: Database) throws -> Bool {
        switch sqlite3_step(self) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code:
            throw DatabaseError(
                resultCode: ResultCode(rawValue: code),
                message: String(cString: sqlite3_errmsg(db.sqliteConnection)))
        }
    }
}
