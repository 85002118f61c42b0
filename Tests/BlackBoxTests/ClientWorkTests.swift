import Foundation
import TestSupport
import Testing

/// The same work done by clients that exist, each in its own manner: one history.
///
/// Their programs are in the folder `Clients`.
@Suite(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"), .timeLimit(.minutes(60)))
struct ClientWorkTests {
    private static let schema = """
        CREATE TABLE author (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, score REAL);
        CREATE TABLE book (id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL,
            author_id INTEGER NOT NULL REFERENCES author ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
        CREATE TABLE tag (code TEXT NOT NULL PRIMARY KEY, label TEXT) WITHOUT ROWID;
        """

    /// What each must have left: a line for each transaction that was committed and changed something.
    private static let expected: [(number: Int, changes: [String])] = [
        (
            5,
            [change("author/p1"), change("author/p2"), change("book/p1"), change("book/p2"), change("book/p3")]
        ),
        (7, [change("author/p1", "update", #","changedProperties":["name"]"#), change("tag/ta")]),
        (9, [change("tag/ta", "update", #","changedProperties":["label"]"#), change("tag/tb")]),
        (
            11,
            [
                change("book/p2", "update", #","changedProperties":["title"]"#),
                change("author/p2", "update", #","changedProperties":["score"]"#),
            ]
        ),
        (
            14,
            [
                change("book/p1", "delete", tombstone("One")), change("book/p3", "delete", tombstone("Three")),
                change("author/p1", "delete"),
            ]
        ),
        // A row that another one's unique name took the place of, and what hung on it.
        (
            17,
            [change("book/p2", "delete", tombstone("TWO")), change("author/p2", "delete"), change("author/p4")]
        ),
    ]

    private static func change(_ path: String, _ operation: String = "insert", _ more: String = "") -> String {
        let parts = path.split(separator: "/")
        let key = parts[1].dropFirst()
        let objectID = parts[1].first == "p" ? #"{"id":\#(key)}"# : #"{"code":"\#(key)"}"#
        return
            #"{"entityName":"\#(parts[0])","operation":"\#(operation)","objectID":\#(objectID),"objectIDURL":"x-history://STORE/\#(path)"\#(more)}"#
    }

    private static func tombstone(_ title: String) -> String {
        #","tombstone":{"attributes":{"title":"\#(title)"},"values":{"title":"\#(title)"},"deletedDate":"TIME"}"#
    }

    static let alwaysThere = ["with_shell.sh", "with_sqlite3.py", "with_function.py"]
    static let packages = [
        "with_sqlite3.py", "with_apsw.py", "with_sqlalchemy.py", "with_django.py", "with_node.mjs",
    ]

    @Test(arguments: alwaysThere, CtlStore.Journal.allCases)
    func program(_ name: String, journal: CtlStore.Journal) async throws {
        try await expectWork(
            name, interpreter: name.hasSuffix(".sh") ? "/bin/sh" : Python.path, journal: journal)
    }

    @Test(
        .enabled(if: ClientPackages.areThere, ClientPackages.missing), arguments: packages,
        CtlStore.Journal.allCases)
    func package(_ name: String, journal: CtlStore.Journal) async throws {
        let interpreter = name.hasSuffix(".mjs") ? ClientPackages.node : ClientPackages.python
        try await expectWork(name, interpreter: interpreter, journal: journal)
    }

    private func expectWork(_ name: String, interpreter: String, journal: CtlStore.Journal) async throws {
        for author in ["App", nil] {
            let store = try await CtlStore(
                Self.schema, journal: journal, tracking: ["--all", "--preserve", "book.title"])
            let program = Sources.path("Tests/BlackBoxTests/Clients/" + name)
            let arguments = [program, store.path, try await BuiltProducts.libhistory()]
            try await Command(interpreter, arguments + (author.map { [$0] } ?? [])).succeed()
            let text = try await store.historyText()
            if author == nil {
                // Undeclared changes may be grouped or split by time.
                let begin =
                    /\{"token":"STORE:\d+","author":null,"context":null,"processID":null,"timestamp":"TIME","changes":\[/
                let lines = text.split(separator: "\n")
                #expect(lines.allSatisfy { $0.prefixMatch(of: begin) != nil }, "\(text)")
                let changes = lines.map { $0.replacing(begin, with: "").dropLast(2) }.joined(separator: ",")
                #expect(changes == Self.expected.flatMap(\.changes).joined(separator: ","), "\(name)")
            } else {
                let lines = Self.expected.map { number, changes in
                    #"{"token":"STORE:\#(number)","author":"App","context":"client","processID":PROCESS,"timestamp":"TIME","changes":[\#(changes.joined(separator: ","))]}"#
                        + "\n"
                }
                #expect(text == lines.joined(), "\(name)")
            }
        }
    }
}
