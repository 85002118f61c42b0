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
            // A table that is tracked already, and one that is not yet.
            try write("INSERT INTO t0 (a) VALUES (1); INSERT INTO t\(Self.tables - 1) (a) VALUES (1)")
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
        let sql = (0..<TrackingPortions.most).map { "CREATE TABLE t\($0) (id INTEGER PRIMARY KEY)" }
        try DatabaseQueue(path: path).write { try $0.execute(sql: sql.joined(separator: ";")) }
        var steps = 0
        let result = try Tracking.bringUpToDate(path, [:], all: true, timeout: .seconds(1)) { _, _ in steps += 1
        }
        #expect(steps == 0 && result.outcome.added.count == TrackingPortions.most)
    }
}
