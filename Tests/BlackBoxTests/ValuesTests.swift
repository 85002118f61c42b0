import Foundation
import TestSupport
import Testing

/// Rows that come with the objects of calls and feeds.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ValuesTests {
    @Test(
        "A hook and a feed with values get each row as it is at the end of the history",
        arguments: Journal.allCases)
    func rows(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.feeding(
                        #""name": "live", "values": true, "maximumValueBytes": 5"#, #""name": "plain""#)),
                plugins: [
                    PluginSetup(hooks: [
                        #"{"name": "rows", "kind": "observer", "entity": "person", "values": true}"#,
                        #"{"name": "plain", "kind": "observer", "entity": "person"}"#,
                        #"{"name": "merge", "kind": "merge", "values": true, "maximumValueBytes": "4KiB"}"#,
                    ])
                ])
            let daemon = try await bench.startDaemon()
            let (feed, plain) = (try bench.listen(), try bench.listen(to: "plain"))
            try await feed.lines(1, of: daemon)
            try await plain.lines(1, of: daemon)
            let writer = try await bench.write(
                """
                INSERT INTO person (id, name, age) VALUES (1, 'Ada Lovelace', 36), (2, 'Grace', 2.5);
                INSERT INTO person (id) VALUES (3); DELETE FROM person WHERE id = 3; INSERT INTO item VALUES ('x', 2)
                """, as: "Widget")
            let store = try await bench.id()
            let calls = try await bench.calls(5, of: daemon)
            func call(_ hook: String) -> String {
                calls.first { $0.params.hook == "audit/\(hook)" }?.normalized(processes: [writer: "PID"]) ?? ""
            }
            let header = #""objectIDURL":"x-history://STORE/person/"#
            let end = #","timestamp":"TIME","author":"Widget"}"#
            #expect(
                call("rows").hasSuffix(
                    #""timestamp":"TIME"},"valuesAt":"STORE:5","contexts":["#
                        + #"{"entityName":"person","operation":"insert","objectID":{"id":1},\#(header)p1","#
                        + #""values":{"id":1,"name":"Ada Lovelace","email":null,"age":36}\#(end),"#
                        + #"{"entityName":"person","operation":"insert","objectID":{"id":2},\#(header)p2","#
                        + #""values":{"id":2,"name":"Grace","email":null,"age":2.5}\#(end),"#
                        // It is gone by then.
                        + #"{"entityName":"person","operation":"insert","objectID":{"id":3},\#(header)p3"\#(end)]}}"#
                ),
                "\(call("rows"))")
            #expect(!call("plain").isEmpty && !call("plain").contains("values"))
            #expect(
                call("merge").contains(
                    #""objectIDURL":"x-history://STORE/item/tx","values":{"code":"x","price":2.0}}"#))
            let lines = try await feed.lines(2, of: daemon)
            #expect(lines[1] == "5 Widget +p1 +p2 +tx")
            #expect(
                feed.program.output.wholeLines[1].contains(
                    #""valuesAt":"\#(store):5","insertedObjectIDs":[{"entityName":"person","objectID":{"id":1},"objectIDURL":"x-history://\#(store)/person/p1","values":{"id":1,"name":"Ada L","email":null,"age":36},"cutValues":{"name":12}}"#
                ), "\(feed.program.output)")
            try await plain.lines(2, of: daemon)
            #expect(!plain.program.output.contains("values"))
            try await feed.kill()
            try await Self.readInPython(bench)
            try await daemon.stop()
        }
    }

    private static func readInPython(_ bench: Workbench) async throws {
        let printed = try await Command(
            Products.python,
            [
                "-B", "-c",
                """
                import sys, historyd
                for item in historyd.Feed('MainApp', 'live', socket_path=sys.argv[1]):
                    first, second, third = item.inserted
                    print(first.values['name'], first.cut_values, second.values['age'], third.values, item.values_at[-2:])
                    break
                """, bench.controlSocket,
            ], environment: ["PYTHONPATH": Sources.path("config/python")]
        ).succeed()
        #expect(printed == "Ada L {'name': 12} 2.5 {'code': 'x', 'price': 2.0} :5\n")
    }
}
