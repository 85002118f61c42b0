import Foundation
import PersistentHistory
import TestSupport
import Testing

/// The tools that people migrate with, as the page Migration tools says to run them, and as they run by themselves.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MigrationToolTests {
    /// Serves a store with a replica while something migrates it, and expects that consumers are told of what was
    /// migrated, or of nothing, and that everything is recorded afterwards.
    private func expectMigrated(
        _ bench: Workbench, configured: String = #""*""#, tables: [String: String], told entities: Set<String>,
        after first: String, then last: String, _ migrate: () async throws -> Void
    ) async throws {
        try bench.configure(StoreSetup(entities: configured, authors: StoreSetup.mirrored()))
        let daemon = try await bench.startDaemon()
        try await bench.write(first, as: "App")
        try await bench.waitForReplica(daemon)
        try await migrate()
        try await eventually("the triggers", state: { daemon.log.joined(separator: "\n") }) {
            let tracked = try await bench.sql(
                "SELECT DISTINCT tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'historyd%insert'"
            )
            return Set(tracked.wholeLines).isSuperset(of: tables.keys)
        }
        try await bench.write(last, as: "App")
        try await bench.waitForReplica(daemon)
        try await daemon.stop()
        try await bench.expectReplicaEqualsStore(tables)
        let calls = try bench.calls()
        #expect(calls.last?.params.transaction?.author == "App")
        let told = calls.filter { $0.params.reason != nil }
        #expect(Set(told.compactMap(\.params.reason)) == (entities.isEmpty ? [] : ["recreated"]))
        for entity in entities {
            #expect(told.contains { $0.text.contains("\"\(entity)\"") }, "\(entity): \(told.map(\.text))")
        }
    }

    private static let person = ["person": "id", "item": "code"]
    private static let first =
        "INSERT INTO person VALUES (1, 'Ann', 'a', 1); INSERT INTO item VALUES ('a', 1.5)"
    private static let rebuilt = """
        PRAGMA foreign_keys = OFF; BEGIN;
        CREATE TABLE new_person (id INTEGER PRIMARY KEY, email TEXT UNIQUE, name TEXT NOT NULL DEFAULT '');
        INSERT INTO new_person SELECT id, email, coalesce(name, '') FROM person;
        DROP TABLE person; ALTER TABLE new_person RENAME TO person; COMMIT;
        """

    @Test("SQLite's own procedure", arguments: [true, false])
    func plainSQL(_ isMigrated: Bool) async throws {
        try await withWorkbench { bench in
            try await expectMigrated(
                bench, tables: Self.person, told: ["person"], after: Self.first,
                then: "INSERT INTO person (id, name) VALUES (2, 'b')"
            ) {
                if isMigrated {
                    try await bench.steer(
                        "migrate", bench.store, "--", Products.shell, bench.store, Self.rebuilt)
                } else {
                    try await bench.sql(Self.rebuilt)
                }
            }
        }
    }

    @Test("VACUUM INTO, and a dump, make the same store", arguments: ["VACUUM INTO", ".dump"])
    func copies(_ manner: String) async throws {
        try await withWorkbench { bench in
            let copy = bench.path("copy.sqlite")
            try await expectMigrated(
                bench, tables: Self.person, told: [], after: Self.first,
                then: "INSERT INTO person (id, name) VALUES (2, 'b')"
            ) {
                if manner == ".dump" {
                    let dump = try await bench.sql(".dump")
                    try await bench.sql(dump, of: copy)
                    try await bench.sql("PRAGMA journal_mode = WAL", of: copy)
                } else {
                    try await bench.sql("VACUUM INTO '\(copy)'")
                }
                bench.replace(bench.store, by: copy)
            }
        }
    }

    private func run(_ bench: Workbench, _ program: String, _ task: String, migrating: Bool = false)
        async throws
        -> String
    {
        let arguments = [
            ClientPackages.python, Sources.path("Tests/BlackBoxTests/Migrations/\(program)"),
            bench.path("project"), bench.store, task,
        ]
        let wrapper = migrating ? [Products.historyctl, "migrate", bench.store, "--"] : []
        return try await bench.start(wrapper + arguments, "tool-\(UUID().uuidString)").succeed()
    }

    @Test(
        "Alembic writes a migration that leaves the history alone, drops a column and rebuilds a table",
        .enabled(if: ClientPackages.areThere, ClientPackages.missing), arguments: [true, false])
    func alembic(_ isMigrated: Bool) async throws {
        try await withWorkbench { bench in
            try await expectMigrated(
                bench, tables: Self.person, told: ["item", "person"], after: Self.first,
                then: "INSERT INTO person (id, name) VALUES (2, 'b'); INSERT INTO item VALUES ('b', 2)"
            ) {
                let migration = try await run(bench, "with_alembic.py", "make")
                #expect(migration.contains("batch_op.drop_column('age')") && !migration.contains("historyd"))
                _ = try await run(bench, "with_alembic.py", "upgrade", migrating: isMigrated)
            }
        }
    }

    @Test(
        "Alembic without the filter drops the history's tables: the daemon repairs what is left",
        .enabled(if: ClientPackages.areThere, ClientPackages.missing))
    func alembicUnfiltered() async throws {
        try await withWorkbench { bench in
            let id = Locked("")
            // Alembic notes its version after the drops: where that table is tracked, it fails itself.
            try await expectMigrated(
                bench, configured: #"{"person": {}, "item": {}}"#, tables: Self.person,
                told: ["item", "person"], after: Self.first,
                then: "INSERT INTO person (id, name) VALUES (2, 'b'); INSERT INTO item VALUES ('b', 2)"
            ) {
                let before = try await bench.id()
                id.withLock { $0 = before }
                let migration = try await run(bench, "with_alembic.py", "plain")
                #expect(migration.contains("op.drop_table('historyd_change')"))
                _ = try await run(bench, "with_alembic.py", "upgrade")
                // Until then every write fails.
                try await eventually("a new history") {
                    try await bench.sql("SELECT count(*) FROM sqlite_schema WHERE name = 'historyd_change'")
                        == "1\n"
                }
            }
            #expect(try await bench.id() != id.withLock { $0 })
        }
    }

    @Test(
        "Django renames a model, removes a field and alters one",
        .enabled(if: ClientPackages.areThere, ClientPackages.missing))
    func django() async throws {
        try await withWorkbench(schema: "") { bench in
            _ = try await run(bench, "with_django.py", "make")
            try await expectMigrated(
                bench, tables: ["shop_customer": "id", "shop_item": "id"],
                told: ["shop_customer", "shop_item"],
                after:
                    "INSERT INTO shop_person VALUES (1, 'Ann', 5); INSERT INTO shop_item VALUES (1, 1.5, 1)",
                then: "INSERT INTO shop_customer VALUES (2, 'Bob')"
            ) {
                _ = try await run(bench, "with_django.py", "upgrade", migrating: true)
            }
        }
    }

    @Test(
        "sqlite-utils transforms a table", .enabled(if: ClientPackages.areThere, ClientPackages.missing),
        arguments: [true, false])
    func sqliteUtils(_ isMigrated: Bool) async throws {
        let schema = "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, age INTEGER)"
        try await withWorkbench(schema: schema) { bench in
            try await expectMigrated(
                bench, tables: ["person": "id"], told: ["person"],
                after: "INSERT INTO person VALUES (1, 'Ann', 1)",
                then: "INSERT INTO person (id, nick) VALUES (2, 'b')"
            ) {
                let tool = [
                    ClientPackages.python, "-m", "sqlite_utils", "transform", bench.store, "person", "--drop",
                    "age", "--rename", "name", "nick",
                ]
                let wrapper = isMigrated ? [Products.historyctl, "migrate", bench.store, "--"] : []
                try await bench.start(wrapper + tool, "tool").succeed()
            }
        }
    }
}
