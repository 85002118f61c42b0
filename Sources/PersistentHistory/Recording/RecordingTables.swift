package import GRDB
import GRDBSQLite

/// Checks that the history's tables are as tracking made them: tables, with our SQL, without triggers.
///
/// A process that can write to a store can replace a table with an endless view, or add a trigger that
/// runs with each step of a cleanup. SQLite itself refuses entries of `sqlite_schema` whose columns
/// disagree with their SQL, so the SQL shows what a table is.
package enum RecordingTables {
    private static let expected: [BinaryText: String] = {
        var tables: [BinaryText: String] = [:]
        for sql in RecordingFormat.schema.split(separator: ";\n").map({ trimmed($0) }) where !sql.isEmpty {
            tables[name(of: sql)] = sql
        }
        return tables
    }()

    private static func trimmed(_ sql: Substring) -> String {
        String(sql.drop(while: \.isWhitespace).reversed().drop { $0.isWhitespace || $0 == ";" }.reversed())
    }

    private static func name(of sql: String) -> String {
        String(sql.dropFirst("CREATE TABLE ".count).prefix { $0 != " " })
    }

    /// - Throws: `UnexpectedValue`; `HistoryError` with `.notTracked` if tables are missing.
    package static func check(_ db: Database) throws {
        guard let name = try missing(db).min() else { return }
        throw HistoryError(
            .notTracked, "The table \"\(name)\" of the history is missing.",
            hint: "`historyctl track STORE` repairs the recording.")
    }

    /// The missing tables: all of them in a store that is not tracked.
    static func missing(_ db: Database) throws -> Set<BinaryText> {
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT type, lower(name) AS name, lower(tbl_name) AS tbl_name, CAST(sql AS TEXT) AS sql
                FROM main.sqlite_schema
                WHERE lower(name) IN (\(names)) OR type = 'trigger' AND lower(tbl_name) IN (\(names))
                """)
        var missing = Set(expected.keys)
        while let row = try rows.next() {
            let (type, name, table) = (try row.text("type"), try row.text("name"), try row.text("tbl_name"))
            if type == "trigger" {
                throw UnexpectedValue("the table \"\(table)\" has a foreign trigger \"\(shown(name))\"")
            }
            guard type == "table", let known = expected[name] else {
                throw UnexpectedValue("\"\(name)\" is a foreign \(shown(type)), not a table of the history")
            }
            guard try known.hasSameBytes(as: row.text("sql")) else {
                throw UnexpectedValue("the table \"\(name)\" is not the history's: it has another definition")
            }
            missing.remove(BinaryText(name))
        }
        return missing
    }

    private static let names = expected.keys.sorted().map { SQLText.literal($0.text) }.joined(separator: ", ")

    /// A name from others for a message: of limited length, and on one line.
    private static func shown(_ name: String) -> String {
        String(name.prefix(80).map { $0.isNewline || $0.asciiValue.map { $0 < 32 } == true ? "?" : $0 })
    }
}

/// Lets a connection check the history's tables once for each schema version.
///
/// SQLite parses the whole schema with the first statement that needs it after a change: a quarter of a
/// second with a thousand recorded tables.
final class CheckedTables: Sendable {
    private let version = Locked<Int64?>(nil)

    /// Runs a body that reads the tables, in one transaction.
    ///
    /// - Parameter body: Receives the schema version
    ///   (https://www.sqlite.org/pragma.html#pragma_schema_version).
    func inTransaction<T>(_ db: Database, _ body: (Database, _ schemaVersion: Int64) throws -> T) throws -> T {
        // The usual case. An implicit transaction lasts until its last statement finishes
        // (https://www.sqlite.org/lang_transaction.html). This one is unfinished
        // while the body runs.
        let result = try db.rows("PRAGMA main.schema_version") { row -> T? in
            guard try row.step(db) else { return nil }
            let version = sqlite3_column_int64(row, 0)
            return isChecked(version) ? try body(db, version) : nil
        }
        return try result ?? db.inReadTransaction { try body(db, check(db)) }
    }

    private func isChecked(_ version: Int64) -> Bool { self.version.withLock { $0 == version } }

    /// Call it in the transaction that uses the tables.
    ///
    /// - Returns: The schema version.
    @discardableResult
    func check(_ db: Database) throws -> Int64 {
        // This parses nothing.
        let version = try db.currentSchemaVersion()
        if isChecked(version) { return version }
        try RecordingTables.check(db)
        self.version.withLock { $0 = version }
        return version
    }
}
