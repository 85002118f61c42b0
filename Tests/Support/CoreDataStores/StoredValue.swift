import GRDBSQLite

/// A value as stored in the file.
public enum StoredValue: Sendable, Hashable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])

    /// A random value of an attribute type.
    public static func any(_ type: StoreModel.AttributeType, _ random: inout some RandomNumberGenerator)
        -> StoredValue
    {
        switch type {
        case .integer16, .integer32, .integer64: .integer(Int64.random(in: -5...1_000_000, using: &random))
        case .boolean: .integer(Int64.random(in: 0...1, using: &random))
        case .double, .float: .real(Double.random(in: -1000...1000, using: &random))
        case .decimal: Bool.random(using: &random) ? .integer(12) : .real(12.25)
        case .date: .real((Double.random(in: -1e9...1e9, using: &random) * 1e6).rounded() / 1e6)
        case .string: .text(["", "Grüße", "a,b\"c\nd", "plain"].randomElement(using: &random) ?? "")
        case .uri: .text("https://example.org/a?b=1")
        case .uuid: .blob((0..<16).map { _ in UInt8.random(in: 0...255, using: &random) })
        case .binary, .transformable:
            .blob(
                (0..<Int.random(in: 0...40, using: &random)).map { _ in
                    UInt8.random(in: 0...255, using: &random)
                })
        }
    }
}

/// An SQLite error.
public struct StoreError: Error, CustomStringConvertible {
    public let description: String
}

/// The generator's own connection.
final class Connection {
    private let handle: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]

    init(_ path: String) throws {
        var handle: OpaquePointer?
        let result = sqlite3_open_v2(path, &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nil)
        guard result == SQLITE_OK, let handle else { throw StoreError(description: "\(path): \(result)") }
        self.handle = handle
        sqlite3_busy_timeout(handle, 10_000)
    }

    deinit { close() }

    private var isClosed = false

    func close() {
        if isClosed { return }
        isClosed = true
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close(handle)
    }

    func script(_ sql: String) throws {
        var message: UnsafeMutablePointer<CChar>?
        guard sqlite3_exec(handle, sql, nil, nil, &message) == SQLITE_OK else {
            defer { sqlite3_free(message) }
            throw StoreError(description: "\(sql): \(message.map { String(cString: $0) } ?? "")")
        }
    }

    /// Runs a statement, and returns the first column of its first row.
    @discardableResult
    func run(_ sql: String, _ values: [StoredValue] = []) throws -> Int64? {
        let statement = try prepared(sql)
        defer { sqlite3_reset(statement) }
        for (index, value) in values.enumerated() { Self.bind(value, statement, Int32(index + 1)) }
        switch sqlite3_step(statement) {
        case SQLITE_DONE: return nil
        case SQLITE_ROW: return sqlite3_column_int64(statement, 0)
        default: throw StoreError(description: "\(sql): \(String(cString: sqlite3_errmsg(handle)))")
        }
    }

    private func prepared(_ sql: String) throws -> OpaquePointer {
        if let known = statements[sql] { return known }
        var statement: OpaquePointer?
        guard sqlite3_prepare_v2(handle, sql, -1, &statement, nil) == SQLITE_OK, let statement else {
            throw StoreError(description: "\(sql): \(String(cString: sqlite3_errmsg(handle)))")
        }
        statements[sql] = statement
        return statement
    }

    private static func bind(_ value: StoredValue, _ statement: OpaquePointer, _ place: Int32) {
        let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        switch value {
        case .null: sqlite3_bind_null(statement, place)
        case .integer(let integer): sqlite3_bind_int64(statement, place, integer)
        case .real(let real): sqlite3_bind_double(statement, place, real)
        case .text(let text): sqlite3_bind_text(statement, place, text, -1, copied)
        case .blob(let bytes):
            sqlite3_bind_blob64(statement, place, bytes.isEmpty ? [0] : bytes, UInt64(bytes.count), copied)
        }
    }
}
