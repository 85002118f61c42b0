import Foundation
import Testing

/// What a plugin gets of what other processes write, as a whole: every byte but ids and times.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct EndToEndTests {
    struct Combination: Sendable, CustomTestStringConvertible {
        let journal: Journal
        let client: Writers.Client
        var testDescription: String { "\(journal), \(client)" }

        static let all = Journal.allCases.flatMap { journal in
            Writers.Client.allCases.map { Combination(journal: journal, client: $0) }
        }
    }

    private static let hookID = "731B1763-B3D9-5347-A2EA-0F59471AA60D"

    /// The call that one transaction makes of `audit/all` for one of its groups.
    private static func observation(
        _ token: Int, group: Int = 0, author: String?, context: String? = nil, changes: String...
    ) -> String {
        func quoted(_ text: String?) -> String { text.map { "\"\($0)\"" } ?? "null" }
        let origin = #","timestamp":"TIME","author":\#(quoted(author))}"#
        let changes = changes.map { "{" + $0 + origin }.joined(separator: ",")
        return
            #"{"jsonrpc":"2.0","id":ID,"method":"observe","params":{"store":"contacts","consumer":"MainApp","hook":"audit/all","#
            + #""hookID":"\#(hookID)","delivery":"STORE:\#(token)/MainApp/audit/all/\#(group)","#
            + #""transaction":{"token":"STORE:\#(token)","author":\#(quoted(author)),"context":\#(quoted(context)),"#
            + #""processID":\#(author == nil ? "null" : "WRITER"),"timestamp":"TIME"},"contexts":[\#(changes)]}}"#
    }

    private static let insertPerson =
        #""entityName":"person","operation":"insert","objectID":{"id":1},"objectIDURL":"x-history://STORE/person/p1""#
    private static let updatePerson =
        #""entityName":"person","operation":"update","objectID":{"id":1},"objectIDURL":"x-history://STORE/person/p1","changedProperties":["email","age"]"#
    private static let insertItem =
        #""entityName":"item","operation":"insert","objectID":{"code":"a/b"},"objectIDURL":"x-history://STORE/item/ta%2Fb""#
    private static let deletePerson =
        #""entityName":"person","operation":"delete","objectID":{"id":1},"objectIDURL":"x-history://STORE/person/p1","tombstone":{"attributes":{"name":"Ann \"A\""},"values":{"name":"Ann \"A\"","email":null},"deletedDate":"TIME"}"#

    @Test(
        "A declared writer's transaction is one call for each entity and operation", arguments: Combination.all)
    func declared(_ combination: Combination) async throws {
        try await withWorkbench(combination.journal) { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            let writer = try await bench.write(
                """
                INSERT INTO person VALUES (1, 'Ann "A"', 'ann@x', 7);
                INSERT INTO item VALUES ('a/b', 1.5);
                UPDATE person SET email = NULL, age = 8 WHERE id = 1;
                UPDATE person SET age = 8
                """,
                "DELETE FROM person",
                as: "Widget", context: "sync", from: combination.client)
            try await bench.calls(4, of: daemon)
            try await daemon.stop()
            #expect(
                try bench.calls().map { $0.normalized(processes: [writer: "WRITER"]) } == [
                    Self.observation(3, author: "Widget", context: "sync", changes: Self.insertPerson),
                    Self.observation(3, group: 1, author: "Widget", context: "sync", changes: Self.insertItem),
                    Self.observation(
                        3, group: 2, author: "Widget", context: "sync", changes: Self.updatePerson),
                    Self.observation(4, author: "Widget", context: "sync", changes: Self.deletePerson),
                ])
        }
    }

    @Test("A writer that declares nothing is told of as well", arguments: Combination.all)
    func undeclared(_ combination: Combination) async throws {
        try await withWorkbench(combination.journal) { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person VALUES (1, 'Ann \"A\"', 'ann@x', 7)", from: combination.client)
            try await bench.calls(1, of: daemon)
            try await bench.write("UPDATE person SET email = NULL, age = 8", from: combination.client)
            try await bench.calls(2, of: daemon)
            try await bench.write("DELETE FROM person", from: combination.client)
            try await bench.calls(3, of: daemon)
            try await daemon.stop()
            #expect(
                try bench.calls().map { $0.normalized() } == [
                    Self.observation(1, author: nil, changes: Self.insertPerson),
                    Self.observation(2, author: nil, changes: Self.updatePerson),
                    Self.observation(3, author: nil, changes: Self.deletePerson),
                ])
        }
    }

    @Test("A merge hook gets the batch with its changes and the contexts")
    func merge() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored("MainApp")),
                plugins: [PluginSetup(hooks: [#"{"name": "merge", "kind": "merge"}"#])])
            let daemon = try await bench.startDaemon()
            let writer = try await bench.write(
                "INSERT INTO person VALUES (1, 'Ann', NULL, 7); INSERT INTO item VALUES ('a/b', 1.5)",
                as: "Widget", context: "sync")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            #expect(
                try bench.calls().map { $0.normalized(processes: [writer: "WRITER"]) } == [
                    #"{"jsonrpc":"2.0","id":ID,"method":"merge","params":{"store":"contacts","consumer":"MainApp","hook":"audit/merge","#
                        + #""hookID":"107DBCC7-D11E-54CA-919C-9933C542A90D","delivery":"STORE:2-2/MainApp/audit/merge","#
                        + #""transactions":[{"token":"STORE:2","author":"Widget","context":"sync","processID":WRITER,"timestamp":"TIME","#
                        + #""changes":[{\#(Self.insertPerson)},{\#(Self.insertItem)}]}],"#
                        + #""contexts":[{"name":"view","kind":"replica","path":"\#(bench.path("replica.sqlite"))"}]}}"#
                ])
        }
    }

    @Test("A oneshot plugin gets the parameters on standard input and who calls in its environment")
    func oneshot() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(), plugins: [PluginSetup(behaviour: .recordInShell, mode: "oneshot")])
            let daemon = try await bench.startDaemon()
            let writer = try await bench.write(
                "INSERT INTO person VALUES (1, 'Ann', NULL, 7)", as: "Widget", from: .shell)
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            let request = Self.observation(1, author: "Widget", changes: Self.insertPerson)
            let params = request.dropFirst(#"{"jsonrpc":"2.0","id":ID,"method":"observe","params":"#.count)
                .dropLast()
            #expect(
                try bench.calls().map { $0.normalized(processes: [writer: "WRITER"]) } == [
                    "observe contacts MainApp audit/all STORE:1/MainApp/audit/all/0 \(params)"
                ])
        }
    }

    @Test("A group of more than 10,000 objects comes in parts")
    func parts() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20001) INSERT INTO person (id) SELECT i FROM n",
                as: "Widget")
            let calls = try await bench.calls(3, of: daemon)
            try await daemon.stop()
            let parts = calls.map { call in
                call.text.firstMatch(of: /"part":(\{.*?\}),/).map { String($0.1) } ?? "none"
            }
            #expect(
                parts == [
                    #"{"index":0,"last":false}"#, #"{"index":1,"last":false}"#, #"{"index":2,"last":true}"#,
                ])
            #expect(calls.flatMap { $0.params.contexts.map(\.key) } == (1...20001).map { "p\($0)" })
            #expect(Set(calls.map(\.params.delivery)).count == 3)
        }
    }
}
