import GRDB
import GRDBSQLite

/// Lets a connection check the history's tables once for each version of the store's schema.
///
/// With the first statement that needs the schema after it has changed, SQLite parses all of it: a quarter of a second
/// where a thousand tables are recorded.
final class CheckedTables: Sendable {
    private let version = Locked<Int64?>(nil)

    /// Runs a body that reads the tables, in one transaction.
    ///
    /// - Parameter body: Is given the version of the schema (https://www.sqlite.org/pragma.html#pragma_schema_version).
    func inTransaction<T>(_ db: Database, _ body: (Database, _ schemaVersion: Int64) throws -> T) throws -> T {
        // The usual case. A transaction that SQLite began by itself lasts until the last of its statements is
        // finished (https://www.sqlite.org/lang_transaction.html): this one, which has no other use.
        let result = try db.rows("PRAGMA main.schema_version") { row -> T? in
            guard try row.step(db) else { return nil }
            let version = sqlite3_column_int64(row, 0)
            return isChecked(version) ? try body(db, version) : nil
        }
        return try result ?? db.inReadTransaction { try body(db, check(db)) }
    }

    private func isChecked(_ version: Int64) -> Bool { self.version.withLock { $0 == version } }

    /// To be called in the transaction that uses the tables.
    ///
    /// - Returns: The version of the schema.
    @discardableResult
    func check(_ db: Database) throws -> Int64 {
        // This parses nothing.
        let version = try db.firstRow("PRAGMA schema_version") { sqlite3_column_int64($0, 0) }
        if isChecked(version) { return version }
        try RecordingTables.check(db)
        self.version.withLock { $0 = version }
        return version
    }
}
