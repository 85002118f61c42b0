import GRDB
import GRDBSQLite

/// Tries a store's CREATE statements where they can do no harm, before a replica runs them.
///
/// A process that can write to a store can put any text into its schema. Here each text must be one
/// statement. It runs in an empty in-memory database, under an authorizer that allows one table, or one
/// index on it, and the functions of a list. A statement that passes creates just that in a replica. One
/// that fails is left out, with SQLite's reason; a replica cannot have the application's own collations
/// and functions either.
package final class ReplicaSchemaCheck {
    /// Why a store's statement was refused.
    package struct Refusal: Error, Equatable {
        package let reason: String

        init(_ reason: String) { self.reason = reason.count > 500 ? reason.prefix(500) + "…" : reason }
    }

    /// The maximum number of bytes in a statement.
    private static let longestSQL = 1 << 20
    /// A replica reads a table through a virtual one with three more columns, or four if rows keep their
    /// rowids (https://www.sqlite.org/limits.html#max_column).
    static let mostColumns = 1996

    private let queue: DatabaseQueue
    private let permission = Permission()

    package init() throws {
        var configuration = Configuration()
        // As on the replica's connection.
        configuration.acceptsDoubleQuotedStringLiterals = true
        queue = try DatabaseQueue(configuration: configuration)
    }

    /// Closes the connection.
    package func close() throws { try queue.end() }

    package func checkTable(_ name: String, _ sql: String) throws {
        try run(sql, Permission.Object(table: name, index: nil))
        let columns = try queue.writeWithoutTransaction { db in
            try rows(db, "PRAGMA main.table_xinfo(\(SQLText.name(name)))")
        }
        guard columns <= Self.mostColumns else {
            throw Refusal("it has \(columns) columns, and a replica's table at most \(Self.mostColumns)")
        }
    }

    /// - Parameter table: A table that passed.
    package func checkIndex(_ name: String, on table: String, _ sql: String) throws {
        try run(sql, Permission.Object(table: table, index: name))
    }

    private func run(_ sql: String, _ object: Permission.Object) throws {
        guard !object.isReserved else { throw Refusal("its name is reserved") }
        guard sql.utf8.count <= Self.longestSQL else {
            throw Refusal("its definition has more than \(Self.longestSQL) bytes")
        }
        try queue.writeWithoutTransaction { db in
            permission.object = object
            permission.refused = nil
            // GRDB's own authorizer is not restored: nothing else is done on this connection.
            sqlite3_set_authorizer(
                db.sqliteConnection, authorize, Unmanaged.passUnretained(permission).toOpaque())
            defer { sqlite3_set_authorizer(db.sqliteConnection, { _, _, _, _, _, _ in SQLITE_OK }, nil) }
            do {
                try db.runSchemaStatement(sql)
            } catch let error as DatabaseError {
                throw Refusal(
                    permission.refused ?? error.message ?? "SQLite result \(error.resultCode.rawValue)")
            }
        }
    }

    private func rows(_ db: Database, _ sql: String) throws -> Int {
        var statement: OpaquePointer?
        let result = sqlite3_prepare_v2(db.sqliteConnection, sql, -1, &statement, nil)
        defer { sqlite3_finalize(statement) }
        guard result == SQLITE_OK, let statement else { throw DatabaseError(lastOf: db) }
        var count = 0
        while try statement.step(db) { count += 1 }
        return count
    }
}

extension Database {
    /// Runs a text that must be one CREATE statement.
    ///
    /// - Throws: `DatabaseError`; `Refusal` if something follows the statement.
    package func runSchemaStatement(_ sql: String) throws {
        guard !sql.utf8.contains(0) else {
            throw ReplicaSchemaCheck.Refusal("its definition has a NUL character")
        }
        var statement: OpaquePointer?
        var rest = ""
        let result = sql.withCString { text in
            var tail: UnsafePointer<CChar>?
            let result = sqlite3_prepare_v2(sqliteConnection, text, -1, &statement, &tail)
            if let tail { rest = String(cString: tail) }
            return result
        }
        defer { sqlite3_finalize(statement) }
        guard result == SQLITE_OK else { throw DatabaseError(lastOf: self) }
        guard let statement, rest.allSatisfy({ $0.isWhitespace || $0 == ";" }) else {
            throw ReplicaSchemaCheck.Refusal("its definition is not one statement")
        }
        _ = try statement.step(self)
        clearSchemaCache()
    }
}

