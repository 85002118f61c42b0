import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Whatever becomes of the tables and their triggers, in whatever order with migrations and the daemon's life: a
/// consumer has had each change, or was told after it which entity to read again; and a replica equals its store.
@Suite(.timeLimit(.minutes(60))) struct SchemaChangePropertyTests {
    private struct Written {
        let table: String
        let id: Int
        /// How much the consumer had been told before.
        let before: Int
    }

    private static let rebuild = """
        CREATE TABLE new (id INTEGER PRIMARY KEY, n INTEGER); INSERT INTO new SELECT id, n FROM %; DROP TABLE %;
        ALTER TABLE new RENAME TO %;
        """

    @Test(arguments: (0..<10).map { _ in UInt64.random(in: 0 ... .max) })
    func everyChangeOrANotice(_ seed: UInt64) async throws {
        var dice = Seed(seed)
        let store = try GatekeeperStore()
        let served = store.served(["Main"], contexts: ["Main": [store.replica()]])
        let listener = Listener { line, attempt in line.hasPrefix("recreated") && attempt == 1 }
        let hooks = [listener.observer(attempts: 1000)]
        var written: [Written] = []
        var migration: Migration?
        var log: [String] = []
        for id in 1...40 {
            let table = Bool.random(using: &dice) ? "t" : "u"
            let step = Int.random(in: 0..<10, using: &dice)
            log.append("\(step) \(table)")
            switch step {
            case 0: try store.write("A", Self.rebuild.replacingOccurrences(of: "%", with: table))
            case 1:
                let triggers = try GatekeeperStore.read(store.path) { db in
                    try String.fetchAll(
                        db, sql: "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?",
                        arguments: [table])
                }
                if let trigger = triggers.randomElement(using: &dice) {
                    try store.write("A", "DROP TRIGGER \(trigger)")
                }
            case 2 where migration == nil: try Tracking.refresh(store.path)
            case 3 where migration == nil: migration = try Migration(store.path)
            case 4:
                _ = try migration?.end()
                migration = nil
            case 5:
                // The process that migrates is killed.
                migration?.abandon()
                migration = nil
            case 6: try await store.serve(served, hooks)
            case 7:
                try store.write(
                    "A",
                    "DROP TABLE \(["historyd_change", "historyd_conflict"].randomElement(using: &dice) ?? "")")
            default:
                do {
                    try store.write("A", "INSERT INTO \(table) VALUES (\(id), \(id))")
                    written.append(Written(table: table, id: id, before: listener.all().count))
                } catch is DatabaseError {
                    // Triggers that write to a table that is gone.
                }
            }
            if step == 7 {
                migration?.abandon()
                migration = nil
                try Tracking.refresh(store.path)
            }
        }
        migration?.abandon()
        try Tracking.refresh(store.path)
        try await store.serve(served, hooks)
        let told = listener.all()
        for change in written {
            let isTold = told.contains("insert \(change.table) \(change.id)")
            let isNoticed = told[min(change.before, told.count)...].contains {
                $0.hasPrefix("recreated") && $0.split(separator: " ").contains(Substring(change.table))
            }
            #expect(isTold || isNoticed, "\(change) of \(log): \(told)")
        }
        #expect(try store.rows(of: store.replica().path) == store.rows(), "\(log)")
        #expect(try Tracking.untrack(store.path) == ["t", "u"])
    }
}
