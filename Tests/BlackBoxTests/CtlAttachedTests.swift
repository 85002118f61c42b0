import Foundation
import TestSupport
import Testing

/// Several stores on one connection, which come and go.
@Suite(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"), .timeLimit(.minutes(60)))
struct CtlAttachedTests {
    private static let schema = CtlExtensionTests.schema

    /// `run(connection, sql…)`: what fails is printed. `number(…)`: the token's store, by its place among the stores,
    /// and its number.
    private static let helpers = """
        stores = sys.argv[3:]
        def run(c, *statements):
            for sql in statements:
                try: c.execute(sql).fetchall()
                except sqlite3.Error as error: print(error)
        def store_id(path):
            with contextlib.closing(sqlite3.connect(path)) as c:
                return c.execute("SELECT value FROM historyd_store WHERE key = 'id'").fetchone()[0]
        def number(c, *schema):
            token = c.execute("SELECT history_token(" + "?" * len(schema) + ")", schema).fetchone()[0]
            if token is None: return None
            store, number = token.split(":")
            return "abc"[[store_id(path) for path in [path] + stores].index(store)] + number
        INSERT = "INSERT INTO %s.t DEFAULT VALUES"

        """

    /// What an SQLite before 3.39 says of itself; it has no `sqlite3_db_name()`.
    private static let old = """
        int sqlite3_libversion_number(void) { return 3038005; }
        const char *sqlite3_db_name(void *db, int number) { (void)db; (void)number; __builtin_trap(); }
        """

    /// The stores a, b, c after a program that is connected to a.
    private func stores(after code: String, isOld: Bool = false) async throws -> (
        output: String, histories: [[String]]
    ) {
        let folder = try TemporaryFolder()
        var environment: [String: String?] = [:]
        if isOld {
            try Self.old.write(toFile: folder.file("old.c"), atomically: true, encoding: .utf8)
            try await Command("cc", ["-shared", "-fPIC", "-o", folder.file("old.so"), folder.file("old.c")])
                .succeed()
            environment["LD_PRELOAD"] = folder.file("old.so")
        }
        var stores: [CtlStore] = []
        for _ in 0..<3 { stores.append(try await CtlStore(Self.schema)) }
        let script = Python.prelude + Self.helpers + code
        let output = try await Command(
            Python.path,
            ["-c", script, stores[0].path, BuiltProducts.libhistory()] + stores.dropFirst().map(\.path),
            environment: environment
        ).succeed()
        var histories: [[String]] = []
        for store in stores { histories.append(try await store.history().map(\.short)) }
        return (output, histories)
    }

    /// A transaction over two stores is one transaction in each.
    @Test(arguments: [false, true]) func anAttachedStoreIsRecordedToo(isOld: Bool) async throws {
        let (_, histories) = try await stores(
            after: """
                c = loaded("A")
                run(c, f"ATTACH '{stores[0]}' AS b", "BEGIN", *[INSERT % s for s in ("main", "b") * 2], "COMMIT", INSERT % "b")
                """, isOld: isOld)
        #expect(histories[0] == ["A: insert t id=1; insert t id=2"])
        #expect(histories[1] == ["A: insert t id=1; insert t id=2", "A: insert t id=3"])
    }

    /// Detaching another store changes the numbers of those after it.
    @Test(arguments: [false, true]) func aTransactionStaysOneWhileAnotherStoreIsDetached(isOld: Bool)
        async throws
    {
        let (output, histories) = try await stores(
            after: """
                c = loaded("A")
                run(c, f"ATTACH '{stores[0]}' AS b", f"ATTACH '{stores[1]}' AS c")
                run(c, "BEGIN", INSERT % "c", "DETACH b", INSERT % "c", "COMMIT")
                """, isOld: isOld)
        #expect(output == "")
        #expect(histories[2] == ["A: insert t id=1; insert t id=2"])
    }

    /// The pages of a file that is attached again are counted from the start.
    @Test(arguments: [true, false])
    func eachTransactionIsOneAlsoWhereTheStoreIsAttachedForIt(isExplicit: Bool) async throws {
        let (output, histories) = try await stores(
            after: """
                c = sqlite3.connect(":memory:", isolation_level=None)
                c.enable_load_extension(True)
                c.load_extension(library)
                run(c, "SELECT history_author('A')", "PRAGMA temp.user_version = 7")
                for i in range(3):
                    run(c, f"ATTACH '{stores[0]}' AS b")
                    run(c, *(["BEGIN", INSERT % "b", "COMMIT"] if \(isExplicit ? "True" : "False") else [INSERT % "b"]), "DETACH b")
                print(c.execute("PRAGMA temp.user_version").fetchone()[0], c.total_changes)
                """)
        #expect(output == "7 6\n")
        #expect(histories[1] == (1...3).map { "A: insert t id=\($0)" })
    }

    /// Another database may take the place of main, whose pages are counted from the start.
    @Test func eachTransactionIsOneAlsoWhereADatabaseIsReadFromMemory() async throws {
        let (output, histories) = try await stores(
            after: """
                c = loaded("A")
                # A database in memory has no log.
                run(c, "PRAGMA journal_mode = DELETE")
                for i in range(5):
                    run(c, "BEGIN", *[INSERT % "main"] * 2, "COMMIT")
                    c.deserialize(c.serialize())
                print(c.execute("SELECT count(DISTINCT origin), count(*) FROM historyd_change").fetchone(), number(c))
                """)
        #expect(output == "(5, 10) a10\n")
        #expect(histories[0] == ["A: insert t id=1; insert t id=2"])
    }

    /// What a rolled back transaction wrote to another store says nothing of the ones after it.
    @Test func transactionsAfterARollbackStaySeveral() async throws {
        let (_, histories) = try await stores(
            after: """
                c = loaded("A")
                run(c, f"ATTACH '{stores[0]}' AS b", "BEGIN", INSERT % "b", INSERT % "main", "ROLLBACK", INSERT % "main", INSERT % "main")
                """)
        #expect(histories == [["A: insert t id=1", "A: insert t id=2"], [], []])
    }

    /// A savepoint takes back what was recorded in one store; in the other one it stays.
    @Test(arguments: ["A", nil]) func theAuthorStaysWhereASavepointWasRolledBack(author: String?) async throws {
        let (output, histories) = try await stores(
            after: """
                c = loaded(\(author.map { "'\($0)'" } ?? ""))
                run(c, f"ATTACH '{stores[0]}' AS b", "BEGIN", "SAVEPOINT s", INSERT % "b", "ROLLBACK TO s", INSERT % "main")
                run(c, "SELECT history_author('B')", INSERT % "main", "COMMIT")
                """)
        #expect(
            output
                == "history_author: the author cannot change within a transaction that has recorded changes\n")
        if let author {
            #expect(histories == [["\(author): insert t id=1; insert t id=2"], [], []])
        } else {
            #expect(histories[0].allSatisfy { $0.hasPrefix("-: ") }, "\(histories)")
        }
    }

    // MARK: Tokens

    @Test func aTokenIsOfTheStoreThatWasWrittenLast() async throws {
        let (output, _) = try await stores(
            after: """
                c = loaded("A")
                run(c, f"ATTACH '{stores[0]}' AS b", f"ATTACH '{stores[1]}' AS c")
                say = lambda: print(number(c), number(c, "main"), number(c, "B"), number(c, "c"), number(c, "temp"))
                say(); run(c, INSERT % "main"); say(); run(c, INSERT % "b"); say(); run(c, INSERT % "main"); say()
                run(c, "BEGIN", INSERT % "b", INSERT % "main"); say(); run(c, "COMMIT"); say()
                run(c, "SELECT history_token('d')")
                print(c.execute("SELECT history_token(NULL)").fetchone()[0])
                """)
        #expect(
            output == """
                None None None None None
                a1 a1 None None None
                b1 a1 b1 None None
                a2 a2 b1 None None
                a2 a2 b1 None None
                a3 a3 b2 None None
                history_token: unknown database d
                None

                """)
    }

    @Test func aTokenIsOfTheStoreThatIsThere() async throws {
        let (output, _) = try await stores(
            after: """
                c = loaded("A")
                run(c, f"ATTACH '{stores[0]}' AS g", *[INSERT % "g"] * 3); print(number(c))
                run(c, "DETACH g", f"ATTACH '{stores[1]}' AS g"); print(number(c))
                run(c, INSERT % "g"); print(number(c))
                run(c, "DETACH g", f"ATTACH '{stores[0]}' AS g"); print(number(c))
                """)
        #expect(output == "b3\nNone\nc1\nb3\n")
    }

    @Test func aStoreThatWasTrackedAgainHasOtherTokens() async throws {
        let (output, _) = try await stores(
            after: """
                import subprocess
                c = loaded("A")
                run(c, *[INSERT % "main"] * 3)
                print(number(c))
                for command in ["untrack", path, "--purge"], ["track", path, "--all"]:
                    subprocess.run(["\(BuiltProducts.historyctl)", *command], check=True, stdout=subprocess.DEVNULL)
                print(number(c))
                run(c, INSERT % "main")
                print(number(c))
                """)
        #expect(output == "a3\nNone\na1\n")
    }

    /// A backup that is restored into the connection has the store's id, and an older history.
    @Test func aRestoredStoreHasTheTokensOfItsHistory() async throws {
        let (output, _) = try await stores(
            after: """
                c = loaded("A")
                kept = sqlite3.connect(":memory:")
                run(c, INSERT % "main")
                c.backup(kept)
                run(c, *[INSERT % "main"] * 3); print(number(c))
                kept.backup(c); print(number(c))
                run(c, INSERT % "main"); print(number(c))
                kept.backup(c)
                other = loaded("B")
                run(other, *[INSERT % "main"] * 5); print(number(c), number(other))
                """)
        #expect(output == "a4\na1\na2\na1 a6\n")
    }

    /// Changes that were looked at and then rolled back are no limit for the next look.
    @Test func aTokenIsFoundAfterUndeclaredChangesThatWereRolledBack() async throws {
        let (output, _) = try await stores(
            after: """
                c = loaded("A")
                run(c, INSERT % "main", "SELECT history_author(NULL)", "BEGIN", INSERT % "main"); print(number(c))
                run(c, "ROLLBACK", "SELECT history_author('A')", INSERT % "main"); print(number(c))
                """)
        #expect(output == "a1\na2\n")
    }

    /// A cleanup takes the changes, and leaves the token.
    @Test func aTokenStaysAfterACleanup() async throws {
        let (output, _) = try await stores(
            after: """
                c = loaded("A")
                other = loaded("B")
                def clean():    # as the daemon does it
                    run(other, "DELETE FROM historyd_change WHERE id < (SELECT max(id) FROM historyd_change)",
                        "UPDATE historyd_change SET origin = 0, kind = 3, object = NULL, detail = NULL",
                        "REPLACE INTO historyd_store SELECT 'floor', max(id) FROM historyd_change")
                run(c, INSERT % "main", INSERT % "main"); print(number(c))
                clean(); print(number(c))
                run(other, INSERT % "main"); print(number(other)); clean(); print(number(c), number(other))
                run(c, INSERT % "main"); print(number(c))
                """)
        #expect(output == "a2\na2\na3\na2 a3\na4\n")
    }
}
