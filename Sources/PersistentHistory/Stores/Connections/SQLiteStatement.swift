package import GRDB
package import GRDBSQLite

/// "The application must not modify or free the memory until SQLite is done with it"; this value
/// asks SQLite for a copy of its own (https://www.sqlite.org/c3ref/c_static.html).
let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

extension OpaquePointer {
    /// Steps a statement; returns whether it is at a row.
    package func step(_ db: Database) throws -> Bool {
        switch sqlite3_step(self) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw DatabaseError(lastOf: db)
        }
    }

    /// The bytes of a text column, valid until the statement's next step; nil for other storage classes.
    package func textBytes(_ column: Int32) -> UnsafeBufferPointer<UInt8>? {
        guard sqlite3_column_type(self, column) == SQLITE_TEXT, let start = sqlite3_column_text(self, column)
        else { return nil }
        return UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(self, column)))
    }

    func isText(_ column: Int32, _ text: String) -> Bool {
        guard let bytes = textBytes(column) else { return false }
        var text = text
        return text.withUTF8 { $0.hasSameBytes(as: bytes) }
    }

    /// How many bytes of text and blobs some columns hold.
    func payload(from column: Int32, count: Int) -> Int {
        (column..<column + Int32(count)).reduce(0) { bytes, column in
            let type = sqlite3_column_type(self, column)
            return type == SQLITE_TEXT || type == SQLITE_BLOB
                ? bytes + Int(sqlite3_column_bytes(self, column)) : bytes
        }
    }

    /// Binds values to a statement's parameters, in their order.
    func bind(_ values: [HistoryValue]) {
        for (index, value) in values.enumerated() { bind(value, Int32(index + 1)) }
    }

    package func bind(_ value: HistoryValue, _ parameter: Int32) {
        switch value {
        case .null: sqlite3_bind_null(self, parameter)
        case .integer(let value): sqlite3_bind_int64(self, parameter, value)
        case .real(let value): sqlite3_bind_double(self, parameter, value)
        case .text(let value):
            let length = UInt64(value.utf8.count)
            sqlite3_bind_text64(self, parameter, value, length, copied, UInt8(SQLITE_UTF8))
        case .invalidText(let bytes):
            bytes.withUnsafeBytes { bindText($0, parameter, copied) }
        case .blob(let bytes):
            sqlite3_bind_blob64(self, parameter, bytes, UInt64(bytes.count), copied)
        }
    }

    package func bindText(
        _ text: UnsafeRawBufferPointer, _ parameter: Int32, _ lifetime: sqlite3_destructor_type?
    ) {
        sqlite3_bind_text64(
            self, parameter, text.baseAddress?.assumingMemoryBound(to: CChar.self), UInt64(text.count),
            lifetime,
            UInt8(SQLITE_UTF8))
    }
}

extension HistoryValue {
    /// A column of a statement's row, with its storage class.
    package init(_ statement: OpaquePointer, _ column: Int32) {
        switch sqlite3_column_type(statement, column) {
        case SQLITE_INTEGER: self = .integer(sqlite3_column_int64(statement, column))
        case SQLITE_FLOAT: self = .real(sqlite3_column_double(statement, column))
        case SQLITE_TEXT:
            self = statement.textBytes(column).map { HistoryValue(textOf: $0) } ?? .text("")
        case SQLITE_BLOB:
            let count = Int(sqlite3_column_bytes(statement, column))
            self = .blob(
                sqlite3_column_blob(statement, column).map {
                    Array(UnsafeRawBufferPointer(start: $0, count: count))
                } ?? [])
        default: self = .null
        }
    }
}

extension DatabaseError {
    /// The error of a connection's last call.
    init(lastOf db: Database) {
        self.init(
            resultCode: ResultCode(rawValue: sqlite3_extended_errcode(db.sqliteConnection)),
            message: String(cString: sqlite3_errmsg(db.sqliteConnection)))
    }

    /// The error of a statement's last step.
    init(lastOf statement: OpaquePointer, _ result: Int32) {
        let message = sqlite3_db_handle(statement).flatMap { sqlite3_errmsg($0) }.map { String(cString: $0) }
        self.init(resultCode: ResultCode(rawValue: result), message: message)
    }
}

extension Database {
    /// See https://www.sqlite.org/pragma.html#pragma_schema_version.
    package func currentSchemaVersion() throws -> Int64 {
        try firstRow("PRAGMA schema_version") { sqlite3_column_int64($0, 0) }
    }

    /// Passes a statement to a closure, without copying its rows.
    package func rows<T>(_ sql: String, _ argument: Int64? = nil, _ read: (OpaquePointer) throws -> T) throws
        -> T
    {
        let statement = try cachedStatement(sql: sql).sqliteStatement
        sqlite3_reset(statement)
        defer { sqlite3_reset(statement) }
        if let argument { sqlite3_bind_int64(statement, 1, argument) }
        return try read(statement)
    }

    /// The first row of a statement that returns at least one.
    package func firstRow<T>(_ sql: String, _ read: (OpaquePointer) throws -> T) throws -> T {
        try rows(sql) { row in
            guard try row.step(self) else {
                throw DatabaseError(resultCode: .SQLITE_ERROR, message: "no row", sql: sql)
            }
            return try read(row)
        }
    }
}

extension Statement {
    /// Runs a statement that returns no rows; for statements that run once for each of many items.
    package func write(_ db: Database, _ values: [HistoryValue]) throws {
        sqlite3_reset(sqliteStatement)
        defer { sqlite3_reset(sqliteStatement) }
        sqliteStatement.bind(values)
        _ = try sqliteStatement.step(db)
    }
}
