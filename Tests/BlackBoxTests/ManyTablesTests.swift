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
            let updates = daemon.log.count { $0.contains("event=trackingUpdated") }
            try await bench.sql("ALTER TABLE t0 ADD COLUMN d", of: large)
            // What the others do meanwhile is done before the tracking is.
            for id in 1...3 {
                try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget")
                try await bench.calls(id, of: daemon)
            }
            try await eventually("the tracking", within: .seconds(240)) {
                daemon.log.count { $0.contains("event=trackingUpdated") } > updates
            }
            try await daemon.stop()
            let lines = daemon.log
            let first = try #require(lines.firstIndex { $0.contains("Delivered 1 transaction") })
            let update = try #require(lines.lastIndex { $0.contains("event=trackingUpdated store=large") })
            #expect(first < update)
        }
    }
}
