import Foundation
import TestSupport
import Testing

/// Each program that people write with is recorded, with its author if it has said it.
@Suite(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"), .timeLimit(.minutes(60)))
struct CtlClientTests {
    enum Client: String, CaseIterable, Sendable {
        case shell
        case shellThatLoads
        case shellThatLoadsBySQL
        case python
        case pythonThatLoads
        case pythonThatLoadsBySQL
        case pythonThatRegistersAFunction

        var isDeclared: Bool { self != .shell && self != .python }
    }

    /// Statements of two transactions that are committed, and of two that are not.
    private static let first = [
        "INSERT INTO person VALUES (1, 'Ann'), (2, 'Bob')", "SAVEPOINT s",
        "INSERT INTO person VALUES (3, 'Cid')",
        "ROLLBACK TO s", "UPDATE person SET name = 'Bert' WHERE id = 2", "RELEASE s",
        "UPDATE person SET name = name",
    ]
    private static let undone = ["INSERT INTO person VALUES (9, 'Zoe')", "DELETE FROM person WHERE id = 1"]
    private static let second = "INSERT INTO person SELECT id + 10, name FROM person"

    @Test(arguments: Client.allCases, CtlStore.Journal.allCases)
    func isRecorded(client: Client, journal: CtlStore.Journal) async throws {
        let store = try await CtlStore(
            "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT);", journal: journal)
        switch client {
        case .shell, .shellThatLoads, .shellThatLoadsBySQL:
            let load =
                switch client {
                case .shellThatLoads: ".load \(try await BuiltProducts.libhistory())\n"
                case .shellThatLoadsBySQL:
                    "SELECT load_extension('\(try await BuiltProducts.libhistory())', 'sqlite3_history_init');"
                default: ""
                }
            let declare = client.isDeclared ? "SELECT history_author('App', 'view');" : ""
            try await store.sql(
                """
                \(load)
                \(declare)
                BEGIN; \(Self.first.joined(separator: "; ")); COMMIT;
                BEGIN; \(Self.undone.joined(separator: "; ")); ROLLBACK;
                \(Self.second);
                """)
        case .python, .pythonThatLoads, .pythonThatLoadsBySQL:
            let open =
                switch client {
                case .pythonThatLoads: "loaded('App', 'view')"
                case .pythonThatLoadsBySQL: "loaded('App', 'view', by_sql=True)"
                default: "plain()"
                }
            try await store.succeed(
                python: """
                    c = \(open)
                    for sql in ["BEGIN"] + \(Self.list(Self.first)) + ["COMMIT", "BEGIN"] + \(Self.list(Self.undone)) + ["ROLLBACK", \(Self.list([Self.second]))[0]]:
                        c.execute(sql)
                    """)
        case .pythonThatRegistersAFunction:
            try await store.succeed(
                python: """
                    app = Author(plain(), "App", "view")
                    with app.transaction() as c:
                        for sql in \(Self.list(Self.first)): c.execute(sql)
                    try:
                        with app.transaction() as c:
                            for sql in \(Self.list(Self.undone)): c.execute(sql)
                            raise KeyError
                    except KeyError: pass
                    with app.transaction() as c: c.execute(\(Self.list([Self.second]))[0])
                    """)
        }

        let url = "x-history://STORE/person/p"
        func change(_ operation: String, _ id: Int, _ more: String = "") -> String {
            #"{"entityName":"person","operation":"\#(operation)","objectID":{"id":\#(id)},"objectIDURL":"\#(url)\#(id)"\#(more)}"#
        }
        let firstChanges = [
            change("insert", 1), change("insert", 2), change("update", 2, #","changedProperties":["name"]"#),
        ]
        let secondChanges = [change("insert", 11), change("insert", 12)]
        guard client.isDeclared else {
            // Undeclared changes may be grouped or split by time, so they are looked at one by one.
            let transactions = try await store.history()
            #expect(transactions.allSatisfy { $0.author == nil && $0.context == nil && $0.processID == nil })
            #expect(
                transactions.flatMap { $0.changes.map(\.short) } == [
                    "insert person id=1", "insert person id=2", "update person id=2 name",
                    "insert person id=11", "insert person id=12",
                ])
            return
        }
        let text = try await store.historyText()
        // How many numbers a rolled-back change takes is nobody's business.
        let last = try #require(text.firstMatch(of: /STORE:(\d+)","author":"App"[^\n]*\n$/)).output.1
        func line(_ number: some StringProtocol, _ changes: [String]) -> String {
            #"{"token":"STORE:\#(number)","author":"App","context":"view","processID":PROCESS,"timestamp":"TIME","changes":[\#(changes.joined(separator: ","))]}"#
                + "\n"
        }
        #expect(text == line("3", firstChanges) + line(last, secondChanges))
    }

    /// A list in Python's own form, which for plain ASCII is JSON's.
    private static func list(_ statements: [String]) -> String {
        "[" + statements.map { "\"\($0)\"" }.joined(separator: ", ") + "]"
    }
}
