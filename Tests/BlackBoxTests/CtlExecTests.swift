import Foundation
import TestSupport
import Testing

/// `historyctl exec`: SQL run as an author.
@Suite(.timeLimit(.minutes(60))) struct CtlExecTests {
    static let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE); CREATE TABLE other (x);"

    private func exec(_ store: CtlStore, _ arguments: String..., input: String = "") async throws
        -> Command.Outcome
    {
        try await store.ctl("exec", ["--author", "App"] + arguments, input: input)
    }

    @Test(arguments: CtlStore.Journal.allCases)
    func statementsAreOneTransactionWithItsToken(journal: CtlStore.Journal) async throws {
        let store = try await CtlStore(Self.schema, journal: journal)
        let outcome = try await exec(
            store, "--context", "import",
            "INSERT INTO t VALUES (1, 'x'); -- one; comment\nINSERT INTO t VALUES (2, ';')",
            "UPDATE t SET a = 'y' WHERE id = 1;", "/* BEGIN; */ DELETE FROM t WHERE id = 2")
        let history = try await store.history()
        #expect(history.map(\.short) == ["App: insert t id=1; insert t id=2; update t id=1 a; delete t id=2"])
        #expect(history.map(\.context) == ["import"])
        #expect(outcome.output == history.map { $0.token + "\n" }.joined())
        #expect(outcome.errors == "" && outcome.status == .exited(0))
    }

    @Test func sqlComesFromStandardInputToo() async throws {
        let store = try await CtlStore(Self.schema)
        let script = (1...5000).map { "INSERT INTO t VALUES (\($0), 'text \($0)');" }.joined(separator: "\n")
        let outcome = try await exec(store, "-", "DELETE FROM t WHERE id > 1", input: script)
        let history = try await store.history(["--operation", "insert"])
        #expect(history.map { $0.changes.count } == [5000])
        #expect(outcome.output == (history.first?.token ?? "") + "\n")
    }

    /// What sqlite3 prints, to the byte.
    @Test(arguments: [
        "SELECT 1, NULL, 'a|b', 2.0, 1e300, 0.1, x'4142', -0.0, 9223372036854775807",
        "SELECT * FROM t", "VALUES ('é'), ('line' || char(10) || 'break'), ('')",
        "INSERT INTO other VALUES (1), (2) RETURNING x, x + 1; SELECT count(*) FROM other",
        "PRAGMA table_info(t); SELECT 5 WHERE 0", "EXPLAIN QUERY PLAN SELECT 1",
        "; ; SELECT 1;; -- end\n;SELECT 2; /* not closed",
    ])
    func rowsArePrintedAsTheShellDoes(sql: String) async throws {
        let store = try await CtlStore(Self.schema, tracking: ["t"])
        let shell = try await CtlStore(Self.schema, tracking: ["t"])
        let outcome = try await exec(store, sql)
        if sql.hasPrefix("EXPLAIN") {
            // The shell draws a tree of this.
            #expect(outcome.output == "1|0|0|SCAN CONSTANT ROW\n")
        } else {
            #expect(try await outcome.output == Command("sqlite3", [shell.path, sql]).succeed(), "\(outcome)")
        }
        #expect(outcome.status == .exited(0))
    }

    @Test func nothingRecordedNoToken() async throws {
        let store = try await CtlStore(Self.schema, tracking: ["t"])
        for sql in [
            "SELECT 1 WHERE 0", "INSERT INTO other VALUES (1)", "UPDATE t SET a = a",
            "BEGIN; INSERT INTO t VALUES (1, 1); ROLLBACK", "", "/* nothing */",
        ] {
            let outcome = try await exec(store, sql)
            #expect(outcome.output == "" && outcome.status == .exited(0), "\(sql): \(outcome)")
        }
        #expect(try await store.history() == [])
    }

    @Test func aTransactionOfItsOwnIsLeftAlone() async throws {
        let store = try await CtlStore(Self.schema)
        let outcome = try await exec(
            store, "INSERT INTO t VALUES (1, 1)",
            "begin immediate; INSERT INTO t VALUES (2, 2); INSERT INTO t VALUES (3, 3); commit",
            "INSERT INTO t VALUES (4, 4)")
        let history = try await store.history()
        #expect(
            history.map(\.short) == [
                "App: insert t id=1", "App: insert t id=2; insert t id=3", "App: insert t id=4",
            ])
        #expect(outcome.output == (history.last?.token ?? "") + "\n")
    }

    @Test func anOpenTransactionIsAnError() async throws {
        let store = try await CtlStore(Self.schema)
        let outcome = try await exec(store, "BEGIN; INSERT INTO t VALUES (1, 1)")
        #expect(outcome.status == .exited(65))
        #expect(outcome.output == "")
        #expect(
            outcome.errors
                == "historyctl: The SQL leaves a transaction open; it was rolled back. End it with COMMIT.\n"
        )
        #expect(try await store.history() == [])
    }

    @Test func theSQLMayEndTheTransaction() async throws {
        let store = try await CtlStore(Self.schema)
        let outcome = try await exec(
            store,
            "INSERT INTO t VALUES (1, 1); COMMIT; INSERT INTO t VALUES (2, 2); INSERT INTO t VALUES (2, 3)")
        #expect(outcome.errors == "historyctl: The SQL fails: UNIQUE constraint failed: t.id.\n")
        #expect(try await exec(store, "INSERT INTO t VALUES (3, 4); COMMIT").status == .exited(0))
        #expect(
            try await store.history().map(\.short) == [
                "App: insert t id=1", "App: insert t id=2", "App: insert t id=3",
            ])
    }

    @Test func aFailureUndoesAllOfIt() async throws {
        let store = try await CtlStore(Self.schema)
        let outcome = try await exec(store, "INSERT INTO t VALUES (1, 'x'); INSERT INTO t VALUES (2, 'x')")
        #expect(outcome.status == .exited(65))
        #expect(outcome.output == "")
        #expect(
            outcome.errors
                == "historyctl: The SQL fails: UNIQUE constraint failed: t.a. Nothing was changed, because all the SQL is one transaction.\n"
        )
        #expect(try await store.history() == [])
        #expect(try await store.sql("SELECT count(*) FROM t;") == "0\n")
        #expect(
            try await exec(store, "SELEKT 1").errors
                == "historyctl: The SQL fails: near \"SELEKT\": syntax error.\n")
    }

    /// What SQLite refuses or ignores within a transaction works all the same.
    @Test func whatNeedsNoTransactionGetsNone() async throws {
        let store = try await CtlStore(
            "CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (p REFERENCES parent ON DELETE CASCADE); INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1);"
        )
        #expect(try await exec(store, "VACUUM").status == .exited(0))
        #expect(
            try await exec(store, "PRAGMA foreign_keys = ON; DELETE FROM parent; SELECT count(*) FROM child")
                .lines.first == "0")
        #expect(try await store.history().map(\.short) == ["App: delete child rowid=1; delete parent id=1"])
        let journal = try await exec(store, "PRAGMA journal_mode = DELETE")
        #expect(journal.lines.first == "delete")
    }

    /// A trigger's BEGIN begins no transaction.
    @Test func aTriggerIsOneStatementAmongOthers() async throws {
        let store = try await CtlStore(Self.schema, tracking: ["t"])
        let outcome = try await exec(
            store,
            "CREATE TRIGGER g AFTER INSERT ON other BEGIN INSERT INTO t VALUES (NEW.x, 'g'); SELECT 1; END; INSERT INTO other VALUES (7); INSERT INTO t VALUES (8, 'h')"
        )
        #expect(outcome.errors == "")
        #expect(try await store.history().map(\.short) == ["App: insert t id=7; insert t id=8"])
    }

    @Test func wrongUseIsToldFromWrongData() async throws {
        let store = try await CtlStore(Self.schema, tracking: nil)
        #expect(try await exec(store, "SELECT 1").status == .exited(69), "not tracked")
        try await store.succeed("track", ["t"])
        for arguments in [
            ["SELECT 1"], ["--author", "", "SELECT 1"], ["--author", "A\tB", "SELECT 1"], ["--author", "A"],
            ["--author", "A", "--context", "", "SELECT 1"], ["--nonsense"],
        ] {
            let outcome = try await store.ctl("exec", arguments)
            #expect(outcome.status == .exited(64), "\(arguments): \(outcome)")
            #expect(outcome.output == "" && outcome.errors != "", "\(arguments)")
        }
        #expect(try await Command(BuiltProducts.historyctl).run().status == .exited(64))
        #expect(try await Command(BuiltProducts.historyctl, ["nonsense"]).run().status == .exited(64))
        #expect(try await Command(BuiltProducts.historyctl, ["--help"]).run().status == .exited(0))
    }

    @Test(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"))
    func aStoreThatIsLockedIsTemporary() async throws {
        let store = try await CtlStore(Self.schema)
        let output = try await store.succeed(
            python: """
                import subprocess
                c = plain(); c.execute("BEGIN IMMEDIATE")
                ended = subprocess.run(["\(BuiltProducts.historyctl)", "exec", path, "--author", "A", "INSERT INTO t VALUES (1, 1)"], stderr=subprocess.PIPE)
                print(ended.returncode, ended.stderr.decode())
                """)
        #expect(
            output.hasPrefix("75 historyctl: The store \"\(store.path)\" is locked by another process."),
            "\(output)")
    }
}
