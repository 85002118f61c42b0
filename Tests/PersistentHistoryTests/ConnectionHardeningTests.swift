import Foundation
import GRDB
import GRDBSQLite
import TestSupport
import Testing

@testable import PersistentHistory

/// What bounds the work of a connection.
@Suite struct ConnectionHardeningTests {
    private static let endless =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    @Test("A statement without an end is ended, by its work or with its task")
    func endless() async throws {
        let store = try GatekeeperStore()
        let work = WorkLimit(looks: 10)
        let queue = try StoreConnection.open(store.path, .read, work: work)
        #expect(throws: UnexpectedValue.self) {
            try work.explaining { try queue.unsafeRead { db in _ = try Int.fetchOne(db, sql: Self.endless) } }
        }
        work.begin()
        let count = try await queue.read { db in try Int.fetchOne(db, sql: "SELECT count(*) FROM t") }
        #expect(count == 0)
        work.setMost(.max)
        let task = Task { try await queue.read { db in _ = try Int.fetchOne(db, sql: Self.endless) } }
        task.cancel()
        await #expect(throws: (any Error).self) { try await task.value }
        try queue.close()
    }

    @Test(
        "A transaction that is ended while it begins or commits is not left open", arguments: [1, 2, 3, 4, 5])
    func endedAtTheEdge(_ instructions: Int32) throws {
        let store = try GatekeeperStore()
        let queue = try StoreConnection.open(store.path, .write)
        for _ in 0..<10 {
            // GRDB ends the process where one is left open.
            try? queue.writeWithoutTransaction { db in
                sqlite3_progress_handler(db.sqliteConnection, instructions, { _ in 1 }, nil)
                defer { sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
                _ = try db.inReadTransaction { try Int.fetchOne(db, sql: "SELECT count(*) FROM t") }
            }
            #expect(try queue.readInTransaction { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == 0)
        }
        try queue.close()
    }

    @Test(
        "Neither triggers nor views of the file run, nothing is attached or loaded, and the schema is not written"
    )
    func isHardened() throws {
        let store = try GatekeeperStore()
        try store.write(
            nil, "CREATE VIEW v AS SELECT 1", "CREATE TABLE log (x)",
            "CREATE TRIGGER noisy AFTER INSERT ON u BEGIN INSERT INTO log VALUES (1); END")
        let queue = try StoreConnection.open(store.path, .write)
        try queue.writeWithoutTransaction { db in
            for sql in [
                "SELECT * FROM v", "ATTACH ':memory:' AS m", "SELECT load_extension('x')",
                "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = ''",
            ] {
                #expect(throws: DatabaseError.self, "\(sql)") { try db.execute(sql: sql) }
            }
            try db.execute(sql: "INSERT INTO u VALUES (1, 1)")
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM log") == 0)
            // SQLite 3.40 refuses json_extract() in an index otherwise.
            #expect(try Int.fetchOne(db, sql: "PRAGMA trusted_schema") == 1)
            #expect(try Int.fetchOne(db, sql: "PRAGMA cell_size_check") == 1)
        }
        try queue.close()
    }

    @Test(
        "SQL run as an author runs the store's triggers, and is recorded with that author, without trust in the schema"
    )
    func authoredSQL() throws {
        let store = try GatekeeperStore()
        try store.write(
            nil, "CREATE TRIGGER copies AFTER INSERT ON t BEGIN INSERT INTO u VALUES (NEW.id, NEW.n); END")
        _ = try AuthoredSQL.run("INSERT INTO t VALUES (1, 1)", on: store.path, author: "Script")
        let reader = try HistoryReader(path: store.path)
        let transactions = try reader.batch(after: 0).transactions
        #expect(transactions.count == 1 && transactions.first?.author == "Script")
        #expect(transactions.first?.changes.map(\.entity.name).sorted() == ["t", "u"])
        try reader.close()
    }
}
