import Foundation
import PersistentHistory
import TestSupport
import Testing

/// The schema is changed by another process: the daemon sees it, brings the tracking up to date and
/// says so, and what was recorded before keeps its meaning.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct SchemaChangeTests {
    private struct Step {
        /// The change of the schema; a line of the log for each update of the tracking.
        let schema: String
        let log: String
        /// What is written then, and what is recorded of it.
        let work: String
        let changes: [String]
    }

    private static let dropTriggers = """
        SELECT printf('DROP TRIGGER %s;', name) FROM sqlite_schema WHERE tbl_name = 'thing' AND name LIKE 'historyd%'
        """

    private static let steps = [
        Step(
            schema: "ALTER TABLE thing ADD COLUMN c DEFAULT 0", log: #"brought up to date "thing""#,
            work: "UPDATE thing SET c = 1; UPDATE thing SET b = 2",
            changes: ["update thing id=1 c", "update thing id=1 b"]),
        Step(
            schema: "ALTER TABLE thing RENAME COLUMN a TO z", log: #"brought up to date "thing""#,
            work:
                "UPDATE thing SET z = 'two', c = 2; INSERT INTO thing VALUES (2, 'gone', 1, 1); DELETE FROM thing WHERE id = 2",
            changes: ["update thing id=1 z,c", "insert thing id=2", "delete thing id=2 (z: gone)"]),
        Step(
            schema:
                "ALTER TABLE thing RENAME COLUMN id TO key; ALTER TABLE thing RENAME COLUMN z TO y; ALTER TABLE thing RENAME TO matter",
            log: #"brought up to date "matter""#,
            work:
                "UPDATE matter SET y = 'three'; INSERT INTO matter VALUES (2, 'gone', 1, 1); DELETE FROM matter WHERE key = 2",
            changes: ["update matter key=1 y", "insert matter key=2", "delete matter key=2 (y: gone)"]),
        Step(
            schema:
                "ALTER TABLE matter RENAME TO thing; ALTER TABLE thing RENAME COLUMN key TO id; ALTER TABLE thing RENAME COLUMN y TO a",
            log: #"brought up to date "thing""#, work: "UPDATE thing SET a = 'four'",
            changes: ["update thing id=1 a"]),
        // SQLite drops no column that a trigger names, so the triggers go in the same transaction.
        Step(
            schema: "DROP COLUMN b", log: #"brought up to date "thing""#,
            work: "UPDATE thing SET c = 5", changes: ["update thing id=1 c"]),
        // As tools do that cannot alter a table (https://www.sqlite.org/lang_altertable.html#otheralter).
        Step(
            schema:
                "CREATE TABLE new (id INTEGER PRIMARY KEY, c, a, d); INSERT INTO new (id, c, a) SELECT id, c, a FROM thing; DROP TABLE thing; ALTER TABLE new RENAME TO thing",
            log: #"brought up to date "thing""#,
            work:
                "UPDATE thing SET d = 6; UPDATE thing SET c = 6; INSERT INTO thing (id, a) VALUES (2, 'gone'); DELETE FROM thing WHERE id = 2",
            changes: [
                "update thing id=1 d", "update thing id=1 c", "insert thing id=2",
                "delete thing id=2 (a: gone)",
            ]),
        Step(
            schema: "DROP TABLE thing; CREATE TABLE thing (id TEXT PRIMARY KEY NOT NULL, a) WITHOUT ROWID",
            log: #"brought up to date "thing""#, work: "INSERT INTO thing VALUES ('k', 7)",
            changes: ["insert thing id='k'"]),
        // Who else wants it preserved, tracks it so; the daemon has nothing to add.
        Step(schema: "PRESERVE", log: "", work: "DELETE FROM thing", changes: ["delete thing id='k'"]),
        Step(
            schema: "DROP TABLE thing", log: #"table gone "thing""#, work: "INSERT INTO other VALUES (1)",
            changes: ["insert other id=1"]),
    ]

    @Test("Each kind of change, with its line in the log", arguments: Journal.allCases)
    func changes(_ journal: Journal) async throws {
        let schema =
            "CREATE TABLE thing (id INTEGER PRIMARY KEY, a, b); CREATE TABLE other (id INTEGER PRIMARY KEY)"
        try await withWorkbench(journal, schema: schema) { bench in
            try Tracking.track(bench.store, ["thing": ["a"], "other": nil])
            try bench.configure(StoreSetup(entities: nil))
            let daemon = try await bench.startDaemon()
            var expected = ["insert thing id=1", "update thing id=1 a"]
            try await bench.write(
                "INSERT INTO thing VALUES (1, 1, 1)", "UPDATE thing SET a = 'one'", as: "Widget")
            var log: [String] = []
            for step in Self.steps {
                switch step.schema {
                case "PRESERVE": try Tracking.track(bench.store, ["thing": []])
                case "DROP COLUMN b":
                    let triggers = try await bench.sql(Self.dropTriggers)
                    try await bench.sql("BEGIN; \(triggers) ALTER TABLE thing DROP COLUMN b; COMMIT")
                default: try await bench.sql("BEGIN; \(step.schema); COMMIT")
                }
                if !step.log.isEmpty {
                    log.append(
                        #"notice: Changed the tracking of store "contacts": \#(step.log). event=trackingUpdated store=contacts"#
                    )
                    try await daemon.logged("event=trackingUpdated", times: log.count)
                }
                try await bench.write(step.work, as: "Widget")
                expected += step.changes
                // All of it is read again after each step: nothing changes its meaning.
                #expect(try await CtlStore(of: bench.store).changes() == expected, "\(step.schema)")
            }
            try await eventually("all calls", state: { daemon.log.joined(separator: "\n") }) {
                try bench.calls().flatMap(\.params.contexts).count == expected.count
            }
            try await daemon.stop()
            // What is gone in the end is wanted all the same.
            log.append(
                #"error: Store "contacts" is not tracked as configured. The tracked table "thing" is not there. When it is created again, it is tracked again; `historyctl untrack STORE thing` forgets it. entity=thing event=trackingFailed store=contacts"#
            )
            #expect(daemon.log.filter { $0.contains("event=tracking") } == log)
            // Dropped triggers, two tables that were made again, and one that is gone.
            let notices = daemon.problems(bench).filter { $0.contains("event=changesUnrecorded") }
            #expect(notices.count == 4)
            #expect(daemon.problems(bench).count == notices.count + 1)
        }
    }

    @Test("Entities that are configured are tracked as soon as they are there, however often")
    func configured() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(entities: #"{"person": {"preserve": ["name"]}, "item": {}}"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO item VALUES ('a', 1)", as: "Widget")
            for round in 1...3 {
                try await bench.sql("DROP TABLE item")
                try await daemon.logged(#"table gone "item""#, times: round)
                try await bench.write(
                    "INSERT INTO person (id, name) VALUES (\(round), 'x')", "DELETE FROM person", as: "Widget")
                try await bench.sql("CREATE TABLE item (code TEXT PRIMARY KEY, price REAL) WITHOUT ROWID")
                try await daemon.logged(#"began "item""#, times: round + 1)
                try await bench.write("INSERT INTO item VALUES ('b', \(round))", as: "Widget")
            }
            // What somebody else tracks otherwise is put right.
            try Tracking.track(bench.store, ["person": []])
            try await daemon.logged(#"brought up to date "person""#)
            try await bench.write(
                "INSERT INTO person (id, name) VALUES (9, 'x')", "DELETE FROM person", as: "Widget")
            try await bench.calls(12, of: daemon)
            try await daemon.stop()
            let round = { (id: Int) in
                ["insert person id=\(id)", "delete person id=\(id) (name: x)", "insert item code='b'"]
            }
            #expect(
                try await CtlStore(of: bench.store).changes()
                    == ["insert item code='a'"] + (1...3).flatMap(round)
                    + ["insert person id=9", "delete person id=9 (name: x)"])
        }
    }

    @Test("A table that was created again is copied again into replicas", arguments: [true, false])
    func madeAnew(_ isRunning: Bool) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()), plugins: [])
            var daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1), (2); INSERT INTO item VALUES ('a', 1)", as: "Widget")
            try await bench.waitForReplica(daemon)
            if !isRunning { try await daemon.stop() }
            // Nobody records what goes with the table, nor what comes before it is tracked.
            try await bench.sql(
                """
                BEGIN; DROP TABLE person; CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, age INTEGER);
                INSERT INTO person (id) VALUES (2), (3); COMMIT
                """)
            if !isRunning { daemon = try await bench.startDaemon() }
            try await daemon.logged(#"brought up to date "person""#)
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            try await bench.expectReplicaEqualsStore(["person": "id", "item": "code"])
        }
    }

    @Test("A pass by hand follows a schema whose change shows by no signal")
    func passByHand() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(more: #""poll": "1h""#))
            let daemon = try await bench.startDaemon()
            try await daemon.quiet()
            try await bench.sql("ALTER TABLE person ADD COLUMN phone")
            try await bench.write("INSERT INTO person (id, phone) VALUES (1, '1')", as: "Widget")
            try await bench.steer("run")
            #expect(try bench.calls().map(\.params.contexts.count) == [1])
            try await daemon.logged(#"brought up to date "person""#)
            try await daemon.stop()
        }
    }

    /// Rebuilds the table, and then never leaves the store to others for long.
    private static let saturatingWriter = """
        import os, sqlite3, sys
        store = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
        store.execute("PRAGMA synchronous = NORMAL")
        store.executescript("BEGIN IMMEDIATE; CREATE TABLE new (id INTEGER PRIMARY KEY, name); DROP TABLE person; ALTER TABLE new RENAME TO person; COMMIT")
        while not os.path.exists(sys.argv[2]): store.execute("INSERT INTO person (name) VALUES ('x')")
        """

    @Test("Triggers return to a rebuilt table beside a writer that never pauses", arguments: Journal.allCases)
    func saturated(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(entities: #"{"person": {}}"#))
            let daemon = try await bench.startDaemon()
            let end = bench.path("end")
            let writer = try bench.start(
                [Products.python, "-c", Self.saturatingWriter, bench.store, end], "writer")
            try await daemon.logged(#"brought up to date "person""#)
            try Data().write(to: URL(filePath: end))
            try await writer.succeed()
            try await bench.write("INSERT INTO person VALUES (0, 'last')", as: "Widget")
            try await eventually("the last change") {
                try bench.calls().contains { $0.text.contains(#""id":0}"#) }
            }
            try await daemon.stop()
            #expect(daemon.problems(bench).filter { $0.contains("event=changesUnrecorded") }.count == 1)
        }
    }

    @Test(
        "While no daemon runs, a change of a column that is not known yet is a change",
        arguments: Journal.allCases)
    func unknownColumn(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(entities: #"{"person": {}, "item": {}}"#))
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.sql("ALTER TABLE person ADD COLUMN phone")
            try await bench.write(
                "UPDATE person SET phone = '1'", "UPDATE person SET phone = '2', age = 3", as: "Widget")
            try await bench.sql(
                "ALTER TABLE person RENAME COLUMN age TO years; ALTER TABLE item RENAME TO thing")
            try await bench.write(
                "UPDATE person SET years = 4; INSERT INTO thing VALUES ('a', 1)", as: "Widget")
            try await bench.sql("ALTER TABLE thing RENAME TO item")
            let daemon = try await bench.startDaemon()
            try await bench.write("UPDATE person SET phone = '3', years = 5", as: "Widget")
            let calls = try await bench.calls(6, of: daemon)
            try await daemon.stop()
            #expect(
                try await CtlStore(of: bench.store).changes() == [
                    "insert person id=1", "update person id=1 ", "update person id=1 age",
                    "update person id=1 age",
                    "insert item code='a'", "update person id=1 years,phone",
                ])
            #expect(
                calls.map { $0.text.firstMatch(of: /"changedProperties":(\[.*?\])/).map { String($0.1) } }
                    == [nil, "[]", #"["age"]"#, #"["age"]"#, nil, #"["years","phone"]"#])
        }
    }
}

extension CtlStore {
    /// Every change in short, with what is kept of a deleted row: `delete thing id=1 (a: one)`.
    fileprivate func changes() async throws -> [String] {
        try await history().flatMap(\.changes).map { change in
            guard let attributes = change.tombstone?.attributes else { return change.short }
            let kept = attributes.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
            return "\(change.short) (\(kept.joined(separator: ", ")))"
        }
    }
}
