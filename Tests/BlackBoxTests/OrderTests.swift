import Foundation
import Testing

/// Who is told of what, and in which order.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct OrderTests {
    @Test("Groups come in the order of first occurrence, hooks in the manifest's, one call each")
    func groupsAndHooks() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        name: "b",
                        hooks: [
                            #"{"name": "people", "kind": "observer", "entity": "person"}"#,
                            #"{"name": "all", "kind": "observer"}"#,
                        ]),
                    PluginSetup(
                        name: "a", behaviour: .recordInShell, mode: "oneshot",
                        hooks: [
                            #"{"name": "inserts", "kind": "observer", "operation": "insert"}"#,
                            #"{"name": "changed", "kind": "observer", "entity": "*", "operation": ["update", "delete"]}"#,
                        ]),
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write(
                """
                INSERT INTO item VALUES ('x', 1), ('y', 2);
                INSERT INTO person (id, age) VALUES (5, 1), (6, 1);
                UPDATE item SET price = 3 WHERE code = 'x';
                INSERT INTO person (id, age) VALUES (7, 1);
                DELETE FROM person WHERE id = 6;
                INSERT INTO item VALUES ('z', 2);
                UPDATE person SET age = 2
                """,
                "INSERT INTO item VALUES ('w', 1)", as: "Widget")
            try await bench.calls(15, of: daemon)
            try await daemon.stop()
            #expect(
                try bench.calls().map(\.summary) == [
                    "b/all MainApp 10 Widget item insert tx ty tz",
                    "a/inserts MainApp 10 Widget item insert tx ty tz",
                    "b/people MainApp 10 Widget person insert p5 p6 p7",
                    "b/all MainApp 10 Widget person insert p5 p6 p7",
                    "a/inserts MainApp 10 Widget person insert p5 p6 p7",
                    "b/all MainApp 10 Widget item update tx",
                    "a/changed MainApp 10 Widget item update tx",
                    "b/people MainApp 10 Widget person delete p6",
                    "b/all MainApp 10 Widget person delete p6",
                    "a/changed MainApp 10 Widget person delete p6",
                    "b/people MainApp 10 Widget person update p5 p7",
                    "b/all MainApp 10 Widget person update p5 p7",
                    "a/changed MainApp 10 Widget person update p5 p7",
                    "b/all MainApp 11 Widget item insert tw",
                    "a/inserts MainApp 11 Widget item insert tw",
                ])
        }
    }

    private static let inserts = [
        ("MainApp", "1"), ("Widget", "2"), ("Batch", "3"), (nil, "4"), ("Stranger", "5"),
        ("NSCloudKitMirroringDelegate.import", "6"), ("Importer", "7"), ("Widget", "8"), ("MainApp", "9"),
    ]

    @Test(
        "All but one's own, each once; batch authors get nothing",
        arguments: [
            (#""unlistedAuthors": "deliver""#, [2, 3, 4, 5, 8], [1, 3, 4, 5, 9]),
            (#""unlistedAuthors": "ignore""#, [2, 3, 8], [1, 3, 9]),
            (
                #""unlistedAuthors": "deliver", "includingMirroring": true, "mirroringAuthors": ["Importer"]"#,
                [2, 3, 4, 5, 6, 7, 8], [1, 3, 4, 5, 6, 7, 9]
            ),
        ])
    func authors(_ rule: String, _ main: [Int], _ widget: [Int]) async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: #"[{"name": "MainApp"}, {"name": "Widget"}, {"name": "Batch", "batch": true}]"#,
                    more: rule.contains("mirroringAuthors")
                        ? rule : rule + #", "mirroringAuthors": ["Importer"]"#))
            let daemon = try await bench.startDaemon()
            for (author, id) in Self.inserts {
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: author)
            }
            try await bench.calls(main.count + widget.count, of: daemon)
            try await daemon.stop()
            let calls = try bench.calls()
            func got(_ consumer: String) -> [Int] {
                calls.filter { $0.params.consumer == consumer }.flatMap {
                    $0.params.contexts.compactMap { Int($0.key.dropFirst()) }
                }
            }
            #expect(got("MainApp") == main)
            #expect(got("Widget") == widget)
            #expect(calls.count == main.count + widget.count)
        }
    }

    @Test("A hook may be for one store, or for one consumer")
    func filters() async throws {
        try await withWorkbench { bench in
            let other = bench.path("other.sqlite")
            try await bench.sql("PRAGMA journal_mode = WAL;" + Workbench.schema, of: other)
            try bench.configure(
                StoreSetup(authors: StoreSetup.named("MainApp", "Widget")),
                StoreSetup(name: "other", path: "other.sqlite", authors: StoreSetup.named("MainApp", "Widget")),
                plugins: [
                    PluginSetup(hooks: [
                        #"{"name": "everywhere", "kind": "observer"}"#,
                        #"{"name": "store", "kind": "observer", "store": "other"}"#,
                        #"{"name": "consumer", "kind": "observer", "consumer": "Widget"}"#,
                        #"{"name": "both", "kind": "merge", "store": "contacts", "consumer": "MainApp"}"#,
                    ])
                ])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Importer")
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Importer", to: other)
            try await bench.calls(9, of: daemon)
            try await daemon.stop()
            // Stores and consumers do not wait for one another: their order is their own.
            let calls = try bench.calls().map { "\($0.params.store) \($0.params.consumer) \($0.params.hook)" }
            #expect(
                calls.filter { $0.hasPrefix("contacts MainApp") } == [
                    "contacts MainApp audit/everywhere", "contacts MainApp audit/both",
                ])
            #expect(
                calls.filter { $0.hasPrefix("contacts Widget") } == [
                    "contacts Widget audit/everywhere", "contacts Widget audit/consumer",
                ])
            #expect(
                calls.filter { $0.hasPrefix("other MainApp") } == [
                    "other MainApp audit/everywhere", "other MainApp audit/store",
                ])
            #expect(
                calls.filter { $0.hasPrefix("other Widget") } == [
                    "other Widget audit/everywhere", "other Widget audit/store", "other Widget audit/consumer",
                ])
            #expect(calls.count == 9)
        }
    }
}
