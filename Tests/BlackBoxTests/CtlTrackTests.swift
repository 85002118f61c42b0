import Foundation
import TestSupport
import Testing

/// `track`, `untrack` and `describe`.
@Suite(.timeLimit(.minutes(60))) struct CtlTrackTests {
    private func schema(_ store: CtlStore) async throws -> String {
        try await store.sql("SELECT * FROM sqlite_schema ORDER BY rowid;")
    }

    @Test(arguments: CtlStore.Journal.allCases)
    func untrackingLeavesNoTrace(journal: CtlStore.Journal) async throws {
        let store = try await CtlStore(
            """
            CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT); CREATE TABLE plain (a, b);
            CREATE INDEX i ON person (name); CREATE VIEW v AS SELECT * FROM person;
            CREATE TRIGGER g AFTER INSERT ON person BEGIN INSERT INTO plain VALUES (NEW.id, NEW.name); END;
            INSERT INTO person VALUES (1, 'Ann');
            """, journal: journal, tracking: nil)
        func everything() async throws -> String {
            try await store.sql(
                "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY rowid; SELECT * FROM person; SELECT rowid, * FROM plain; PRAGMA journal_mode; PRAGMA user_version; PRAGMA application_id;"
            )
        }
        let before = try await everything()
        try await store.succeed("track", ["--all", "--preserve", "person.name"])
        #expect(try await everything() != before)
        try await store.sql("INSERT INTO person VALUES (2, 'Bob');")
        #expect(try await store.history().count > 0)
        try await store.sql("DELETE FROM person WHERE id = 2; DELETE FROM plain WHERE a = 2;")
        #expect(try await store.succeed("untrack") == "untracked person\nuntracked plain\n")
        #expect(try await everything() == before)
        #expect(try await store.sql("PRAGMA integrity_check;") == "ok\n")
        let outcome = try await store.ctl("history")
        #expect(outcome.status == .exited(69))
        #expect(
            outcome.errors
                == "historyctl: The store \"\(store.path)\" is not tracked. Track it with `historyctl track STORE ENTITY…`.\n"
        )
    }

    @Test func aMisspeltCommandIsNamed() async throws {
        let outcome = try await Command(Products.historyctl, ["trak", "contacts.sqlite", "person"]).run()
        #expect(outcome.status == .exited(64))
        #expect(outcome.errors.hasPrefix("Error: There is no command \"trak\". Did you mean \"track\"?\n"))
        let known = try await Command(Products.historyctl, ["help", "track"]).run()
        #expect(known.status == .exited(0))
    }

    @Test func untrackingOneEntityLeavesTheOthersAndTheHistory() async throws {
        let store = try await CtlStore(
            "CREATE TABLE a (id INTEGER PRIMARY KEY); CREATE TABLE b (id INTEGER PRIMARY KEY);")
        try await store.sql("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1);")
        #expect(try await store.succeed("untrack", ["A"]) == "untracked a\n")
        try await store.sql("INSERT INTO a VALUES (2); INSERT INTO b VALUES (2);")
        func changes() async throws -> [String] {
            try await store.history().flatMap { $0.changes.map(\.short) }
        }
        #expect(try await changes() == ["insert a id=1", "insert b id=1", "insert b id=2"])
        try await store.succeed("track", ["a"])
        try await store.sql("INSERT INTO a VALUES (3);")
        let last = try #require(try await store.history().last).token
        #expect(try await store.succeed("untrack", ["a", "--purge"]) == "untracked a\n")
        #expect(try await changes() == ["insert b id=1", "insert b id=2"])
        // A number is never given twice, also not that of the newest change, which was purged.
        try await store.sql("INSERT INTO b VALUES (3);")
        let newest = try await store.history(["--after", last])
        #expect(newest.map(\.short) == ["-: insert b id=3"])
        #expect(newest.first.map { "\($0.number)" } != last.split(separator: ":").last.map(String.init))
        let unknown = try await store.ctl("untrack", ["nobody"])
        #expect(unknown.status == .exited(65))
        #expect(
            unknown.errors == "historyctl: The entity \"nobody\" is not tracked. Tracked entities: \"b\".\n")
    }

    @Test func trackingAgainChangesNothing() async throws {
        let store = try await CtlStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (a);", tracking: nil)
        #expect(try await store.succeed("track", ["t", "--preserve", "T.A"]) == "tracked t\n")
        let before = try Data(contentsOf: URL(fileURLWithPath: store.path))
        #expect(try await store.succeed("track", ["t"]) == "up to date\n")
        #expect(try await store.succeed("track", ["T", "--preserve", "t.a"]) == "up to date\n")
        #expect(try await store.succeed("track") == "up to date\n")
        #expect(try Data(contentsOf: URL(fileURLWithPath: store.path)) == before)
        #expect(try await store.succeed("track", ["--all"]) == "tracked u\n")
    }

    /// "up to date" would let somebody believe that something is recorded.
    @Test func aStoreWithoutTablesSaysSo() async throws {
        let store = try await CtlStore("SELECT 1;", tracking: nil)
        for _ in 1...2 {
            #expect(try await store.succeed("track", ["--all"]) == "The store has no table to track yet.\n")
        }
    }

    @Test func aStoreIsNotMadeAndNotTrackedByNobodysWish() async throws {
        let store = try await CtlStore("CREATE TABLE t (a);", tracking: nil)
        #expect(try await store.ctl("track").status == .exited(69))
        for verb in [["track"], ["untrack"], ["describe"], ["history"], ["exec", "--author", "A", "SELECT 1"]] {
            let missing = store.folder.file("missing.sqlite")
            let outcome = try await Command(BuiltProducts.historyctl, [verb[0], missing] + verb.dropFirst())
                .run()
            #expect(outcome.status == .exited(66), "\(verb)")
            #expect(!FileManager.default.fileExists(atPath: missing))
        }
        let text = try store.folder.write("text", String(repeating: "This is no database. ", count: 100))
        let outcome = try await Command(BuiltProducts.historyctl, ["track", text, "--all"]).run()
        #expect(outcome.status == .exited(65))
        #expect(outcome.errors == "historyctl: \"\(text)\" is not an SQLite database. Check the path.\n")
    }

    @Test(arguments: [
        ("v", "\"v\" is a view and cannot be tracked. Only ordinary tables can be tracked."),
        ("f", "\"f\" is a virtual table and cannot be tracked. Only ordinary tables can be tracked."),
        (
            "f_data",
            "\"f_data\" belongs to a virtual table and cannot be tracked. Only ordinary tables can be tracked."
        ),
        (
            "sqlite_sequence",
            "\"sqlite_sequence\" is SQLite's own and cannot be tracked. Only ordinary tables can be tracked."
        ),
        (
            "sqlite_schema",
            "\"sqlite_schema\" is SQLite's own and cannot be tracked. Only ordinary tables can be tracked."
        ),
        (
            "historyd_change",
            "\"historyd_change\" belongs to the history itself and cannot be tracked. Only ordinary tables can be tracked."
        ),
        (
            "nothing",
            "There is no table \"nothing\" in the store. `sqlite3 STORE .tables` lists the tables."
        ),
    ])
    func whatIsNoEntityIsRefused(name: String, message: String) async throws {
        let store = try await CtlStore(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT); CREATE VIEW v AS SELECT * FROM t; CREATE VIRTUAL TABLE f USING fts5(a);
            """, tracking: ["t"])
        let before = try await schema(store)
        let outcome = try await store.ctl("track", [name])
        #expect(outcome.status == .exited(65))
        #expect(outcome.output == "")
        #expect(outcome.errors == "historyctl: \(message)\n")
        #expect(try await schema(store) == before)
        #expect(
            try await store.succeed("track", ["--all"]) == "up to date\n", "--all means ordinary tables only.")
    }

    @Test func aTableOfOurNameThatIsNotOursStays() async throws {
        let store = try await CtlStore(
            "CREATE TABLE historyd_change (mine); CREATE TABLE t (a);", tracking: nil)
        let outcome = try await store.ctl("track", ["t"])
        #expect(outcome.status == .exited(65))
        #expect(outcome.errors.contains("historyd_change"), "\(outcome)")
        #expect(try await store.sql("SELECT count(*) FROM sqlite_schema;") == "2\n")
    }

    @Test func anAlteredTableIsBroughtUpToDate() async throws {
        let store = try await CtlStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 'x');",
            tracking: ["t", "--preserve", "t.a"])
        try await store.sql("ALTER TABLE t ADD COLUMN b; UPDATE t SET b = 1;")
        #expect(try await store.succeed("track") == "updated t\n")
        try await store.sql(
            "UPDATE t SET b = 2; ALTER TABLE t RENAME COLUMN a TO c; UPDATE t SET c = 'y', b = 3;")
        #expect(try await store.succeed("track", ["t", "--preserve", "t.c"]) == "updated t\n")
        try await store.sql("UPDATE t SET c = 'z'; ALTER TABLE t RENAME TO u; UPDATE u SET c = 'zz';")
        #expect(try await store.succeed("track") == "updated u\n")
        try await store.sql("UPDATE u SET b = 4; ALTER TABLE u RENAME COLUMN id TO key;")
        #expect(try await store.succeed("track") == "updated u\n")
        try await store.sql("DELETE FROM u;")
        #expect(try await store.succeed("track") == "up to date\n")
        let changes = try await store.history().flatMap { $0.changes.map(\.short) }
        // A change of a column that came after the triggers is recorded, and does not name it.
        #expect(
            changes.filter { !$0.hasSuffix(" ") } == [
                "update t id=1 b", "update t id=1 a,b", "update t id=1 c", "update t id=1 c", "update u id=1 b",
                "delete u key=1",
            ])
        #expect(changes.contains("update t id=1 "))
        #expect(
            try await store.historyText(["--operation", "delete"]).contains(
                #""tombstone":{"attributes":{"c":"zz"},"values":{"c":"zz"}"#))
        try await store.sql("DROP TABLE u;")
        #expect(
            try await store.succeed("track") == """
                dropped u, whose table is gone
                warning: The tracked table "t" is not there. When it is created again, it is tracked again; `historyctl untrack STORE t` forgets it.
                changes of u may have gone unrecorded until now; every consumer is notified

                """)
    }

    /// SQLite drops no column that a trigger names
    /// (https://www.sqlite.org/lang_altertable.html#altertabdropcol): the entity is untracked for it.
    @Test func aColumnIsDroppedFromAnUntrackedEntity() async throws {
        let store = try await CtlStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b);", tracking: ["t", "--preserve", "t.a"])
        try await store.sql("INSERT INTO t VALUES (1, 2, 3);")
        let outcome = try await Command("sqlite3", [store.path, "ALTER TABLE t DROP COLUMN b"]).run()
        #expect(outcome.errors.contains("error in trigger historyd_1_update after drop column"), "\(outcome)")
        try await store.succeed("untrack", ["t"])
        try await store.sql("ALTER TABLE t DROP COLUMN b;")
        try await store.succeed("track", ["t", "--preserve", "t.a"])
        try await store.sql("UPDATE t SET a = 4; DELETE FROM t;")
        #expect(
            try await store.history().flatMap { $0.changes.map(\.short) } == [
                "insert t id=1", "update t id=1 a", "delete t id=1",
            ])
    }

    /// Names with dots, blanks and quotes; the reading that fits the store is meant.
    @Test func preservedColumnsMayHaveDotsInTheirNames() async throws {
        let store = try await CtlStore(
            #"""
            CREATE TABLE "a.b" (id INTEGER PRIMARY KEY, "c" TEXT, "c.d" TEXT); CREATE TABLE a (id INTEGER PRIMARY KEY, "b.c" TEXT, "x y" TEXT, [q"'] TEXT);
            """#, tracking: nil)
        func preserved(_ arguments: String...) async throws -> [String] {
            try await store.succeed("track", arguments)
            let text = try await store.succeed("describe", ["--format", "json"])
            return text.matches(of: /"name":"([^"]*)","preserved":(\[.*?\])/).map { "\($0.1) \($0.2)" }
        }
        #expect(try await preserved("--preserve", "a.b.c.d") == [#"a.b ["c.d"]"#])
        #expect(try await preserved("--preserve", "a.b.c") == [#"a.b ["c"]"#], "The longest entity's name.")
        #expect(
            try await preserved("a", "--preserve", "a.b.c") == [#"a ["b.c"]"#, #"a.b ["c"]"#],
            "The entity that is named.")
        #expect(
            try await preserved("--preserve", "a.x y", "--preserve", #"A.Q"'"#) == [
                #"a ["x y","q\"'"]"#, #"a.b ["c"]"#,
            ])
        #expect(
            try await preserved("a") == [#"a ["x y","q\"'"]"#, #"a.b ["c"]"#], "What is not mentioned stays.")
        for wrong in ["a", "a.", ".c", "a.zip", "nobody.c", ""] {
            let outcome = try await store.ctl("track", ["--preserve", wrong])
            #expect(outcome.status == .exited(65), "\(wrong)")
            #expect(
                outcome.errors.hasPrefix("historyctl: The store has no column \"\(wrong)\" to preserve."),
                "\(outcome)")
        }
    }

    @Test func describeTellsWhatIsTracked() async throws {
        let store = try await CtlStore(
            "CREATE TABLE person (id INTEGER PRIMARY KEY, name); CREATE TABLE item (a);",
            tracking: ["person", "item", "--preserve", "person.name"])
        func text() async throws -> String {
            try await store.succeed("describe", ["--format", "json"])
                .replacing(/"[0-9a-f-]{36}/, with: #""STORE"#).replacing(/"bytes":\d+/, with: #""bytes":BYTES"#)
        }
        let entities = { (item: Int, person: Int) in
            #"[{"name":"item","preserved":[],"changes":\#(item)},{"name":"person","preserved":["name"],"changes":\#(person)}]"#
        }
        #expect(
            try await text()
                == #"{"storeID":"STORE","firstToken":null,"lastToken":null,"changes":0,"bytes":BYTES,"entities":\#(entities(0, 0))}"#
                + "\n")
        try await store.sql("INSERT INTO person VALUES (1, 'Ann'), (2, 'Bob'); INSERT INTO item VALUES (1);")
        #expect(
            try await text()
                == #"{"storeID":"STORE","firstToken":"STORE:0","lastToken":"STORE:3","changes":3,"bytes":BYTES,"entities":\#(entities(1, 2))}"#
                + "\n")
        let table = try await store.succeed("describe")
        #expect(table.contains("\nLast token   "), "\(table)")
        #expect(
            table.hasSuffix("\n\nENTITY  CHANGES  PRESERVED\nitem    1\nperson  2        name\n"), "\(table)")
    }
}