/// What the current statement may create.
private final class Permission {
    struct Object {
        let table: String
        let index: String?

        /// Names that SQLite and the replica itself reserve.
        var isReserved: Bool {
            [table, index ?? ""].contains { name in
                SQLText.isOfSQLite(name) || SQLText.isReserved(name)
            }
        }
    }

    var object = Object(table: "", index: nil)
    /// The first action that was refused.
    var refused: String?

    func allows(_ action: Int32, _ first: String, _ second: String, schema: String) -> Bool {
        // SQLite's own writes when it creates a table.
        let isSchemaTable = first == "sqlite_master"
        switch action {
        case SQLITE_CREATE_TABLE:
            return schema == "main" && (object.index == nil && isTable(first) || first == "sqlite_sequence")
        case SQLITE_CREATE_INDEX:
            guard schema == "main", isTable(second) else { return false }
            return object.index.map { Self.isSame($0, first) }
                ?? first.hasBytePrefix("sqlite_autoindex_")
        case SQLITE_INSERT, SQLITE_UPDATE: return schema == "main" && isSchemaTable
        case SQLITE_READ: return schema == "main" && (isSchemaTable || isTable(first))
        case SQLITE_REINDEX: return object.index.map { Self.isSame($0, first) } ?? false
        case SQLITE_FUNCTION: return Self.functions.contains(SQLText.folded(second))
        default: return false
        }
    }

    private func isTable(_ name: String) -> Bool { Self.isSame(name, object.table) }

    /// Compares names as SQLite does.
    private static func isSame(_ name: String, _ other: String) -> Bool {
        SQLText.areSame(name, other)
    }

    /// SQLite's functions that compute a value from their arguments, in any of its versions
    /// (https://www.sqlite.org/lang_corefunc.html, lang_datefunc.html, lang_mathfunc.html, json1.html).
    private static let functions = Set(
        """
        abs char coalesce concat concat_ws format glob hex ifnull iif if instr length like likelihood likely lower \
        ltrim max min nullif octet_length printf quote random randomblob replace round rtrim sign soundex substr \
        substring trim typeof unhex unicode unlikely upper zeroblob unistr unistr_quote \
        date time datetime julianday unixepoch strftime timediff current_date current_time current_timestamp \
        acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow \
        power radians sin sinh sqrt tan tanh trunc \
        -> ->> json jsonb json_array jsonb_array json_array_length json_error_position json_extract jsonb_extract \
        json_insert jsonb_insert json_object jsonb_object json_patch jsonb_patch json_pretty json_quote json_remove \
        jsonb_remove json_replace jsonb_replace json_set jsonb_set json_type json_valid match regexp
        """.split(separator: " ").map(String.init))

    static func describe(_ action: Int32, _ first: String, _ second: String) -> String {
        action == SQLITE_FUNCTION
            ? "it uses the function \"\(second)\"" : "its definition does more than define it"
    }
}

private func authorize(
    _ permission: UnsafeMutableRawPointer?, _ action: Int32, _ first: UnsafePointer<CChar>?,
    _ second: UnsafePointer<CChar>?, _ schema: UnsafePointer<CChar>?, _ trigger: UnsafePointer<CChar>?
) -> Int32 {
    guard let permission else { return SQLITE_DENY }
    let known = Unmanaged<Permission>.fromOpaque(permission).takeUnretainedValue()
    let text = { (pointer: UnsafePointer<CChar>?) in pointer.map { String(cString: $0) } ?? "" }
    if trigger == nil, known.allows(action, text(first), text(second), schema: text(schema)) {
        return SQLITE_OK
    }
    known.refused = known.refused ?? Permission.describe(action, text(first), text(second))
    return SQLITE_DENY
}
