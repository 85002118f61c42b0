internal import GRDB
internal import GRDBSQLite

/// A statement that stays prepared for as long as its connection is open, for what nearly every commit needs. GRDB looks
/// a statement up by its text, and runs it on the connection's queue: that takes longer than SQLite itself.
///
/// Whoever keeps it has a lock, under which the connection is used in any way, and ends it before the connection.
struct HeldStatement: Sendable {
    /// Used under that lock alone.
    nonisolated(unsafe) private let statement: OpaquePointer

    /// How the statement answers to a schema that has changed.
    enum Schema {
        /// SQLite parses it, and prepares the statement again.
        case isFollowed
        /// It is reported, by the first version of the interface (https://www.sqlite.org/c3ref/prepare.html).
        case isReported
    }

    init(_ db: Database, _ sql: String, schema: Schema) throws {
        var statement: OpaquePointer?
        let result =
            switch schema {
            case .isFollowed: sqlite3_prepare_v2(db.sqliteConnection, sql, -1, &statement, nil)
            case .isReported: sqlite3_prepare(db.sqliteConnection, sql, -1, &statement, nil)
            }
        guard result == SQLITE_OK, let statement else { throw DatabaseError(lastOf: db) }
        self.statement = statement
    }

    /// Lends it, to be stepped; it is reset afterwards.
    func withStatement<T>(_ body: (OpaquePointer) throws -> T) rethrows -> T {
        defer { sqlite3_reset(statement) }
        return try body(statement)
    }

    func end() { sqlite3_finalize(statement) }
}
