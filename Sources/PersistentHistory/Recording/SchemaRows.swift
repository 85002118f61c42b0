internal import CSQLiteHistory
import GRDB
import GRDBSQLite

/// Creates triggers in a time that does not grow with the schema.
///
/// `CREATE TRIGGER` reads all of `sqlite_schema` to find the row that it has just written, which takes minutes for
/// the triggers of a thousand tables. So SQLite compiles the statement, which finds every error, and the row that it
/// would write is inserted, as SQLite's documentation has it for changes of many definitions
/// (https://www.sqlite.org/lang_altertable.html#otheralter). Every connection, including this one, reads the schema
/// again after `announce`.
enum SchemaRows {
    /// - Parameter table: The table's name as the schema has it.
    static func create(_ triggers: [(name: String, sql: String)], on table: String, _ db: Database) throws {
        for trigger in triggers { _ = try db.makeStatement(sql: trigger.sql) }
        try writingSchema(db) {
            let insert = try db.cachedStatement(
                sql: "INSERT INTO main.sqlite_schema VALUES ('trigger', ?, ?, 0, ?)")
            for trigger in triggers { try insert.execute(arguments: [trigger.name, table, trigger.sql]) }
        }
    }

    /// Ends a transaction's changes: the schema has another version from its commit on.
    static func announce(_ db: Database) throws {
        // A number of 32 bits that SQLite lets overflow.
        let version = Int32(truncatingIfNeeded: try db.currentSchemaVersion()) &+ 1
        try writingSchema(db) { try db.execute(sql: "PRAGMA main.schema_version = \(version)") }
    }

    private static func writingSchema(_ db: Database, _ body: () throws -> Void) throws {
        let connection = db.sqliteConnection
        defer { _ = history_let_write_schema(connection, 0) }
        let result = history_let_write_schema(connection, 1)
        guard result == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: result)) }
        try body()
    }
}
