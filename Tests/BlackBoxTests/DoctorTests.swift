import Foundation
import TestSupport
import Testing

/// What `historyctl doctor` finds, and that it finds nothing where nothing is wrong.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct DoctorTests {
    private func problems(_ bench: Workbench) async throws -> [String] {
        try Tree(await bench.ctl("doctor", "--format", "json").output)["findings"].list
            .filter { $0["problem"].text != nil }.compactMap { $0["check"].text }
    }

    @Test("It finds what is wrong, says what mends it, and then finds nothing") func findings() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("audit.sh", "#!/bin/sh\ncat >/dev/null\n")
            try bench.configure(
                StoreSetup(
                    authors:
                        #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "views/replica.sqlite", "group": "no-such-group"}]}]"#
                ), plugins: [PluginSetup(command: [bench.path("audit.sh")])])
            let daemon = try await bench.startDaemon()
            #expect(Set(try await problems(bench)) == ["replica", "plugin"])
            let text = try await bench.ctl("doctor")
            #expect(text.status == .exited(1))
            for line in ["chmod +x", "install -d -o", "There is no group \"no-such-group\"", "3 problems"] {
                #expect(text.output.contains(line), "\(text)")
            }
            try FileManager.default.createDirectory(
                atPath: bench.path("views"), withIntermediateDirectories: false)
            try bench.folder.write("audit.sh", "#!/bin/sh\ncat >/dev/null\n", executable: true)
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored()),
                plugins: [PluginSetup(command: [bench.path("audit.sh")])])
            try await bench.steer("reload")
            let well = try await bench.ctl("doctor", "contacts")
            #expect(well.status == .exited(0), "\(well)")
            #expect(well.output.contains("Nothing is wrong"), "\(well)")
            try await daemon.stop()
        }
    }

    @Test("A store that is missing, and a clock that was set back") func storeAndClock() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), StoreSetup(name: "gone", path: "gone.sqlite"), plugins: [])
            let daemon = try await bench.startDaemon()
            #expect(try await problems(bench) == ["store"])
            try await bench.sql("INSERT INTO person (id) VALUES (1)")
            try await bench.sql(
                "UPDATE historyd_change SET origin = (unixepoch() + 3600) * 1000 WHERE id = (SELECT max(id) FROM historyd_change)"
            )
            try await eventually("the finding") { Set(try await problems(bench)) == ["store", "clock"] }
            try await daemon.stop()
        }
    }

    @Test("It says what health says of a store that cannot be read, and of a table that is wanted and gone")
    func asHealth() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(entities: nil), plugins: [])
            try await bench.sql("CREATE TABLE note (id INTEGER PRIMARY KEY)")
            try await bench.steer("track", bench.store, "person", "note")
            let daemon = try await bench.startDaemon()
            try await eventually("a healthy start") { try await bench.ctl("health").status == .exited(0) }

            func expectBoth(_ text: String) async throws {
                try await eventually(text) { try await bench.ctl("health").output.contains(text) }
                let examined = try await bench.ctl("doctor")
                #expect(examined.status == .exited(1))
                #expect(examined.output.contains(text), "\(examined)")
                #expect(!examined.output.contains("Nothing is wrong"))
            }
            // By hand, as nothing in the configuration names it.
            try await bench.sql("DROP TABLE note")
            try await expectBoth("The tracked table \"note\" is not there.")
            try await bench.steer("untrack", bench.store, "note")
            try await bench.sql("CREATE TABLE other (x)")
            try await eventually("health") { try await bench.ctl("health").status == .exited(0) }

            try await bench.sql(
                """
                CREATE VIEW v AS SELECT 1; PRAGMA writable_schema = ON;
                UPDATE sqlite_schema SET sql = 'CREATE VIEW v AS SELECT 1_000' WHERE name = 'v';
                PRAGMA schema_version = 1000
                """)
            try await expectBoth("cannot be read: malformed database schema (v)")
            #expect(try await !bench.ctl("health").output.lowercased().contains("restore"))
            try await daemon.stop()
        }
    }
}
