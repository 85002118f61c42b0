import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A store with many tables is tracked in steps, between which others write.
@Suite(.timeLimit(.minutes(60))) struct TrackingPortionsTests {
    private let folder: TemporaryFolder
    private var path: String { folder.file("store.sqlite") }
    private static let tables = 80

    init() throws {
        folder = try TemporaryFolder()
        let sql = (0..<Self.tables).map { "CREATE TABLE t\($0) (id INTEGER PRIMARY KEY, a)" }
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA journal_mode = WAL; " + sql.joined(separator: "; "))
        }
        try queue.close()
    }

    private func bringUpToDate(_ progress: (Int, Int) throws -> Void = { _, _ in }) throws
        -> Tracking.Updated
    {
        try Tracking.bringUpToDate(path, [:], all: true, timeout: .seconds(1)) { done, all in
            do { try progress(done, all) } catch { Issue.record(error) }
        }
    }

    private func write(_ sql: String) throws {
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    @Test("Between two steps a writer that does not wait has its turn, and all tables are tracked in the end")
    func steps() throws {
        var seen: [Int] = []
        let result = try bringUpToDate { done, all in
            #expect(all == Self.tables)
            seen.append(done)
            // The first and the last by name: one is tracked already, and the other in the last step.
            try write("INSERT INTO t0 (a) VALUES (1); INSERT INTO t9 (a) VALUES (1)")
        }
        #expect(seen.count > 1 && seen == seen.sorted() && (seen.last ?? 0) < Self.tables, "\(seen)")
        #expect(Set(result.outcome.added).count == Self.tables && result.outcome.updated.isEmpty)
        #expect(try bringUpToDate().outcome.isEmpty)
        #expect(try bringUpToDate().schemaVersion == result.schemaVersion)
        // What is tracked was recorded meanwhile.
        let recorded = try GatekeeperStore.read(path) {
            try Int.fetchOne($0, sql: "SELECT count(*) FROM historyd_change WHERE kind & 3 <> 3")
        }
        #expect(recorded == seen.count)
    }

    @Test("A schema that changes between two steps is followed, and tables that go are no error")
    func changes() throws {
        var isFirst = true
        _ = try bringUpToDate { _, _ in
            guard isFirst else { return }
            isFirst = false
            try write("DROP TABLE t70; ALTER TABLE t71 ADD COLUMN b; CREATE TABLE new (id INTEGER PRIMARY KEY)")
        }
        #expect(try bringUpToDate().outcome.isEmpty)
        let reader = try HistoryReader(path: path)
        let tracked = try reader.read { try EntityCatalog($0).tracked.values.map(\.name) }
        #expect(Set(tracked).count == Self.tables && tracked.contains("new") && !tracked.contains("t70"))
        try reader.close()
    }

    @Test("Few tables are tracked at once, or none of them")
    func few() throws {
        let path = folder.file("few.sqlite")
        let sql = (0..<TrackingPortions.atOnce).map { "CREATE TABLE t\($0) (id INTEGER PRIMARY KEY)" }
        try DatabaseQueue(path: path).write { try $0.execute(sql: sql.joined(separator: ";")) }
        var steps = 0
        let result = try Tracking.bringUpToDate(path, [:], all: true, timeout: .seconds(1)) { _, _ in steps += 1
        }
        #expect(steps == 0 && result.outcome.added.count == TrackingPortions.atOnce)
    }

    @Test("A connection that was open all the time runs the triggers of every step")
    func openConnection() throws {
        let queue = try DatabaseQueue(path: path)
        func readSchema() throws {
            try queue.read { _ = try Int.fetchOne($0, sql: "SELECT count(*) FROM sqlite_schema") }
        }
        try readSchema()
        _ = try bringUpToDate { _, _ in try readSchema() }
        let recorded = try queue.writeWithoutTransaction { db in
            for table in 0..<Self.tables { try db.execute(sql: "INSERT INTO t\(table) (a) VALUES (1)") }
            return try Int.fetchOne(db, sql: "SELECT count(*) FROM historyd_change WHERE kind & 3 <> 3")
        }
        #expect(recorded == Self.tables)
        try queue.close()
    }

    @Test("The triggers that are written are those that SQLite would have created")
    func sameSchema() throws {
        _ = try bringUpToDate()
        let created = try Self.schema(of: path)
        let other = folder.file("created.sqlite")
        let queue = try DatabaseQueue(path: other)
        try queue.writeWithoutTransaction { db in
            // An index of SQLite's own has no text.
            for kind in ["table ", "index ", "trigger "] {
                for (name, sql) in created where name.hasPrefix(kind) && !sql.isEmpty {
                    try db.execute(sql: sql)
                }
            }
        }
        try queue.close()
        #expect(try Self.schema(of: other) == created)
        let problems = try GatekeeperStore.read(path) { try String.fetchAll($0, sql: "PRAGMA integrity_check") }
        #expect(problems == ["ok"])
    }

    private static func schema(of path: String) throws -> [String: String] {
        try GatekeeperStore.read(path) { db in
            let rows = try Row.fetchAll(
                db, sql: "SELECT type || ' ' || name || ' ' || tbl_name, sql FROM sqlite_schema")
            return Dictionary(uniqueKeysWithValues: rows.map { ($0[0], $0[1] ?? "") })
        }
    }
}

/// The rule by itself.
@Suite struct TrackingPortionRuleTests {
    /// Tracks a number of tables, of which each takes 0.3 ms and makes the schema 0.2 ms longer to read.
    private func portions(_ tables: Int, slowness: Int = 1) -> (held: [Duration], reading: Duration) {
        var portions = TrackingPortions()
        var (done, held, reading) = (0, [Duration](), Duration.zero)
        while done < tables {
            let size = portions.size(of: tables - done)
            done += size
            held.append(.microseconds(300 * slowness * size))
            let parse = Duration.microseconds(200 * slowness * done)
            reading += parse
            _ = portions.done(size, held: .microseconds(300 * slowness * size), reading: parse)
        }
        return (held, reading)
    }

    @Test(
        "What all connections need to read the schema again grows with the number of tables, not with its square",
        arguments: [1, 20])
    func isProportional(slowness: Int) {
        let (few, many) = (portions(500, slowness: slowness), portions(5000, slowness: slowness))
        #expect(many.reading < few.reading * 13, "\(few.reading), \(many.reading)")
        #expect(many.held.count < few.held.count * 2, "\(few.held.count), \(many.held.count)")
    }

    @Test("The portions of a thousand tables hold the lock for at most 0.2 s")
    func isShort() {
        #expect(portions(1000).held.allSatisfy { $0 <= .milliseconds(200) })
        #expect(TrackingPortions().size(of: TrackingPortions.atOnce) == TrackingPortions.atOnce)
        #expect(TrackingPortions().size(of: TrackingPortions.atOnce + 1) < TrackingPortions.atOnce)
    }

    @Test("Tables that take long are tracked one by one, and the store is left to others after each")
    func isPatient() {
        var portions = TrackingPortions()
        for _ in 0..<10 {
            let size = portions.size(of: 1000)
            #expect(portions.done(size, held: .seconds(3), reading: .milliseconds(1)) == .milliseconds(600))
        }
        #expect(portions.size(of: 1000) == 1)
        #expect(portions.done(1, held: .microseconds(10), reading: .zero) == .milliseconds(6))
        #expect(portions.size(of: 1000) > 1)
    }
}
