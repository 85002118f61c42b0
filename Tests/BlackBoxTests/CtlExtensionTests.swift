import Foundation
import TestSupport
import Testing

/// What a connection that loaded the extension may say, and what it is told.
@Suite(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"), .timeLimit(.minutes(60)))
struct CtlExtensionTests {
    static let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a);"

    @Test func theAuthorIsGivenBackAndCleared() async throws {
        let store = try await CtlStore(Self.schema)
        let longest = String(repeating: "é", count: 127) + "x"
        let output = try await store.declaredSQL(
            """
            .nullvalue NULL
            SELECT history_author();
            SELECT history_author('Ann Example é');
            INSERT INTO t VALUES (1, 1);
            SELECT history_author('\(longest)', 'view');
            INSERT INTO t VALUES (2, 2);
            SELECT history_author('B', NULL);
            INSERT INTO t VALUES (3, 3);
            SELECT history_author(NULL), history_author();
            INSERT INTO t VALUES (4, 4);
            """)
        #expect(output == "NULL\nAnn Example é\n\(longest)\nB\nNULL|NULL\n")
        let history = try await store.history()
        #expect(history.map(\.author) == ["Ann Example é", longest, "B", nil])
        #expect(history.map(\.context) == [nil, "view", nil, nil])
    }

    @Test(arguments: [
        ("''", "the author must not be empty"), ("5", "the author must be text"),
        ("1.5", "the author must be text"),
        ("x'61'", "the author must be text"),
        ("'a' || char(9) || 'b'", "the author must not contain control characters"),
        ("'a' || char(10)", "the author must not contain control characters"),
        ("replace(hex(zeroblob(128)), '0', 'a')", "the author must not be longer than 255 bytes"),
        ("'a', ''", "the context must not be empty"), ("'a', 7", "the context must be text"),
        ("'a', char(31)", "the context must not contain control characters"),
    ])
    func badNamesAreRefused(arguments: String, message: String) async throws {
        let store = try await CtlStore(Self.schema)
        let output = try await store.succeed(
            python: """
                c = loaded('Old', 'context')
                print(fails(c, '''SELECT history_author(\(arguments))'''))
                print(c.execute("SELECT history_author()").fetchone()[0])
                c.execute("INSERT INTO t VALUES (1, 1)")
                """)
        #expect(output == "history_author: \(message)\nOld\n")
        #expect(try await store.history().map { [$0.author, $0.context] } == [["Old", "context"]])
    }

    /// One SQL transaction is one history transaction, and has one author.
    @Test func theAuthorStaysInATransactionThatHasRecorded() async throws {
        let store = try await CtlStore(Self.schema)
        let output = try await store.succeed(
            python: """
                c = loaded("A")
                c.execute("BEGIN")
                c.execute("SELECT history_author('B')").fetchall()      # nothing was recorded yet
                c.execute("INSERT INTO t VALUES (1, 1)")
                for sql in ["SELECT history_author('C')", "SELECT history_author('B', 'view')", "SELECT history_author(NULL)"]:
                    print(fails(c, sql))
                c.execute("SELECT history_author('B')").fetchall()      # no change
                c.execute("INSERT INTO t VALUES (2, 2)")
                c.execute("COMMIT")
                c.execute("SELECT history_author('C')").fetchall()
                c.execute("BEGIN"); c.execute("SAVEPOINT s"); c.execute("INSERT INTO t VALUES (3, 3)"); c.execute("ROLLBACK TO s")
                c.execute("SELECT history_author('D')").fetchall()      # what was recorded is gone
                c.execute("INSERT INTO t VALUES (4, 4)")
                c.execute("COMMIT")
                """)
        let message =
            "history_author: the author cannot change within a transaction that has recorded changes\n"
        #expect(output == message + message + message)
        #expect(
            try await store.history().map(\.short) == ["B: insert t id=1; insert t id=2", "D: insert t id=4"])
    }

    @Test(arguments: CtlStore.Journal.allCases)
    func theTokenIsThatOfTheLastCommittedTransaction(journal: CtlStore.Journal) async throws {
        let store = try await CtlStore(
            Self.schema + "CREATE TABLE other (x);", journal: journal, tracking: ["t"])
        let output = try await store.succeed(
            python: """
                c = loaded("A")
                other = loaded("B")
                def token(): return c.execute("SELECT history_token()").fetchone()[0]
                first = None
                def say(*names):
                    found = token()
                    print(*names, found.rsplit(":")[1] if found else found)
                say("at first")
                c.execute("INSERT INTO t VALUES (1, 1)"); say("after a commit")
                c.execute("BEGIN"); c.execute("INSERT INTO t VALUES (2, 2)"); say("within a transaction")
                c.execute("INSERT INTO t VALUES (3, 3)")
                c.execute("COMMIT"); say("after it")
                c.execute("BEGIN"); c.execute("INSERT INTO t VALUES (4, 4)"); c.execute("ROLLBACK"); say("after a rollback")
                other.execute("INSERT INTO t VALUES (5, 5)"); say("after another's commit")
                c.execute("INSERT INTO other VALUES (1)"); say("after what is not tracked")
                c.execute("UPDATE t SET a = a"); say("after what changes nothing")
                c.execute("BEGIN"); c.execute("SELECT * FROM t").fetchall(); c.execute("COMMIT"); say("after reading")
                other.execute("DELETE FROM t WHERE id = 5")
                c.execute("DELETE FROM t"); say("at last")
                """)
        #expect(
            output == """
                at first None
                after a commit 1
                within a transaction 1
                after it 3
                after a rollback 3
                after another's commit 3
                after what is not tracked 3
                after what changes nothing 3
                after reading 3
                at last 8

                """)
        let tokens = try await store.history(["--author", "A"]).map(\.number)
        #expect(tokens == [1, 3, 8])
    }

    /// A daemon may have delivered and cleaned a transaction before its program asks.
    @Test func theTokenOfWhatWasCleanedMeanwhileIsThatOfTheFloor() async throws {
        let store = try await CtlStore(Self.schema)
        let output = try await store.succeed(
            python: """
                c = loaded("A")
                other = loaded("B")
                def say():
                    found = c.execute("SELECT history_token()").fetchone()[0]
                    print(found.rsplit(":")[1] if found else found)
                def clean(number):
                    other.execute("DELETE FROM historyd_change WHERE id < ?", (number,))
                    other.execute("UPDATE historyd_change SET origin = 0, kind = 3, object = NULL, detail = NULL WHERE id = ?", (number,))
                    other.execute("UPDATE historyd_store SET value = ? WHERE key = 'floor'", (number,))
                other.execute("INSERT INTO t VALUES (1, 1)")
                clean(1); say()
                c.execute("INSERT INTO t VALUES (2, 2)"); other.execute("INSERT INTO t VALUES (3, 3)")
                clean(3); say()
                c.execute("INSERT INTO t VALUES (4, 4)"); say()
                other.execute("INSERT INTO t VALUES (5, 5)")
                clean(5); say()
                c.execute("BEGIN"); c.execute("INSERT INTO t VALUES (6, 6)"); say()
                c.execute("COMMIT"); clean(6); say()
                c.execute("INSERT INTO t VALUES (7, 7)"); say()
                """)
        #expect(output == "None\n3\n4\n4\n4\n6\n7\n")
    }

    /// With `trusted_schema` off, triggers may call only functions that are known to be harmless.
    @Test func recordingWorksWithAnUntrustedSchema() async throws {
        let store = try await CtlStore(Self.schema)
        let output = try await store.succeed(
            python: """
                for c, id in (plain(), 1), (loaded("A"), 2):
                    c.execute("PRAGMA trusted_schema = OFF")
                    c.execute("INSERT INTO t VALUES (?, 1)", [id])
                    print(c.execute("PRAGMA trusted_schema").fetchone()[0])
                """)
        #expect(output == "0\n0\n")
        #expect(try await store.history().map(\.short) == ["-: insert t id=1", "A: insert t id=2"])
    }

    /// Python says of no function that it is harmless: such a writer is told, and nothing is lost.
    @Test func aRegisteredFunctionIsRefusedByAnUntrustedSchema() async throws {
        let store = try await CtlStore(Self.schema)
        let output = try await store.succeed(
            python: """
                app = Author(plain(), "A")
                app.connection.execute("PRAGMA trusted_schema = OFF")
                print(fails(app.connection, "INSERT INTO t VALUES (1, 1)"))
                """)
        #expect(output == "unsafe use of sqlite_compileoption_get()\n")
        #expect(try await store.sql("SELECT count(*) FROM t;") == "0\n")
    }

    /// A store that somebody else made must not make a connection declare an author.
    @Test func theFunctionsAreNotForTheSchema() async throws {
        let store = try await CtlStore(Self.schema + "CREATE VIEW v AS SELECT history_author('Evil') AS a;")
        let output = try await store.succeed(python: #"print(fails(loaded("A"), "SELECT * FROM v"))"#)
        #expect(output.contains("unsafe use of history_author()"), "\(output)")
    }

    /// A second load changes nothing, not the author either: also while a statement runs, in each encoding.
    @Test(arguments: ["UTF-8", "UTF-16le"], [true, false])
    func theExtensionMayBeLoadedTwice(encoding: String, bySQL: Bool) async throws {
        let store = try await CtlStore("PRAGMA encoding = '\(encoding)';" + Self.schema)
        try await store.succeed(
            python: """
                c = loaded("A", by_sql=\(bySQL ? "True" : "False"))
                c.execute("INSERT INTO t VALUES (1, 1)")
                c.execute("SELECT load_extension(?, 'sqlite3_history_init')", [library]).fetchall()
                c.load_extension(library)
                c.execute("INSERT INTO t VALUES (2, 2)")
                c.execute("SELECT history_author('B')").fetchall()
                c.execute("INSERT INTO t VALUES (3, 3), (4, 4)")
                assert c.execute("SELECT history_token()").fetchone()[0].endswith(":4")
                print(c.execute("SELECT sqlite_compileoption_get(0) = (SELECT compile_options FROM pragma_compile_options LIMIT 1)").fetchone()[0])
                """)
        #expect(
            try await store.history().map(\.short) == [
                "A: insert t id=1", "A: insert t id=2", "B: insert t id=3; insert t id=4",
            ])
    }

    /// Python's sqlite3 and apsw have an SQLite each.
    @Test(.enabled(if: ClientPackages.areThere, ClientPackages.missing), arguments: [true, false])
    func twoLibrariesOfOneProcessHaveConnectionsOfTheirOwn(apswFirst: Bool) async throws {
        let store = try await CtlStore(Self.schema)
        let output = try await store.succeed(
            python: """
                import apsw
                def other():
                    c = apsw.Connection(path)
                    c.enable_load_extension(True)
                    c.load_extension(library)
                    c.execute("SELECT history_author('Apsw')").fetchall()
                    return c
                a, p = (other(), loaded("Python")) if \(apswFirst ? "True" : "False") else (loaded("Python"), other())[::-1]
                number = lambda c: c.execute("SELECT history_token()").fetchone()[0].split(":")[1]
                for c in p, a:
                    c.execute("BEGIN")
                    c.execute("INSERT INTO t (a) VALUES (1)"); c.execute("INSERT INTO t (a) VALUES (1)")
                    try: c.execute("SELECT history_author('Other')").fetchall()
                    except Exception as error: print(error)
                    c.execute("COMMIT")
                print(number(a), number(p))
                """, interpreter: ClientPackages.python)
        let message =
            "history_author: the author cannot change within a transaction that has recorded changes\n"
        #expect(output == message + message + "4 2\n")
        #expect(
            try await store.history().map(\.short) == [
                "Python: insert t id=1; insert t id=2", "Apsw: insert t id=3; insert t id=4",
            ])
    }

    /// The built-in function that is overridden goes on answering everybody else.
    @Test func otherQuestionsAreAnsweredAsBefore() async throws {
        let store = try await CtlStore(Self.schema)
        let question =
            "SELECT group_concat(sqlite_compileoption_get(value)), sqlite_compileoption_get(-1) FROM json_each('[0,1,2,3,999999]');"
        #expect(try await store.declaredSQL(question) == store.sql(question))
    }
}
