import Foundation
import PersistentHistory
import TestSupport
import Testing

/// Replicas equal their stores, whatever tables look like and whatever is done to them.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ReplicaTests {
    private static let schema = """
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, age INTEGER);
        CREATE TABLE word (word TEXT PRIMARY KEY, n REAL);
        CREATE TABLE pair (a INTEGER, b TEXT, v BLOB, PRIMARY KEY (b, a));
        CREATE TABLE flat (a INTEGER, b TEXT COLLATE NOCASE, v, PRIMARY KEY (a, b)) WITHOUT ROWID;
        CREATE TABLE keyless (x, y);
        CREATE TABLE "odd ""name" (id INTEGER PRIMARY KEY, "the value" TEXT, "order" INT);
        CREATE TABLE strict (id INTEGER PRIMARY KEY, i INT, t TEXT, r REAL, b BLOB, a ANY) STRICT;
        CREATE TABLE made (id INTEGER PRIMARY KEY, w INT, h INT, area INT GENERATED ALWAYS AS (w * h) STORED, half AS (w / 2));
        CREATE UNIQUE INDEX made_wh ON made (w, h);
        """

    private static let tables = [
        "person": "id", "word": "word", "pair": "a, b", "flat": "a, b", "keyless": "rowid",
        #""odd ""name""#: "id", "strict": "id", "made": "id",
    ]

    private static let entities =
        #"{"person": {}, "word": {}, "pair": {}, "flat": {}, "keyless": {}, "odd \"name": {}, "strict": {}, "made": {}}"#

    /// Random statements on all tables; whether they work does not matter.
    private static func writer(seed: UInt64, author: String?) -> String {
        """
        dice = random.Random(\(seed))
        connection = connect(store, \(author.map { "'\($0)'" } ?? "None"))
        def key(): return dice.randrange(12)
        def value(): return dice.choice([None, 1, 2.5, -0.0, 'x', 'é\\0ü', b'\\x00\\xff', 2**60, '', 'X'])
        statements = [
            lambda: ('INSERT OR REPLACE INTO person VALUES (?, ?, ?, ?)', (key(), value(), dice.choice('abcdef'), 1)),
            lambda: ('UPDATE OR REPLACE person SET email = ?, age = age + 1 WHERE id = ?', (dice.choice('abcdef'), key())),
            lambda: ('UPDATE person SET id = ? WHERE id = ?', (key(), key())),
            lambda: ('DELETE FROM person WHERE id > ?', (key(),)),
            lambda: ('INSERT INTO word VALUES (?, ?) ON CONFLICT DO UPDATE SET n = n + 1', (dice.choice(['a', 'b', 'C', '', None]), value())),
            lambda: ('DELETE FROM word WHERE word = ?', (dice.choice('abC'),)),
            lambda: ('INSERT OR REPLACE INTO pair VALUES (?, ?, ?)', (dice.choice([None, 1, 2]), dice.choice(['x', 'y', None]), value())),
            lambda: ('UPDATE OR IGNORE pair SET b = ?, v = ? WHERE a = ?', (dice.choice('xyz'), value(), 1)),
            lambda: ('DELETE FROM pair WHERE b = ?', (dice.choice('xyz'),)),
            lambda: ('INSERT OR REPLACE INTO flat VALUES (?, ?, ?)', (key() % 3, dice.choice('aAb'), value())),
            lambda: ('UPDATE OR REPLACE flat SET a = a + 1, v = ? WHERE a = ?', (value(), key() % 3)),
            lambda: ('DELETE FROM flat WHERE b = ?', ('a',)),
            lambda: ('INSERT INTO keyless VALUES (?, ?)', (value(), value())),
            lambda: ('UPDATE keyless SET y = ? WHERE rowid % 4 = ?', (value(), key() % 4)),
            lambda: ('DELETE FROM keyless WHERE rowid % 5 = ?', (key() % 5,)),
            lambda: ('INSERT OR REPLACE INTO "odd ""name" VALUES (?, ?, ?)', (key(), value(), key())),
            lambda: ('UPDATE "odd ""name" SET "the value" = ? WHERE "order" = ?', (value(), key())),
            lambda: ('INSERT OR REPLACE INTO strict VALUES (?, 1, ?, 1.5, ?, ?)', (key(), 'x', b'y', value())),
            lambda: ('UPDATE strict SET a = ? WHERE id = ?', (value(), key())),
            lambda: ('INSERT OR REPLACE INTO made (id, w, h) VALUES (?, ?, ?)', (key(), key() % 4, key() % 4)),
            lambda: ('UPDATE OR REPLACE made SET w = ? WHERE id = ?', (key() % 4, key())),
        ]
        for _ in range(220):
            connection.execute('BEGIN IMMEDIATE')
            for _ in range(dice.randrange(1, 6)):
                try: connection.execute(*dice.choice(statements)())
                except sqlite3.IntegrityError: pass
            connection.execute('COMMIT' if dice.randrange(9) else 'ROLLBACK')
        """
    }

    @Test(
        "Random writes to every kind of table",
        arguments: [(1, Journal.wal), (2, .wal), (3, .delete)] as [(UInt64, Journal)])
    func random(_ number: UInt64, _ journal: Journal) async throws {
        try await withWorkbench(journal, schema: Self.schema) { bench in
            try bench.configure(
                StoreSetup(entities: Self.entities, authors: StoreSetup.mirrored()), plugins: [])
            try await bench.sql(
                "INSERT INTO keyless VALUES (1, 2); INSERT INTO person VALUES (100, 'before', 'tracking', 0)")
            let daemon = try await bench.startDaemon()
            let writers = [
                try await bench.startPython(Self.writer(seed: number, author: "Widget")),
                try await bench.startPython(Self.writer(seed: number + 50, author: nil)),
            ]
            for writer in writers { try await writer.succeed() }
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            print("replica, seed \(number)")
            try await bench.expectReplicaEqualsStore(Self.tables)
        }
    }

    @Test("Values of a unique column change places in one transaction")
    func swap() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id, email) VALUES (1, 'a'), (2, 'b'), (3, 'c')", as: "Widget")
            try await bench.waitForReplica(daemon)
            try await bench.write(
                """
                UPDATE person SET email = 'x' WHERE id = 1; UPDATE person SET email = 'a' WHERE id = 2;
                UPDATE person SET email = 'b' WHERE id = 3; UPDATE person SET email = 'c' WHERE id = 1
                """, as: "Widget")
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            #expect(
                try await bench.sql(
                    "SELECT id || email FROM person ORDER BY id", of: bench.path("replica.sqlite"))
                    == "1c\n2a\n3b\n")
        }
    }

    @Test("The schema changes while the daemon runs", arguments: Journal.allCases)
    func schemaChanges(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(
                StoreSetup(
                    entities: #"{"person": {"preserve": ["email"]}, "item": {}}"#,
                    authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person VALUES (1, 'Ann', 'a', 1), (2, 'Bob', 'b', 2); INSERT INTO item VALUES ('x', 1)",
                as: "Widget")
            try await bench.waitForReplica(daemon)
            let steps = [
                "ALTER TABLE person ADD COLUMN phone TEXT DEFAULT 'none'",
                "UPDATE person SET phone = '1' WHERE id = 1",
                "ALTER TABLE person RENAME COLUMN name TO nick; UPDATE person SET nick = 'Cid' WHERE id = 2",
                "ALTER TABLE item ADD COLUMN stock INT; INSERT INTO item VALUES ('y', 2, 3)",
                "CREATE TABLE other (x); INSERT INTO person (id, nick) VALUES (3, 'Dan')",
                "CREATE INDEX person_nick ON person (nick); DELETE FROM person WHERE id = 1",
            ]
            for step in steps {
                try await bench.write(step, as: "Widget")
                // The tracking is brought up to date by the daemon; a writer does not wait for it.
                try await bench.write("INSERT INTO item (code) VALUES (hex(randomblob(8)))", as: "Widget")
                try await bench.waitForReplica(daemon)
            }
            try await bench.write("UPDATE person SET phone = '2', nick = 'Eve' WHERE id = 3", as: "Widget")
            try await bench.waitForReplica(daemon)
            let last = try #require(try bench.calls().last)
            #expect(last.text.contains(#""changedProperties":["nick","phone"]"#), "\(last.text)")
            try await daemon.stop()
            try await bench.expectReplicaEqualsStore(["person": "id", "item": "code"])
        }
    }

    @Test("What is configured no longer fits the schema: that is told, and all else goes on")
    func configurationBehind() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person VALUES (1, 'Ann', 'a', 1)", as: "Widget")
            try await bench.waitForReplica(daemon)
            try await bench.write(
                "ALTER TABLE person RENAME COLUMN name TO nick", "UPDATE person SET nick = 'Bea'", as: "Widget")
            try await bench.waitForReplica(daemon)
            // Until then a tombstone has the column's old name.
            try await daemon.logged("event=trackingFailed")
            try await bench.write("DROP TABLE item", "DELETE FROM person", as: "Widget")
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            let restarted = try await bench.startDaemon()
            try await bench.write("INSERT INTO person VALUES (2, 'Cid', 'c', 1)", as: "Widget")
            try await bench.waitForReplica(restarted)
            try await restarted.stop()
            try await bench.expectReplicaEqualsStore(["person": "id"])
            let last = try bench.calls().map(\.text).filter { $0.contains(#""operation":"delete""#) }
            #expect(
                last.count == 1 && last[0].contains(#""tombstone":{"attributes":{"nick":"Bea","email":"a"}"#),
                "\(last)")
            #expect(
                restarted.log.filter { $0.hasPrefix("error") } == [
                    #"error: Store "contacts" is not tracked as configured. There is no table "item" in the store. `sqlite3 STORE .tables` lists the tables. entity=item event=trackingFailed store=contacts"#,
                    #"error: Store "contacts" is not tracked as configured. The table "person" has no column "name" to preserve. Its columns are "id", "nick", "email", "age". entity=person event=trackingFailed store=contacts"#,
                ])
        }
    }

    @Test("A replica that was deleted while the daemon was down is filled again")
    func deleted() async throws {
        try await withWorkbench { bench in
            try await bench.sql("INSERT INTO person (id) VALUES (1)")
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            let first = try await bench.startDaemon()
            // What was there before tracking began.
            try await first.logged(#"Context "view" of "Mirror" was filled from the store"#)
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(1, of: first)
            try await bench.waitForReplica(first)
            try await first.stop()
            for suffix in ["", "-wal", "-shm"] { unlink(bench.path("replica.sqlite" + suffix)) }
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            let second = try await bench.startDaemon()
            try await second.logged(#"Context "view" of "Mirror" was filled from the store"#)
            try await bench.calls(2, of: second)
            try await bench.waitForReplica(second)
            try await second.stop()
            try await bench.expectReplicaEqualsStore(["person": "id"])
            #expect(
                try bench.calls().map(\.summary) == [
                    "audit/all Mirror 1 Widget person insert p2", "audit/all Mirror 2 Widget person insert p3",
                ])
        }
    }

    @Test("A context that is new in the configuration is filled, and only with its entities")
    func added() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("Mirror")))
            let first = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1); INSERT INTO item VALUES ('x', 1)", as: "Widget")
            try await bench.waitForCursor(at: 2, first)
            try await first.stop()
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored(entities: #"["person"]"#)))
            let second = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (2); INSERT INTO item VALUES ('y', 1)", as: "Widget")
            try await bench.calls(4, of: second)
            try await bench.waitForReplica(second)
            try await second.stop()
            try await bench.expectReplicaEqualsStore(["person": "id"])
            #expect(
                try await bench.sql(
                    "SELECT count(*) FROM sqlite_schema WHERE name = 'item'", of: bench.path("replica.sqlite"))
                    == "0\n")
            #expect(try bench.calls().count == 4)
        }
    }

    @Test("A consumer's own changes are not merged")
    func own() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            try await daemon.logged("was filled from the store")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "MainApp")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            #expect(
                try await bench.sql("SELECT group_concat(id) FROM person", of: bench.path("replica.sqlite"))
                    == "2\n")
        }
    }
}

extension Workbench {
    /// Waits until the replica shows the newest transaction.
    func waitForReplica(_ daemon: DaemonUnderTest, replica: String = "replica.sqlite") async throws {
        let newest = try await sql("SELECT max(id) FROM historyd_change")
        try await eventually("the replica at \(newest)", state: { daemon.log.joined(separator: "\n") }) {
            guard FileManager.default.fileExists(atPath: self.path(replica)),
                try await self.sql(
                    "SELECT count(*) FROM sqlite_schema WHERE name = 'historyd_replica'", of: self.path(replica)
                ) == "1\n"
            else { return false }
            // It may have gone on by then: the history also notes that a table was made again.
            let number = try await self.sql("SELECT max(number) FROM historyd_replica", of: self.path(replica))
            return Int(number.prefix { $0 != "\n" }) ?? 0 >= Int(newest.prefix { $0 != "\n" }) ?? 0
        }
    }
}
