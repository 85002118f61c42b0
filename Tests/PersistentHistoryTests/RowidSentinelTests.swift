import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A store that was read from its own dump has other rowids; one that was copied in any other way has the same.
@Suite(.timeLimit(.minutes(60))) struct RowidSentinelTests {
    private static let schema = """
        CREATE TABLE plain (a);
        CREATE TABLE keyed (k TEXT PRIMARY KEY, a);
        CREATE TABLE own (id INTEGER PRIMARY KEY, a UNIQUE);
        CREATE TABLE known (k TEXT PRIMARY KEY NOT NULL, a);
        CREATE UNIQUE INDEX by_json ON known (json_extract(a, '$.x')) WHERE json_valid(a);
        CREATE TABLE bare (k TEXT PRIMARY KEY) WITHOUT ROWID;
        """
    private static let rows = ["plain (a)", "keyed (a)", "own (a)", "known (k)", "bare (k)"].map {
        "INSERT INTO \($0) VALUES ('1'), ('2'), ('3');"
    }
    private static let deletes = ["plain", "keyed", "own"].map { "DELETE FROM \($0) WHERE a = '1';" }

    enum Manner: CaseIterable { case dump, dumpOfRowids, vacuum, vacuumInto, backup, clone }

    private func copied(_ path: String, _ manner: Manner, to copy: String) async throws {
        func shell(_ file: String, _ commands: String...) async throws -> String {
            try await Command("sqlite3", ["-bail", file] + commands).succeed()
        }
        switch manner {
        case .dump, .dumpOfRowids:
            let dump = try await shell(path, manner == .dump ? ".dump" : ".dump --preserve-rowids")
            _ = try await Command("sqlite3", ["-bail", copy], input: dump).succeed()
        case .vacuum:
            _ = try await shell(path, "VACUUM", ".backup \(copy)")
        case .vacuumInto: _ = try await shell(path, "VACUUM INTO '\(copy)'")
        case .backup: _ = try await shell(path, ".backup \(copy)")
        case .clone: _ = try await shell(path, ".clone \(copy)")
        }
    }

    @Test("What the dump has renumbered is announced, once, and nothing else", arguments: Manner.allCases)
    func copies(_ manner: Manner) async throws {
        let folder = try TemporaryFolder()
        let (path, copy) = (folder.file("s.sqlite"), folder.file("copy.sqlite"))
        let store = try DatabaseQueue(path: path)
        try await store.write { try $0.execute(sql: Self.schema) }
        try Tracking.track(path, [:], all: true)
        try await store.write { db in
            try db.execute(sql: Self.rows.joined() + Self.deletes.joined() + "DELETE FROM known WHERE k = '1'")
        }
        try store.close()
        try await copied(path, manner, to: copy)

        let isRenumbered = manner == .dump || manner == .clone
        let outcome = try Tracking.refresh(copy)
        #expect(outcome.recreated == (isRenumbered ? ["keyed", "known", "plain"] : []))
        #expect(try Tracking.refresh(copy).isEmpty)

        // The known rows are those of the new rowids.
        let second = try DatabaseQueue(path: copy)
        let newest = try await second.read {
            try Int64.fetchOne($0, sql: "SELECT max(id) FROM historyd_change")
        }
        try await second.write { db in
            try db.execute(
                sql:
                    "UPDATE known SET a = '{\"x\": 1}' WHERE k = '3'; REPLACE INTO known VALUES ('4', '{\"x\": 1}')"
            )
        }
        let reader = try HistoryReader(path: copy)
        let changes: [HistoryChange] = try reader.batch(after: newest ?? 0).transactions.flatMap(\.changes)
        #expect(changes.map { "\($0.operation) \($0.objectID)" }.count == 3)
        #expect(changes.map(\.operation) == [.update, .delete, .insert])
        try reader.close()
    }

    @Test("A store whose tables need none gets none")
    func notNeeded() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let store = try DatabaseQueue(path: path)
        try await store.write { try $0.execute(sql: "CREATE TABLE own (id INTEGER PRIMARY KEY, a UNIQUE)") }
        try Tracking.track(path, ["own": nil])
        let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'historyd_0%'"
        #expect(try await store.read { try Int.fetchOne($0, sql: count) } == 0)
        try await store.write { try $0.execute(sql: "CREATE TABLE plain (a)") }
        try Tracking.track(path, ["plain": nil])
        #expect(try await store.read { try Int.fetchOne($0, sql: count) } == 2)
        try Tracking.untrack(path)
        #expect(try await store.read { try Int.fetchOne($0, sql: count) } == 0)
    }

    @Test(
        "Something else in its place is no table of ours",
        arguments: [
            "CREATE VIEW historyd_0_rowids AS SELECT 1 AS rowid",
            "CREATE TABLE historyd_0_rowids (x PRIMARY KEY) WITHOUT ROWID",
        ])
    func foreign(sql: String) async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let store = try DatabaseQueue(path: path)
        try await store.write { try $0.execute(sql: "CREATE TABLE plain (a)") }
        try Tracking.track(path, ["plain": nil])
        try await store.write { try $0.execute(sql: "DROP TABLE historyd_0_rowids; \(sql)") }
        #expect(throws: HistoryError.self) { try Tracking.refresh(path) }
    }
}
