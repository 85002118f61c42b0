import GRDBSQLite
import TestSupport
import Testing

@testable import PersistentHistory

/// What connections do that were open while triggers named a table that was not there.
@Suite(.timeLimit(.minutes(60))) struct RepairedStoreTests {
    /// By SQLite's own interface: nothing in between reads the schema.
    private final class Plain {
        private var handle: OpaquePointer?

        init(_ path: String) throws { try #require(sqlite3_open(path, &handle) == SQLITE_OK) }
        deinit { sqlite3_close(handle) }

        /// - Returns: What is wrong; nil where nothing is.
        func failure(_ sql: String) -> String? {
            let result = sqlite3_exec(handle, sql, nil, nil, nil)
            return result == SQLITE_OK ? nil : String(cString: sqlite3_errmsg(handle))
        }
    }

    @Test(
        "A connection that wrote before the repair goes on failing until it reads a table",
        arguments: [
            ("DROP TABLE historyd_change", "t", "historyd_change"),
            ("PRAGMA legacy_alter_table = ON; ALTER TABLE t RENAME TO u", "u", "t"),
        ])
    func writeOnly(_ damage: String, _ table: String, _ missing: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let other = try Plain(path)
        #expect(other.failure("PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY)") == nil)
        try Tracking.track(path, ["t": nil])
        let (writer, idle) = (try Plain(path), try Plain(path))
        for connection in [writer, idle] {
            #expect(connection.failure("INSERT INTO t DEFAULT VALUES") == nil)
        }
        #expect(other.failure(damage) == nil)
        let (insert, error) = ("INSERT INTO \(table) DEFAULT VALUES", "no such table: main.\(missing)")
        #expect(writer.failure(insert) == error)
        try Tracking.refresh(path)

        // One that did not read the schema meanwhile, and a new one, are well at once.
        #expect(idle.failure(insert) == nil)
        #expect(try Plain(path).failure(insert) == nil)
        for sql in [insert, "BEGIN IMMEDIATE; ROLLBACK", "PRAGMA user_version", "SELECT 1"] {
            _ = writer.failure(sql)
            #expect(writer.failure(insert) == error, "\(sql)")
        }
        #expect(writer.failure("SELECT count(*) FROM sqlite_schema") == nil)
        #expect(writer.failure(insert) == nil)
    }
}
