import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Replicas of stores whose schemas say more than a schema may, and replicas that somebody else has written.
@Suite(.timeLimit(.minutes(60))) struct HostileReplicaTests {
    /// Makes a store say something else in `sqlite_schema`.
    private static func rewrite(_ path: String, _ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA writable_schema = ON; \(sql); PRAGMA writable_schema = OFF")
        }
        try queue.close()
    }

    @Test(
        "SQL behind a table's or an index's definition is not run", arguments: ["table", "index"])
    func noSecondStatement(_ type: String) async throws {
        let store = try GatekeeperStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE u (id INTEGER PRIMARY KEY, n INTEGER); CREATE INDEX t_n ON t (n)"
        )
        let victim = store.folder.file("victim.sqlite")
        try await DatabaseQueue(path: victim).writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE secret (text); INSERT INTO secret VALUES ('rosebud')")
        }
        try store.write("A", "INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (2, 2)")
        let made = store.folder.file("made.sqlite")
        let name = type == "table" ? "t" : "t_n"
        try Self.rewrite(
            store.path,
            """
            UPDATE sqlite_schema SET sql = sql || '; ATTACH ''\(victim)'' AS v; CREATE TABLE leak AS SELECT * FROM v.secret; UPDATE v.secret SET text = ''gone''; ATTACH ''\(made)'' AS m; CREATE TABLE m.x (y)'
            WHERE name = '\(name)'
            """)
        let context = store.replica()
        let events = try await store.serve(store.served(["Mirror"], contexts: ["Mirror": [context]]))
        #expect(events.count(type == "table" ? "replicaTableLeftOut" : "replicaIndexLeftOut") == 1)
        #expect(!FileManager.default.fileExists(atPath: made))
        #expect(
            try GatekeeperStore.read(victim) { try String.fetchAll($0, sql: "SELECT text FROM secret") } == [
                "rosebud"
            ])
        let tables = try GatekeeperStore.read(context.path) {
            try String.fetchSet($0, sql: "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'historyd%'")
        }
        #expect(tables == (type == "table" ? ["u"] : ["t", "u"]))
        #expect(try store.rows(of: context.path, ["u"]) == store.rows(["u"]))
    }

    @Test(
        "A text that is not the one definition that it should be makes nothing",
        arguments: [
            "CREATE TABLE t AS SELECT 1 AS id, 2 AS n", "CREATE TEMP TABLE t (id INTEGER PRIMARY KEY, n)",
            "CREATE TABLE other (id INTEGER PRIMARY KEY, n)", "CREATE TABLE temp.t (id INTEGER PRIMARY KEY, n)",
            "CREATE VIRTUAL TABLE t USING fts5(n)", "CREATE VIEW t AS SELECT 1 AS id", "ATTACH 'x' AS t",
            "PRAGMA journal_mode = DELETE", "SELECT 1", "", "-- nothing", "DROP TABLE historyd_replica",
            "CREATE TABLE t (id, n); -- more\nDROP TABLE t",
            "CREATE TABLE t (id, n CHECK (load_extension('x')))",
            "CREATE TABLE t (id, n AS (sqlite_compileoption_get(1)))", "CREATE TABLE t (id, n",
            "CREATE TABLE t (id, n);\0 DROP TABLE t", "CREATE TRIGGER t AFTER INSERT ON u BEGIN SELECT 1; END",
        ])
    func refused(_ sql: String) throws {
        let check = try ReplicaSchemaCheck()
        #expect(throws: ReplicaSchemaCheck.Refusal.self) { try check.checkTable("t", sql) }
        try check.close()
    }

    @Test(
        "All that SQLite has of tables passes",
        arguments: [
            "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, n TEXT COLLATE NOCASE UNIQUE)",
            "CREATE TABLE \"t\" (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID, STRICT".replacing(
                "a, b, PRIMARY", with: "a INT, b TEXT, PRIMARY"),
            "CREATE TABLE t(a, b AS (upper(a) || json_extract(a, '$.x')) STORED, c AS (a ->> 'x'), CHECK (a LIKE 'x%' AND a GLOB '*'))",
            "CREATE TABLE t (a DEFAULT (datetime('now')), b DEFAULT CURRENT_TIMESTAMP, c REFERENCES u (x) ON DELETE CASCADE); ",
            "CREATE TABLE [t] (a -- a comment; with a semicolon\n, b /* another */)",
        ])
    func passes(_ sql: String) throws {
        let check = try ReplicaSchemaCheck()
        try check.checkTable("t", sql)
        try check.close()
    }

    @Test(
        "A table with a collation or a function of the application's own is left out, by name; the others are kept"
    )
    func leavesOutTables() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            db.add(collation: DatabaseCollation("custom") { $0.compare($1) })
            db.add(function: DatabaseFunction("secret", argumentCount: 1, pure: true) { $0[0] })
        }
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try await queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA journal_mode = WAL;
                    CREATE TABLE plain (id INTEGER PRIMARY KEY, n);
                    CREATE TABLE collated (id INTEGER PRIMARY KEY, n TEXT COLLATE custom);
                    CREATE TABLE computed (id INTEGER PRIMARY KEY, n, m AS (secret(n)));
                    """)
            for (name, columns) in [("wide", 1996), ("wider", 1997), ("widest", 2000)] {
                let list = (1..<columns).map { "c\($0)" }.joined(separator: ", ")
                try db.execute(sql: "CREATE TABLE \(name) (id INTEGER PRIMARY KEY, \(list))")
            }
        }
        try Tracking.track(
            path, ["plain": nil, "collated": nil, "computed": nil, "wide": nil, "wider": nil, "widest": nil])
        try await queue.write { db in
            for table in ["plain", "collated", "computed", "wide", "wider", "widest"] {
                try db.execute(sql: "INSERT INTO \(table) (id) VALUES (1), (2)")
            }
        }
        let context = ReplicaContext(name: "view", path: folder.file("view.sqlite"), entities: nil)
        let events = EventLog()
        let replica = Replica(context, storePath: path)
        _ = try replica.openFile(isKnown: false)
        let leftOut = try replica.fill()
        #expect(leftOut.map(\.name) == ["collated", "computed", "wider", "widest"])
        #expect(leftOut.allSatisfy { $0.kind == .table })
        #expect(leftOut[0].reason.contains("custom") && leftOut[1].reason.contains("secret"), "\(leftOut)")
        #expect(leftOut[2].reason.contains("1997") && leftOut[3].reason.contains("2000"), "\(leftOut)")
        for table in ["plain", "wide"] {
            let count = try GatekeeperStore.read(context.path) {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM \(table)")
            }
            #expect(count == 2)
        }
        replica.close()
        replica.snapshots.close()
        // It goes on with what it has, and says it once; a table that has become an ordinary one comes in.
        let rule = DeliveryRule(authors: ["Mirror"])
        var served = ServedStore(
            name: "s", path: path, entities: nil, rule: rule,
            consumers: [Consumer(store: "s", author: "Mirror", rule: rule, contexts: [context])])
        // The test writes in this process, too.
        served.isUsedInProcess = true
        let configured = served
        func serve() async throws {
            try await StoreRunner(
                configured, hooks: HookRegistry([]), stateFolder: folder.path, reporter: events,
                stop: OneShotEvent()
            ).runOnce()
        }
        try await queue.write { db in
            try db.execute(sql: "INSERT INTO plain (id) VALUES (3); UPDATE collated SET n = 'x'")
        }
        try await serve()
        #expect(events.count("replicaTableLeftOut") == 0)
        try await queue.write { db in
            try db.execute(
                sql: """
                    DROP TABLE computed;
                    CREATE TABLE computed (id INTEGER PRIMARY KEY, n);
                    INSERT INTO computed (id) VALUES (1), (2), (3);
                    """)
        }
        try queue.close()
        try await serve()
        for table in ["plain", "computed"] {
            let count = try GatekeeperStore.read(context.path) {
                try Int.fetchOne($0, sql: "SELECT count(*) FROM \(table)")
            }
            #expect(count == 3, "\(table)")
        }
        #expect(events.count("replicaTableLeftOut") == 0)
    }

    @Test(
        "A replica that somebody else has written to is damaged, and made again",
        arguments: [
            "UPDATE historyd_replica SET store = x'ff'", "UPDATE historyd_replica SET store = '../../victim'",
            "UPDATE historyd_replica SET number = 'x'", "UPDATE historyd_replica SET taken = -1",
            "UPDATE historyd_replica SET number = taken + 1",
            "UPDATE historyd_replica SET taken = 9223372036854775807",
            "UPDATE historyd_object SET sql = x'ff'",
            "UPDATE historyd_object SET name = 'historyd_replica' WHERE name = 'u'",
            "UPDATE historyd_object SET name = 'sqlite_schema' WHERE name = 't'",
            "DROP TABLE historyd_object; CREATE VIEW historyd_object AS SELECT 1 AS name",
            "DROP TABLE historyd_replica; CREATE TABLE historyd_replica (store, number)",
            """
            DROP TABLE historyd_pending_run; CREATE VIEW historyd_pending_run AS WITH RECURSIVE n(first) AS
                (SELECT 1 UNION ALL SELECT first + 1 FROM n) SELECT 't' AS entity, 1 AS place, first, first AS last FROM n
            """,
            "UPDATE historyd_replica SET number = 0; INSERT INTO historyd_pending_run VALUES ('t', 1, 5, 1)",
            "UPDATE historyd_replica SET number = 0; INSERT INTO historyd_pending_run VALUES ('t', 1, 'x', x'ff')",
        ])
    func craftedReplica(_ sql: String) async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (2, 2)")
        let context = store.replica()
        let served = store.served(["Mirror"], contexts: ["Mirror": [context]])
        try await store.serve(served)
        try Self.rewrite(context.path, sql)
        try store.write("A", "INSERT INTO t VALUES (2, 2)")
        let events = try await store.serve(served)
        #expect(events.count("replicaMovedAside") == 1, "\(events.names())")
        #expect(try store.rows(of: context.path) == store.rows())
    }

    @Test("A trigger in a replica does not run, and what it notes of unknown kinds of keys is passed over")
    func triggersInReplicas() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1); INSERT INTO u VALUES (2, 2)")
        let context = store.replica()
        let served = store.served(["Mirror"], contexts: ["Mirror": [context]])
        try await store.serve(served)
        try Self.rewrite(
            context.path,
            """
            CREATE TABLE log (x); CREATE TRIGGER noisy AFTER INSERT ON t BEGIN INSERT INTO log VALUES (NEW.id); END;
            INSERT INTO historyd_pending_object VALUES ('t', 1, x'ff'), ('t', 1, 'nonsense'), ('nothing', 1, 'p1');
            UPDATE historyd_replica SET number = 0
            """)
        try store.write("A", "INSERT INTO t VALUES (2, 2)")
        try await store.serve(served)
        #expect(try store.rows(of: context.path) == store.rows())
        #expect(
            try GatekeeperStore.read(context.path) { try Int.fetchOne($0, sql: "SELECT count(*) FROM log") }
                == 0)
    }

    @Test("Nothing is made through a link at a replica's path", arguments: [true, false])
    func linkAtTheReplicasPath(_ isDangling: Bool) async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let elsewhere = store.folder.file("elsewhere.sqlite")
        if !isDangling {
            try await DatabaseQueue(path: elsewhere).write { db in
                try db.execute(sql: "CREATE TABLE historyd_replica (x)")
            }
        }
        let context = store.replica()
        #expect(symlink(elsewhere, context.path) == 0)
        let replica = Replica(context, storePath: store.path)
        defer { replica.snapshots.close() }
        #expect { try replica.prepare() } throws: {
            ($0 as? HistoryError)?.code == .replicaUnwritable && "\($0)".contains("symbolic link")
        }
        #expect(FileManager.default.fileExists(atPath: elsewhere) == !isDangling)
        // Nor where it comes between the look and the opening.
        #expect(throws: DatabaseError.self) {
            _ = try DatabaseQueue(path: PlainFile.uri(context.path, mayMake: true))
        }
        #expect(FileManager.default.fileExists(atPath: elsewhere) == !isDangling)
    }

    @Test("A link of somebody else's to a foreign file is no way to a store", .enabled(if: geteuid() == 0))
    func linkAtTheStoresPath() throws {
        let store = try GatekeeperStore()
        let link = store.folder.file("link.sqlite")
        #expect(symlink(store.path, link) == 0)
        // Root's own link, or one of the file's owner.
        #expect(try StoreConnection.open(link, .read).path.contains("s.sqlite"))
        #expect(lchown(link, 1234, 1234) == 0)
        #expect { _ = try StoreConnection.open(link, .read) } throws: {
            ($0 as? HistoryError)?.code == .storeUnreadable && "\($0)".contains("1234")
        }
        #expect { _ = try Tracking.track(link, ["t": nil]) } throws: {
            ($0 as? HistoryError)?.code == .storeUnreadable
        }
        #expect(chown(store.path, 1234, 1234) == 0)
        #expect(try StoreConnection.open(link, .read).path.contains("s.sqlite"))
        // A folder on the way that is a link.
        let folder = store.folder.file("folder")
        #expect(symlink(store.folder.path, folder) == 0 && lchown(folder, 4321, 4321) == 0)
        #expect(throws: HistoryError.self) { _ = try StoreConnection.open(folder + "/s.sqlite", .read) }
    }

    @Test(
        "A FIFO in a journal's or in the shared memory's place keeps nobody waiting",
        arguments: ["-journal", "-shm", "-wal"])
    func fifo(_ suffix: String) throws {
        let store = try GatekeeperStore(
            pragmas: suffix == "-journal" ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL")
        #expect(mkfifo(store.path + suffix, 0o600) == 0)
        #expect(throws: HistoryError.self) { _ = try HistoryReader(path: store.path, timeout: .zero) }
        let probe = try WriterProbe(storePath: store.path)
        _ = try? probe.isWriterActive()
        try probe.close()
    }
}
