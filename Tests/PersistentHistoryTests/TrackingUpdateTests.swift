import GRDB
import PersistentHistory
import TestSupport
import Testing

/// What tracking brings up to date when the schema has changed, or the program.
@Suite struct TrackingUpdateTests {
    private func store(_ folder: TemporaryFolder) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let store = try DatabaseQueue(path: folder.file("s.sqlite"), configuration: configuration)
        try store.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b)") }
        try Tracking.track(store.path, ["t": ["a"]])
        return store
    }

    private func changes(_ store: DatabaseQueue) throws -> [HistoryChange] {
        let reader = try HistoryReader(path: store.path)
        defer { #expect(throws: Never.self) { try reader.close() } }
        return try reader.batch(after: 0).transactions.flatMap(\.changes)
    }

    @Test(arguments: [
        "ALTER TABLE t RENAME COLUMN a TO z", "ALTER TABLE t RENAME COLUMN a TO z; ALTER TABLE t RENAME TO u",
    ])
    func aRenamedColumnIsStillPreserved(renaming: String) throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.write { try $0.execute(sql: renaming) }
        try Tracking.refresh(store.path)
        let table = renaming.contains("TO u") ? "u" : "t"
        try store.write { db in
            try db.execute(sql: "INSERT INTO \(table) VALUES (1, 'x', 'y'); DELETE FROM \(table)")
        }
        let tombstone = try #require(try changes(store).last?.tombstone)
        #expect(tombstone.values.map(\.column.name) == ["z"])
        #expect(tombstone.values.map(\.value) == [.text("x")])
    }

    @Test func rowidsOutliveVacuumAfterAnUpdateOfTheTriggers() throws {
        let folder = try TemporaryFolder()
        let store = try DatabaseQueue(path: folder.file("s.sqlite"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try Tracking.track(store.path, ["t": nil])
        try store.write { try $0.execute(sql: "ALTER TABLE t ADD COLUMN b") }
        #expect(try Tracking.refresh(store.path).updated == ["t"])
        try store.write { try $0.execute(sql: "INSERT INTO t (rowid, a) VALUES (7, 'x')") }
        try store.vacuum()
        #expect(try store.read { try Int64.fetchOne($0, sql: "SELECT rowid FROM t") } == 7)
    }

    @Test func triggersOfTheApplicationThatAreNewerRunAfterOurs() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.write { db in
            try db.execute(
                sql:
                    "CREATE TRIGGER own AFTER INSERT ON t BEGIN UPDATE t SET b = 'stamped' WHERE id = NEW.id; END"
            )
        }
        #expect(try Tracking.refresh(store.path).updated == ["t"])
        #expect(try Tracking.refresh(store.path).isEmpty)
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1, 'x', 'y')") }
        #expect(try changes(store).map(\.operation) == [.insert, .update])
    }

    /// A list for several preserved values, the bits of a wide table's columns in several integers.
    @Test func changesOfAWideTableNameAllThatChanged() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        let columns = (0..<130).map { "c\($0)" }
        try store.write { try $0.execute(sql: "CREATE TABLE w (\(columns.joined(separator: ", ")))") }
        try Tracking.track(store.path, ["w": nil])
        let changed = [0, 61, 62, 123, 124, 129]
        try store.write { db in
            let list = changed.map { "c\($0) = 1" }.joined(separator: ", ")
            try db.execute(
                sql: """
                    INSERT INTO t VALUES (2, 'T''78''', NULL); DELETE FROM t;
                    INSERT INTO w DEFAULT VALUES; UPDATE w SET \(list);
                    """)
        }
        let all = try changes(store)
        #expect(all.compactMap { $0.tombstone?.values.map(\.value) } == [[.text("T'78'")]])
        #expect(
            all.filter { $0.operation == .update }.map(\.changedProperties) == [changed.map { "c\($0)" }])
    }

    @Test func theHistorysTablesAreMadeAgainWhereOneThatHoldsNothingIsMissing() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.write { try $0.execute(sql: "DROP TABLE historyd_conflict") }
        try Tracking.refresh(store.path)
        // A connection learns of the new schema by a statement that runs no trigger.
        _ = try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_schema") }
        try store.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1, 'x', 'y'); REPLACE INTO t VALUES (2, 'x', 'z')")
        }
        #expect(try changes(store).map(\.operation) == [.insert, .delete, .insert])
        try Tracking.untrack(store.path)
        #expect(
            try store.read {
                try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema WHERE name LIKE 'hist%'")
            } == [])
    }

    /// A connection without an author has its transaction recorded so: a later author cannot have it.
    @Test func anAuthorComesTooLateForWhatIsRecordedWithNone() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.writeWithoutTransaction { db in
            try db.installHistory()
            try db.execute(sql: "BEGIN; INSERT INTO t VALUES (1, 'x', 'y')")
            #expect(throws: DatabaseError.self) { try db.declareAuthor("Late") }
            try db.execute(sql: "COMMIT; BEGIN; SAVEPOINT s; INSERT INTO t VALUES (2, 'z', 'y'); ROLLBACK TO s")
            try db.declareAuthor("InTime")
            try db.execute(sql: "INSERT INTO t VALUES (3, 'z', 'y'); COMMIT")
        }
        let reader = try HistoryReader(path: store.path)
        #expect(try reader.batch(after: 0).transactions.map(\.author) == [nil, "InTime"])
        try reader.close()
    }
    /// What a statement by itself recorded is gone when it fails, and stays when it does not.
    @Test(arguments: ["DELETE", "WAL"])
    func anAuthorMayComeAfterAStatementThatFailed(journal: String) throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = \(journal); CREATE TABLE u (a)")
            try db.installHistory()
            #expect(throws: DatabaseError.self) {
                try db.execute(sql: "INSERT INTO t VALUES (1, 1, 1), (1, 2, 2)")
            }
            try db.execute(sql: "BEGIN; INSERT INTO u VALUES (1)")
            try db.declareAuthor("InTime")
            try db.execute(
                sql: "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2); COMMIT; SELECT history_author(NULL)")
            #expect(throws: DatabaseError.self) {
                try db.execute(sql: "UPDATE t SET b = CASE id WHEN 2 THEN history_author('TooLate') END")
            }
            let failing = "INSERT INTO t VALUES (3, 3, 3), (3, 4, 4)"
            #expect(throws: DatabaseError.self) { try db.execute(sql: failing) }
            try db.execute(sql: "BEGIN; INSERT INTO t VALUES (3, 3, 3)")
            #expect(throws: DatabaseError.self) { try db.declareAuthor("TooLate") }
            try db.execute(sql: "ROLLBACK")
            #expect(throws: DatabaseError.self) { try db.execute(sql: failing) }
            try db.execute(sql: "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (3, 3, 3); ROLLBACK TO s")
            try db.declareAuthor("InTime")
            try db.execute(sql: "ROLLBACK; SELECT history_author(NULL); BEGIN; INSERT INTO t VALUES (3, 3, 3)")
            #expect(throws: DatabaseError.self) { try db.declareAuthor("TooLate") }
            try db.execute(sql: "COMMIT")
        }
        let reader = try HistoryReader(path: store.path)
        #expect(try reader.batch(after: 0).transactions.map(\.author) == ["InTime", nil])
        try reader.close()
    }
}
