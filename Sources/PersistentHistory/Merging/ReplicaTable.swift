import GRDB
import GRDBSQLite

/// Copies rows of one entity from a store to a replica, with SQLite's own values: nothing is
/// converted on the way.
struct ReplicaTable {
    let table: TableSchema
    private let select: String
    private let selectOne: String
    private let selectByRowid: String
    private let insert: String
    private let delete: String
    private let deleteByRowid: String
    /// The CREATE INDEX statements of the entity's own indexes.
    let indexes: [String]

    init(_ name: String, in store: Database) throws {
        table = try TableSchema(name, in: store)
        indexes = try String.fetchAll(
            store,
            sql: """
                SELECT sql FROM main.sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL
                AND name NOT LIKE 'historyd\\_%' ESCAPE '\\'
                """,
            arguments: [table.name])

        var columns = table.columns.filter { !$0.isGenerated }.map { SQLText.name($0.name) }
        // Rows that are known by their rowid keep it.
        if let rowid = table.rowid, !table.keyIsRowid { columns.insert(rowid, at: 0) }
        let name = SQLText.name(table.name)
        let key =
            table.key == .rowid
            ? "\(table.rowid ?? "rowid") = ?"
            : table.primaryKey.map { "\(SQLText.name($0)) IS ?" }.joined(separator: " AND ")
        let byRowid = "\(table.rowid ?? "NULL") = ?"
        let list = columns.joined(separator: ", ")
        select = "SELECT \(list) FROM \(name)"
        selectOne = "\(select) WHERE \(key)"
        selectByRowid = "\(select) WHERE \(byRowid)"
        let places = columns.map { _ in "?" }.joined(separator: ", ")
        insert = "INSERT OR REPLACE INTO \(name) (\(list)) VALUES (\(places))"
        delete = "DELETE FROM \(name) WHERE \(key)"
        deleteByRowid = "DELETE FROM \(name) WHERE \(byRowid)"
    }

    /// Whether the replica has the entity as the store has it now.
    func isCurrent(in replica: Database) throws -> Bool {
        try String.fetchOne(
            replica, sql: "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?",
            arguments: [table.name]) == table.sql
    }

    /// Makes the entity's table anew and fills it.
    func fill(_ replica: Database, from store: Database) throws {
        try replica.execute(sql: "DROP TABLE IF EXISTS \(SQLText.name(table.name))")
        try replica.execute(sql: table.sql)
        let source = try store.cachedStatement(sql: select).sqliteStatement
        sqlite3_reset(source)
        defer { sqlite3_reset(source) }
        let target = try replica.cachedStatement(sql: insert).sqliteStatement
        while try source.step(store) { try Self.copyRow(source, into: target, replica) }
        for index in indexes { try replica.execute(sql: index) }
    }

    /// Brings objects up to date: first all are deleted, then those that the store has are put in,
    /// so that values of a unique index may change places.
    func merge(_ objects: [ObjectID], _ replica: Database, from store: Database) throws {
        for object in objects {
            let statement = try replica.cachedStatement(sql: isByRowid(object) ? deleteByRowid : delete)
                .sqliteStatement
            try Self.bind(object, to: statement)
            _ = try statement.step(replica)
            sqlite3_reset(statement)
        }
        let target = try replica.cachedStatement(sql: insert).sqliteStatement
        for object in objects {
            let source = try store.cachedStatement(sql: isByRowid(object) ? selectByRowid : selectOne)
                .sqliteStatement
            try Self.bind(object, to: source)
            defer { sqlite3_reset(source) }
            while try source.step(store) { try Self.copyRow(source, into: target, replica) }
        }
    }

    private func isByRowid(_ object: ObjectID) -> Bool { object.isRowID && table.key != .rowid }

    /// Whether an object recorded under an older shape can still be looked up by its key.
    func knows(_ object: ObjectID) -> Bool {
        if object.isRowID { return table.rowid != nil }
        return table.key != .rowid && object.values.count == table.primaryKey.count
    }

    private static func copyRow(_ source: OpaquePointer, into target: OpaquePointer, _ replica: Database) throws
    {
        for column in 0..<sqlite3_column_count(source) {
            sqlite3_bind_value(target, column + 1, sqlite3_column_value(source, column))
        }
        defer { sqlite3_reset(target) }
        _ = try target.step(replica)
    }

    private static func bind(_ object: ObjectID, to statement: OpaquePointer) throws {
        sqlite3_reset(statement)
        for (index, value) in object.values.enumerated() {
            let place = Int32(index + 1)
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
