import PersistentHistory
import TestSupport
import Testing

/// What a client sets on its connection changes what its statements do; that is recorded, and delivered.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct SettingTests {
    /// A row that is inserted brings others with it, by a trigger of the application that goes on
    /// for as long as `recursive_triggers` lets it.
    private static let schema = """
        CREATE TABLE node (id INTEGER PRIMARY KEY, parent REFERENCES node ON DELETE CASCADE, name TEXT UNIQUE, depth INT);
        CREATE TRIGGER grow AFTER INSERT ON node WHEN NEW.depth > 0
        BEGIN INSERT INTO node (parent, name, depth) VALUES (NEW.id, NEW.name || '.', NEW.depth - 1); END;
        """

    private static let work = [
        "INSERT INTO node VALUES (1, NULL, 'a', 2); INSERT INTO node VALUES (5, 1, 'c', 0)",
        // In the place of 2, by its name.
        "REPLACE INTO node VALUES (9, NULL, 'a.', 0)",
        "UPDATE node SET name = 'b' WHERE id = 1; DELETE FROM node WHERE id = 1",
    ]

    private static let plain = [
        "insert node id=1; insert node id=2; insert node id=5", "delete node id=2; insert node id=9",
        "update node id=1 name; delete node id=1",
    ]

    struct Setting: Sendable, CustomTestStringConvertible {
        var pragma: String
        var changes = plain
        /// In WAL mode, has to open the store while nobody else has
        /// (https://www.sqlite.org/pragma.html#pragma_locking_mode).
        var keepsOthersOut = false
        /// Reaches the store by another connection to the same cache (https://www.sqlite.org/sharedcache.html).
        var sharesCache = false

        var testDescription: String { sharesCache ? "shared cache" : pragma }
    }

    static let settings = [
        Setting(pragma: "trusted_schema = OFF"),
        Setting(
            pragma: "recursive_triggers = ON",
            changes: ["insert node id=1; insert node id=2; insert node id=3; insert node id=5"] + plain[1...]),
        Setting(
            pragma: "foreign_keys = ON",
            changes: plain[...1] + ["update node id=1 name; delete node id=5; delete node id=1"]),
        Setting(pragma: "mmap_size = 268435456"),
        Setting(pragma: "locking_mode = EXCLUSIVE", keepsOthersOut: true),
        Setting(pragma: "read_uncommitted = ON", sharesCache: true),
    ]

    @Test(arguments: settings, Journal.allCases)
    func declared(_ setting: Setting, _ journal: Journal) async throws {
        try await expectWork(setting, journal, author: "Widget")
    }

    @Test(arguments: settings, Journal.allCases)
    func undeclared(_ setting: Setting, _ journal: Journal) async throws {
        try await expectWork(setting, journal, author: nil)
    }

    private func expectWork(_ setting: Setting, _ journal: Journal, author: String?) async throws {
        try await withWorkbench(journal, schema: Self.schema) { bench in
            try bench.configure(StoreSetup(entities: #"{"node": {}}"#))
            try Tracking.track(bench.store, ["node": nil])
            var started = setting.keepsOthersOut && journal == .wal ? nil : try await bench.startDaemon()
            try bench.folder.write("work.txt", Self.work.joined(separator: "\n"))
            let writer = try await bench.startPython(
                """
                if \(setting.sharesCache ? "True" : "False"):
                    plain = sqlite3.connect
                    sqlite3.connect = lambda path, **more: plain(f'file:{path}?cache=shared', uri=True, **more)
                    other = connect(store, None, None, 'read_uncommitted = ON')
                else:
                    other = None
                connection = connect(store, \(author.map { "'\($0)'" } ?? "None"), None, '\(setting.pragma)')
                for script in open(bench + '/work.txt'):
                    for statement in 'BEGIN IMMEDIATE', *script.split('; '): connection.execute(statement)
                    # What another connection to the same cache sees of a transaction is no commit.
                    if other: other.execute('SELECT count(*) FROM node').fetchall()
                    for statement in 'COMMIT', 'BEGIN', 'DELETE FROM node', 'ROLLBACK': connection.execute(statement)
                print('written', flush=True)
                while not os.path.exists(bench + '/end'): time.sleep(0.01)
                connection.close()
                """)
            try await eventually("the work", state: { writer.errors }) {
                writer.output == "written\n" || writer.ended != nil
            }
            if started == nil { started = try await bench.startDaemon() }
            let daemon = try #require(started)
            try bench.folder.write("end", "")
            try await writer.succeed()
            try await eventually(
                "all calls",
                state: {
                    RunningProgram.text(bench.path("calls"))
                        + daemon.log.joined(separator: "\n")
                }
            ) {
                try bench.calls().flatMap(\.params.contexts).count
                    == setting.changes.flatMap { $0.split(separator: ";") }.count
            }
            let delivered = try bench.calls()
            try await daemon.stop()

            let store = try CtlStore(of: bench.store)
            let history = try await store.history()
            if let author {
                #expect(history.map(\.short) == setting.changes.map { "\(author): \($0)" })
            } else {
                #expect(history.allSatisfy { $0.author == nil })
                #expect(
                    history.flatMap { $0.changes.map(\.short) }.joined(separator: "; ")
                        == setting.changes.joined(separator: "; "))
            }
            let told = delivered.flatMap { call in
                call.params.contexts.map {
                    "\(call.params.transaction?.author ?? "-") \($0.operation ?? "") \($0.key)"
                }
            }
            let recorded = history.flatMap { transaction in
                transaction.changes.map {
                    "\(transaction.author ?? "-") \($0.operation) p\($0.objectID["id"]?.description ?? "")"
                }
            }
            // Each statement is of one operation; undeclared ones of one millisecond are grouped, and told
            // operation by operation.
            if author == nil {
                #expect(told.sorted() == recorded.sorted())
            } else {
                #expect(told == recorded)
            }
            #expect(daemon.problems(bench) == [])
        }
    }
}
