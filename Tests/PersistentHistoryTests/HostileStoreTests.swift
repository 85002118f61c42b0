import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What a store holds that its writer has put there in place of what tracking wrote: the store is refused, with
/// an error that says what is wrong, and the process goes on.
@Suite(.timeLimit(.minutes(60))) struct HostileStoreTests {
    /// SQL that its writer runs, each with the word of the error that tells what is wrong.
    static let attacks: [(sql: String, says: String)] = [
        // The store's id, which becomes a file name.
        ("UPDATE historyd_store SET value = '../../victim' WHERE key = 'id'", "id"),
        ("UPDATE historyd_store SET value = '/etc/passwd' WHERE key = 'id'", "id"),
        ("UPDATE historyd_store SET value = '' WHERE key = 'id'", "id"),
        ("UPDATE historyd_store SET value = value || char(10) WHERE key = 'id'", "id"),
        ("UPDATE historyd_store SET value = CAST(value AS BLOB) WHERE key = 'id'", "id"),
        ("UPDATE historyd_store SET value = 7 WHERE key = 'id'", "id"),
        ("UPDATE historyd_store SET value = hex(zeroblob(500000)) WHERE key = 'id'", "id"),
        // Numbers.
        ("UPDATE historyd_store SET value = 'x' WHERE key = 'floor'", "deleted"),
        ("UPDATE historyd_store SET value = -1 WHERE key = 'floor'", "deleted"),
        ("UPDATE historyd_store SET value = 9223372036854775807 WHERE key = 'floor'", "deleted"),
        ("UPDATE historyd_store SET value = 1.5 WHERE key = 'floor'", "deleted"),
        ("UPDATE historyd_store SET value = 'x' WHERE key = 'format'", "format"),
        ("UPDATE historyd_store SET value = NULL WHERE key = 'format'", "format"),
        ("UPDATE historyd_store SET value = -1 WHERE key = 'format'", "format"),
        ("INSERT INTO historyd_change VALUES (9223372036854775807, 1, 4, 1, NULL)", "newest"),
        (
            "DELETE FROM historyd_change; INSERT INTO historyd_change VALUES (-9223372036854775808, 1, 4, 1, NULL)",
            "newest"
        ),
        // Entities.
        ("UPDATE historyd_entity SET shape = 9223372036854775807 WHERE shape = 1", "shape"),
        ("UPDATE historyd_entity SET shape = 0 WHERE shape = 1", "shape"),
        ("UPDATE historyd_entity SET tracked = 'yes'", "tracked"),
        ("UPDATE historyd_entity SET tracked = x'01'", "tracked"),
        ("UPDATE historyd_entity SET name = x'ff'", "name"),
        ("UPDATE historyd_entity SET definition = x'ff'", "definition"),
        ("UPDATE historyd_entity SET definition = '['", "description"),
        ("UPDATE historyd_entity SET definition = replace(hex(zeroblob(60000)), '00', '[')", "description"),
        ("UPDATE historyd_entity SET definition = json_set(definition, '$.key', json('[]'))", "key"),
        ("UPDATE historyd_entity SET definition = json_set(definition, '$.key', json('[\"no\"]'))", "key"),
        (
            "UPDATE historyd_entity SET definition = json_set(definition, '$.preserve', json('[\"no\"]'))",
            "preserves"
        ),
        (
            "UPDATE historyd_entity SET definition = json_set(definition, '$.plainTombstone', json('true'))",
            "tombstone"
        ),
        ("UPDATE historyd_entity SET definition = json_set(definition, '$.columns', 7)", "description"),
        // Changes.
        ("UPDATE historyd_change SET kind = 9223372036854775804", "shape"),
        ("UPDATE historyd_change SET kind = 'x'", "shape"),
        // Tables.
        (
            """
            DROP TABLE historyd_change; CREATE VIEW historyd_change AS WITH RECURSIVE n(id) AS
                (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 1 AS origin, 4 AS kind, id AS object, NULL AS detail FROM n
            """, "view"
        ),
        (
            "DROP TABLE historyd_change; CREATE TABLE historyd_change (id INTEGER PRIMARY KEY, origin, kind, object, detail, more)",
            "definition"
        ),
        (
            "DROP TABLE historyd_change; CREATE VIRTUAL TABLE historyd_change USING fts5(origin, kind, object, detail)",
            "definition"
        ),
        ("DROP TABLE historyd_entity; CREATE VIEW historyd_entity AS SELECT 1 AS shape", "view"),
        (
            """
            CREATE TRIGGER slow BEFORE DELETE ON historyd_change BEGIN
                SELECT count(*) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n); END
            """, "trigger"
        ),
        ("CREATE TRIGGER \"a\nb\" AFTER UPDATE ON historyd_store BEGIN SELECT 1; END", "trigger"),
    ]

    private static func attacked(_ sql: String) throws -> GatekeeperStore {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (2, 2)", "DELETE FROM t")
        let queue = try DatabaseQueue(path: store.path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: sql) }
        try queue.close()
        return store
    }

    @Test(
        "A shape that somebody numbers after a plan was made ends the tracking, and not the process",
        arguments: [1 << 60, 1 << 61, 1 << 62, Int64.max])
    func shapeAfterThePlan(shape: Int64) throws {
        let store = try GatekeeperStore()
        try store.write(nil, "CREATE TABLE added (id INTEGER PRIMARY KEY)")
        let queue = try DatabaseQueue(path: store.path)
        #expect(throws: UnexpectedValue.self) {
            try queue.write { db in
                let plan = try TrackingPlan(db, entities: ["added": nil], all: false)
                try db.execute(
                    sql: "INSERT INTO historyd_entity VALUES (?, 'x', x'd2', 0)", arguments: [shape])
                _ = try plan.carryOut(db)
            }
        }
        try queue.close()
    }

    @Test("A store with one wrong value is refused, and told why", arguments: attacks.indices)
    func isRefused(_ index: Int) async throws {
        let (sql, says) = Self.attacks[index]
        let store = try Self.attacked(sql)
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        do {
            try await store.runner(served, [Listener().observer()], EventLog(), stop: OneShotEvent()).runOnce()
            Issue.record("\(sql): the store was served")
        } catch let error as HistoryError {
            #expect(error.code == .storeCorrupt, "\(sql): \(error)")
            #expect(error.message.contains(says), "\(sql): \(error)")
            #expect(error.description.count < 1000 && !error.description.contains("\n"), "\(error)")
        }
        // Nothing was made beside what is ours.
        let names = try FileManager.default.contentsOfDirectory(atPath: store.folder.path)
        let ours = { (name: String) in
            ["s.sqlite", "view.sqlite"].contains { name.hasPrefix($0) }
                || StoreID(String(name.prefix(36))) != nil
        }
        #expect(names.allSatisfy(ours), "\(names)")
    }

    @Test(
        "What a writer may say of a change in its own words is read, and harms nobody",
        arguments: [
            "UPDATE historyd_change SET origin = -9223372036854775808",
            "UPDATE historyd_change SET origin = 9223372036854775807",
            "UPDATE historyd_change SET origin = x'00ff'",
            "UPDATE historyd_change SET origin = 1e300",
            "UPDATE historyd_change SET origin = 'k' || char(9) || '1' || char(9) || '999999999999999999' || char(9) || 'A'",
            "UPDATE historyd_change SET origin = 'k' || char(9) || '1' || char(9) || '1' || char(9) || hex(zeroblob(100000))",
            "UPDATE historyd_change SET object = x'ff', detail = x'ff'",
            "UPDATE historyd_change SET object = NULL",
            "UPDATE historyd_change SET kind = NULL WHERE id = 1; UPDATE historyd_change SET kind = 3 WHERE kind IS NULL",
            "UPDATE historyd_store SET value = 1.5 WHERE key = 'cleaned'",
        ])
    func isRead(_ sql: String) async throws {
        let store = try Self.attacked(sql)
        let events = EventLog()
        let served = store.served(["Mirror"], contexts: ["Mirror": [store.replica()]])
        try await store.runner(served, [Listener().observer()], events, stop: OneShotEvent()).runOnce()
        _ = try StoreDescription(path: store.path)
        let reader = try HistoryReader(path: store.path)
        for transaction in try reader.batch(after: 0).transactions {
            #expect(HistoryTimestamp.range.contains(transaction.timestamp.milliseconds))
            #expect((transaction.author?.utf8.count ?? 0) < 1024)
            #expect(!transaction.timestamp.description.isEmpty)
        }
        try reader.close()
        _ = try await ManualCleaning(served, stateFolder: store.folder.path).clean(force: true)
    }

    @Test(
        "How far was cleaned is looked at before it is believed",
        arguments: [
            "'x'", "x'ff'", "-1", "1e300", "9223372036854775807",
        ])
    func cleanedIsChecked(_ value: String) async throws {
        let store = try Self.attacked("SELECT 1")
        let served = store.served(["Mirror"])
        try await store.serve(served)
        let cleaner = HistoryCleaner(path: store.path, rule: served.rule)
        _ = try await cleaner.clean(through: 1)
        try store.write(nil, "UPDATE historyd_store SET value = \(value) WHERE key = 'cleaned'")
        await #expect(throws: HistoryError.self) { _ = try await cleaner.clean(through: 2) }
    }

    @Test("A change in the schema is looked at before the next read: a view in a table's place is not read")
    func isCheckedAgain() throws {
        let store = try Self.attacked("SELECT 1")
        let reader = try HistoryReader(path: store.path)
        #expect(try reader.batch(after: 0).transactions.count == 3)
        try store.write(
            nil,
            """
            DROP TABLE historyd_change; CREATE VIEW historyd_change AS WITH RECURSIVE n(id) AS
            (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 1 AS origin, 4 AS kind, id AS object, NULL AS detail FROM n
            """)
        #expect { _ = try reader.newestToken() } throws: { ($0 as? HistoryError)?.code == .storeCorrupt }
        #expect { _ = try reader.batch(after: 3) } throws: { ($0 as? HistoryError)?.code == .storeCorrupt }
        try reader.close()
    }
}

/// Whatever a writer has put into the history's tables, untracking takes it away.
@Suite struct HostileUntrackingTests {
    @Test(
        "A store that is refused can be untracked, and tracked again",
        arguments: HostileStoreTests.attacks.indices)
    func untracks(_ index: Int) throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (2, 2)", "DELETE FROM t")
        let queue = try DatabaseQueue(path: store.path)
        try queue.writeWithoutTransaction { db in try db.execute(sql: HostileStoreTests.attacks[index].sql) }
        try queue.close()
        #expect(try Tracking.untrack(store.path) == ["t", "u"])
        let left = try GatekeeperStore.read(store.path) {
            try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema ORDER BY name")
        }
        #expect(left == ["t", "u"])
        #expect(try Tracking.track(store.path, ["t": nil]).added == ["t"])
    }
}
