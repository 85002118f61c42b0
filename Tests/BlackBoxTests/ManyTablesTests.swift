import Foundation
import TestSupport
import Testing

/// A store with many tables, whose tracking takes a while to be brought up to date.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ManyTablesTests {
    @Test("A schema change in a store of 400 tables keeps no other store waiting")
    func schemaChange() async throws {
        try await withWorkbench { bench in
            let large = bench.path("large.sqlite")
            let tables = 400
            try await bench.start(
                [
                    Products.python, "-c",
                    "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1])\nc.execute('PRAGMA journal_mode = WAL')\nfor n in range(int(sys.argv[2])): c.execute(f'CREATE TABLE t{n} (id INTEGER PRIMARY KEY, a, b, c)')\nc.commit()",
                    large, "\(tables)",
                ], "large"
            ).succeed()
            let entities = (0..<tables).map { #""t\#($0)": {}"# }.joined(separator: ", ")
            try bench.configure(
                StoreSetup(), StoreSetup(name: "large", path: "large.sqlite", entities: "{\(entities)}"))
            let daemon = try bench.launchDaemon()
            try await daemon.logged("event=ready", within: .seconds(240))
            try await daemon.quiet()
            // On a busy machine a writer may be later than the tracking is; a store that waits is so each time.
            var isBefore = false
            for attempt in 1...10 where !isBefore {
                let updates = daemon.log.count { $0.contains("event=trackingUpdated store=large") }
                func isUpdated() -> Bool {
                    daemon.log.count { $0.contains("event=trackingUpdated store=large") } > updates
                }
                try await bench.sql("ALTER TABLE t0 ADD COLUMN d\(attempt)", of: large)
                try await bench.write("INSERT INTO person (id) VALUES (\(attempt))", as: "Widget")
                try await bench.calls(attempt, of: daemon)
                isBefore = !isUpdated()
                try await eventually("the tracking", within: .seconds(240)) { isUpdated() }
            }
            #expect(isBefore)
            try await daemon.stop()
        }
    }
}
