import Foundation
import TestSupport
import Testing

/// No change is ever given to an author who did not make it.
///
/// Each row tells who inserted it, in which transaction, and the history must say the same.
@Suite(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"), .timeLimit(.minutes(60)))
struct CtlAuthorTests {
    static let schema = "CREATE TABLE row (id INTEGER PRIMARY KEY, who TEXT, tx TEXT);"

    /// Connections that take turns, in one process.
    @Test(arguments: CtlStore.Journal.allCases, 0..<4)
    func writersWhoTakeTurnsAreToldApart(journal: CtlStore.Journal, seed: Int) async throws {
        let store = try await CtlStore(Self.schema, journal: journal)
        try await store.succeed(
            python: Self.writing + """

                random.seed(\(seed))
                writers = [Writer(who) for who in ["", "A", "B", "@C", "A", ""]]
                for _ in range(150): random.choice(writers).transaction()
                """)
        try await expectEachToItsAuthor(store, "seed \(seed)")
    }

    /// Processes that get in each other's way.
    @Test(arguments: CtlStore.Journal.allCases)
    func writersAtTheSameTimeAreToldApart(journal: CtlStore.Journal) async throws {
        let store = try await CtlStore(Self.schema, journal: journal)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for who in ["", "A", "B", "@C", ""] {
                group.addTask {
                    try await store.succeed(
                        python: Self.writing + """

                            writer = Writer("\(who)")
                            for _ in range(60): writer.transaction()
                            """)
                }
            }
            try await group.waitForAll()
        }
        try await expectEachToItsAuthor(store, "")
    }

    /// A process that is killed within its transaction leaves nothing in the history.
    @Test(arguments: CtlStore.Journal.allCases)
    func whatAKilledWriterDidIsNoHistory(journal: CtlStore.Journal) async throws {
        let store = try await CtlStore(Self.schema, journal: journal)
        let outcome = try await store.python(
            """
            c = loaded("A")
            c.execute("INSERT INTO row VALUES (1, 'A', 'one')")
            c.execute("PRAGMA cache_size = 1")
            c.execute("BEGIN")
            for i in range(2000): c.execute("INSERT INTO row VALUES (NULL, 'A', 'two')")
            os.kill(os.getpid(), 9)
            """)
        #expect(outcome.status == .killed(signal: 9))
        try await store.sql("INSERT INTO row VALUES (NULL, '', 'three');")
        #expect(try await store.history().map(\.short) == ["A: insert row id=1", "-: insert row id=2"])
    }

    /// As with autocommit=True, which Python has from 3.12 on: `with connection` does nothing.
    @Test func aTransactionEndsWithoutThatOfTheConnection() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        try await store.succeed(
            python: """
                class Autocommit(sqlite3.Connection):
                    def __exit__(self, *_): return False

                c = sqlite3.connect(path, isolation_level=None, factory=Autocommit)
                author = Author(c, "A", "c")
                with author.transaction(): c.execute("INSERT INTO t VALUES (1)")
                assert not c.in_transaction
                with contextlib.suppress(KeyError), author.transaction():
                    c.execute("INSERT INTO t VALUES (2)")
                    raise KeyError
                with contextlib.suppress(sqlite3.IntegrityError), author.transaction():
                    c.execute("INSERT OR ROLLBACK INTO t VALUES (3), (3)")
                c.execute("INSERT INTO t VALUES (4)")
                """)
        #expect(try await store.history().map(\.short) == ["A: insert t id=1", "-: insert t id=4"])
    }

    /// What the extension refuses, the triggers would take for another author, or for none in 1970.
    @Test func aNameThatWouldBeReadOtherwiseIsRefused() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        try await store.succeed(
            python: """
                for who in ["A\\tB"], [""], ["x" * 256], ["é" * 128], ["A", "c\\nd"], ["A\\0"], [7]:
                    try: Author(plain(), *who)
                    except ValueError as error: assert " must " in str(error), error
                    else: raise SystemExit(f"{who} is taken")
                for who in ["é" * 127], ["A", ""], ["A", "x" * 255]: Author(plain(), *who)
                """)
    }

    /// In Python: a writer of any kind, whose transactions differ in all that matters.
    private static let writing = #"""
        class Writer:
            def __init__(self, who):
                self.who = who.lstrip("@")
                self.author = Author(plain(), self.who) if who[:1] == "@" else None
                self.connection = self.author.connection if self.author else loaded(self.who) if who else plain()
                self.n = 0

            def insert(self, tx, rows=1):
                self.connection.execute(
                    "INSERT INTO row (who, tx) VALUES " + ", ".join(["(?, ?)"] * rows), [self.who, tx] * rows)

            def transaction(self):
                self.n += 1
                tx = f"{self.who} {os.getpid()} {id(self)} {self.n}"
                kind = random.choice(["autocommit", "plain", "savepoints", "rollback", "failure", "savepoint only"])
                if self.author:
                    try:
                        with self.author.transaction():
                            self.savepoints(tx)
                            if kind == "rollback": raise KeyError
                    except KeyError: pass
                    return
                c = self.connection
                if kind == "autocommit": self.insert(tx, 3)
                elif kind == "savepoint only":
                    c.execute("SAVEPOINT outer"); self.savepoints(tx); c.execute("RELEASE outer")
                else:
                    c.execute("BEGIN IMMEDIATE")
                    if kind == "savepoints": self.savepoints(tx)
                    else: self.insert(tx, 2)
                    if kind == "failure":
                        try: c.execute("INSERT INTO row SELECT id, 'wrong', 'wrong' FROM row ORDER BY id DESC LIMIT 1")
                        except sqlite3.IntegrityError: pass
                    c.execute("ROLLBACK" if kind == "rollback" else "COMMIT")

            def savepoints(self, tx):
                for _ in range(random.randrange(4)):
                    self.connection.execute("SAVEPOINT s"); self.insert(tx, random.randrange(1, 3))
                    if random.random() < 0.5: self.connection.execute("ROLLBACK TO s")
                    self.connection.execute("RELEASE s")
                self.insert(tx)
        """#

    private func expectEachToItsAuthor(_ store: CtlStore, _ comment: Comment) async throws {
        var rows: [String: (who: String, tx: String)] = [:]
        for line in try await store.sql("SELECT id, who, tx FROM row;").split(separator: "\n") {
            let fields = line.split(separator: "|", omittingEmptySubsequences: false).map(String.init)
            rows["insert row id=\(fields[0])"] = (fields[1], fields[2])
        }
        var seen: Set<String> = []
        var transactions: [String: String] = [:]
        for transaction in try await store.history() {
            for change in transaction.changes {
                let row = try #require(rows[change.short], "\(comment): \(change.short) is not in the store")
                #expect(row.who == transaction.author ?? "", comment)
                #expect(seen.insert(change.short).inserted, "\(comment): \(change.short) came twice")
                guard transaction.author != nil else { continue }
                #expect(Set(transaction.changes.compactMap { rows[$0.short]?.tx }) == [row.tx], comment)
                #expect(
                    transactions.updateValue(transaction.token, forKey: row.tx) ?? transaction.token
                        == transaction.token, comment)
            }
        }
        #expect(seen.count == rows.count, comment)
    }
}
