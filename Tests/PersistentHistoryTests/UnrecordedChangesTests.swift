import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Whoever may have missed changes because triggers were missing is told so, once, in order; whoever cannot have
/// missed any is not.
@Suite(.timeLimit(.minutes(60))) struct UnrecordedChangesTests {
    /// What others do to a store in which `t` and `u` are tracked, and the entities that then may have changed.
    private struct Change: CustomTestStringConvertible {
        let name: String
        let sql: String
        var entities: [String] = ["t"]
        var tracking: [BinaryText: [String]?] = [:]
        var testDescription: String { name }
    }

    private static let rebuild = """
        CREATE TABLE new (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO new SELECT id, n FROM t;
        DROP TABLE t; ALTER TABLE new RENAME TO t;
        """

    private static func drop(_ role: String) -> String {
        "DROP TRIGGER historyd_1_\(role)"
    }

    private static let changes = [
        Change(name: "rebuilt", sql: rebuild),
        Change(
            name: "dropped and made again",
            sql: "DROP TABLE t; CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)"),
        Change(
            name: "both rebuilt",
            sql: rebuild + "CREATE TABLE v AS SELECT * FROM u; DROP TABLE u; ALTER TABLE v RENAME TO u",
            entities: ["t", "u"]),
        Change(name: "dropped", sql: "DROP TABLE t"),
        Change(
            name: "a copy in its place",
            sql:
                "ALTER TABLE t RENAME TO old; CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO t SELECT * FROM old"
        ),
        Change(
            name: "renamed and rebuilt",
            sql:
                "ALTER TABLE t RENAME TO s; CREATE TABLE new (id INTEGER PRIMARY KEY); DROP TABLE s; ALTER TABLE new RENAME TO s"
        ),
        Change(name: "one trigger dropped", sql: drop("rekey")),
        Change(name: "the delete trigger dropped", sql: drop("delete")),
        Change(name: "a unique index", sql: "CREATE UNIQUE INDEX i ON t (n)"),
        Change(
            name: "a trigger that writes before",
            sql: "CREATE TRIGGER b BEFORE INSERT ON t BEGIN DELETE FROM t WHERE n = NEW.n; END"),
        Change(
            name: "a trigger that ends what runs for a row",
            sql:
                "CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT RAISE(IGNORE); END; INSERT INTO t VALUES (7, 7)"
        ),
        Change(
            name: "a trigger that fails where nobody sees it",
            sql: """
                CREATE TABLE log (x UNIQUE); INSERT INTO log VALUES (1);
                CREATE TRIGGER a AFTER UPDATE ON t BEGIN INSERT OR FAIL INTO log VALUES (1); END
                """),
        Change(
            name: "a trigger that writes to a table whose conflicts fail",
            sql: """
                CREATE TABLE log (x UNIQUE ON CONFLICT FAIL);
                CREATE TRIGGER a AFTER INSERT ON t BEGIN INSERT INTO log VALUES (1); END
                """),
        Change(
            name: "a trigger that leads to RAISE(FAIL)",
            sql: """
                CREATE TABLE log (x); CREATE TABLE more (x);
                CREATE TRIGGER c BEFORE INSERT ON more BEGIN SELECT RAISE(FAIL, 'no'); END;
                CREATE TRIGGER b AFTER INSERT ON log BEGIN INSERT INTO more VALUES (1); END;
                CREATE TRIGGER a AFTER DELETE ON t BEGIN INSERT INTO log VALUES (1); END
                """),
        Change(
            name: "rows of a new entity",
            sql: "CREATE TABLE w (id INTEGER PRIMARY KEY); INSERT INTO w VALUES (1)", entities: ["w"],
            tracking: ["w": nil]),
    ]

    @Test("Told, once, in its place among the changes", arguments: changes, [true, false])
    private func told(_ change: Change, isDaemonUp: Bool) async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], contexts: ["Main": [store.replica()]])
        let listener = Listener()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO u VALUES (1, 1)")
        if isDaemonUp { try await store.serve(served, [listener.observer()]) }
        try store.write("A", change.sql)
        let outcome = try Tracking.track(store.path, change.tracking)
        #expect(outcome.recreated == change.entities)
        #expect(try Tracking.track(store.path, change.tracking).isEmpty)
        if !change.entities.contains("u") { try store.write("A", "INSERT INTO u VALUES (2, 2)") }
        for _ in 0..<2 { try await store.serve(served, [listener.observer()]) }
        #expect(
            listener.all() == [
                "insert t 1", "insert u 1", "recreated 2 > 3 \(change.entities.joined(separator: " "))",
            ]
                + (change.entities.contains("u") ? [] : ["insert u 2"]))
        let tables = try GatekeeperStore.read(store.path) {
            try String.fetchAll($0, sql: "SELECT name FROM historyd_entity WHERE tracked ORDER BY 1")
        }
        #expect(try store.rows(of: store.replica().path, tables) == store.rows(tables))
    }

    @Test(
        "Not told where nothing can have been missed",
        arguments: [
            "ALTER TABLE t ADD COLUMN a", "ALTER TABLE t RENAME COLUMN n TO m", "ALTER TABLE t RENAME TO s",
            "CREATE INDEX i ON t (n)", "CREATE TABLE w (id INTEGER PRIMARY KEY)",
            "DROP TABLE historyd_conflict",
            "CREATE TRIGGER a AFTER INSERT ON t BEGIN UPDATE u SET n = 1; END",
            "CREATE TRIGGER a AFTER INSERT ON t WHEN NEW.n < 0 BEGIN SELECT RAISE(ABORT, 'no'); END",
            "CREATE TRIGGER a BEFORE INSERT ON t WHEN NEW.n < 0 BEGIN SELECT RAISE(IGNORE); END",
            """
            CREATE TRIGGER b AFTER INSERT ON u BEGIN SELECT RAISE(IGNORE); END;
            DROP TRIGGER b; CREATE TRIGGER a AFTER INSERT ON t BEGIN SELECT 'RAISE(IGNORE)'; END
            """,
            "ALTER TABLE t RENAME COLUMN n TO m; ALTER TABLE t RENAME TO s; ALTER TABLE s ADD COLUMN a",
        ])
    func notTold(_ sql: String) async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try store.write("A", sql)
        let outcome = try Tracking.track(store.path, sql.contains("TABLE w") ? ["w": nil] : [:])
        #expect(outcome.recreated == [])
        let listener = Listener()
        try await store.serve(store.served(["Main"]), [listener.observer()])
        #expect(listener.all() == ["insert t 1"])
    }

    @Test("Told where a column takes the name by which rows are known")
    func rowidTaken() throws {
        let store = try GatekeeperStore("CREATE TABLE t (n); CREATE TABLE u (n)")
        try store.write("A", "ALTER TABLE t ADD COLUMN _rowid_; ALTER TABLE u ADD COLUMN rowid")
        #expect(try Tracking.refresh(store.path).recreated == ["t"])
    }

    @Test(
        "Not told where the schema and the triggers change in one transaction, as SQLite's own procedure has it"
    )
    func twelveSteps() async throws {
        let store = try GatekeeperStore()
        let triggers = try GatekeeperStore.read(store.path) { db in
            try String.fetchAll(
                db, sql: "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 't'")
        }
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try store.write("A", Self.rebuild + triggers.map { $0 + ";" }.joined())
        try store.write("A", "INSERT INTO t VALUES (2, 2)")
        #expect(try Tracking.refresh(store.path).recreated == [])
        let listener = Listener()
        try await store.serve(store.served(["Main"]), [listener.observer()])
        #expect(listener.all() == ["insert t 1", "insert t 2"])
    }

    @Test("A hook for one entity is told of that one; a consumer waits for a hook that cannot take it")
    func concerned() async throws {
        let store = try GatekeeperStore()
        try store.write("A", Self.rebuild)
        try Tracking.refresh(store.path)
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        func hook(_ listener: Listener, _ entity: String, attempts: Int = 1) -> Hook {
            Hook(
                id: UUID(), name: "p/\(entity)", kind: .observer, entity: entity, endpoint: listener,
                policy: FailurePolicy(
                    attempts: attempts, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                    afterLastAttempt: .hold))
        }
        let other = Listener()
        let deaf = Listener { line, attempt in line.hasPrefix("recreated") && attempt < 3 }
        try await store.serveUntilHeld(store.served(["Main"]), [hook(other, "u"), hook(deaf, "t")])
        #expect(deaf.all() == ["recreated 0 > 1 t"])
        #expect(try store.cursor("Main") == 0)
        try await store.serve(store.served(["Main"]), [hook(other, "u"), hook(deaf, "t", attempts: 9)])
        #expect(deaf.all() == ["recreated 0 > 1 t", "recreated 0 > 1 t", "recreated 0 > 1 t", "insert t 1"])
        #expect(other.all() == [])
    }

    @Test("Delivered whoever's changes are, and cleaned like any change that everybody has had")
    func rules() async throws {
        let store = try GatekeeperStore()
        try store.write(nil, Self.rebuild)
        try Tracking.refresh(store.path)
        let rule = DeliveryRule(authors: ["Main"], deliversUnlisted: false)
        let listener = Listener()
        let served = store.served(["Main"], rule: rule)
        try await store.serve(served, [listener.observer()])
        #expect(listener.all() == ["recreated 0 > 1 t"])
        try store.write("Main", "INSERT INTO t VALUES (9, 9)")
        try await store.serve(served, [listener.observer()])
        _ = try await ManualCleaning(served, stateFolder: store.folder.path).clean()
        #expect(
            try GatekeeperStore.read(store.path) { try Int.fetchAll($0, sql: "SELECT id FROM historyd_change") }
                == [2])
    }

    @Test("A feed has it among its transactions, acknowledged like them")
    func feed() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], feeds: ["Main": [FeedContext(name: "live", entities: ["t"])]])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        try store.write("A", Self.rebuild)
        try Tracking.refresh(store.path)
        try store.write("A", "INSERT INTO t VALUES (2, 2)")
        try await store.serve(served)
        let program = FeedReader(FeedID(consumer: "Main", context: "live"))
        try await program.connect(served, store.folder.path, most: .max) { _ in true }
        #expect(program.had == [1, 3])
        #expect(program.lost == [2])
        #expect(program.expiries == 1)
        try await program.connect(served, store.folder.path, most: .max) { _ in true }
        #expect(program.expiries == 1)
    }

    @Test("Read as a transaction of its own, forwards and backwards, by its entities and its time")
    func read() throws {
        let store = try GatekeeperStore()
        try store.write(nil, "INSERT INTO t VALUES (1, 1)")
        try store.write(nil, Self.rebuild)
        try Tracking.refresh(store.path)
        try store.write(nil, "INSERT INTO t VALUES (2, 2)")
        let reader = try HistoryReader(path: store.path)
        let batches = try [0, 1, 2].map { try reader.batch(after: $0) }
        #expect(batches.map(\.end) == [1, 2, 3])
        #expect(batches.map(\.isLast) == [false, false, true])
        #expect(batches.map { $0.transactions.map(\.recreated) } == [[[]], [["t"]], [[]]])
        #expect(
            try reader.reversedBatch(before: nil).transactions.map {
                $0.recreated.isEmpty ? $0.changes.count : 0
            }
                == [1, 0, 1])
        #expect(try reader.batch(after: 1, through: 1).transactions == [])
        var filter = HistoryFilter()
        filter.entities = ["u"]
        #expect(try reader.batch(after: 1, filter: filter).transactions == [])
        try reader.close()
        for detail in ["'x'", "'[]'", "'{}'", "'[1]'"] {
            try store.write(nil, "UPDATE historyd_change SET detail = \(detail) WHERE id = 2")
            let reader = try HistoryReader(path: store.path)
            #expect(throws: HistoryError.self) { try reader.batch(after: 1) }
            try reader.close()
        }
    }
}
