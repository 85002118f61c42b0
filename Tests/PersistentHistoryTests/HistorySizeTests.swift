import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// How large the history of a store is said to be.
@Suite struct HistorySizeTests {
    private func store(_ folder: TemporaryFolder) throws -> DatabaseQueue {
        let store = try DatabaseQueue(path: folder.file("s.sqlite"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, text)") }
        try Tracking.track(store.path, ["t": ["text"]])
        return store
    }

    private func estimate(_ store: DatabaseQueue, _ size: HistorySize = HistorySize()) throws -> Int64 {
        let reader = try HistoryReader(path: store.path)
        let (floor, newest) = (try reader.oldestToken().number, try reader.newestToken().number)
        try reader.close()
        return try size.bytes(in: store.path, floor: floor, newest: newest)
    }

    /// Of SQLite's own count of what lies in the pages of the history.
    private func truth(_ store: DatabaseQueue) throws -> Int64 {
        try store.read { db in
            try Int64.fetchOne(db, sql: "SELECT sum(payload) FROM dbstat WHERE name = 'historyd_change'") ?? 0
        }
    }

    @Test(
        "It is near what lies in the pages, whatever the values",
        arguments: [UInt64.random(in: 3...1_000_000)])
    func near(_ number: UInt64) throws {
        var seed = Seed(number)
        print("history size: \(seed)")
        let folder = try TemporaryFolder()
        let store = try store(folder)
        #expect(try estimate(store) == 0)
        try store.write { db in
            for id in 1...3000 {
                let text = String(repeating: "x", count: Int.random(in: 0...400, using: &seed))
                try db.execute(sql: "INSERT INTO t VALUES (?, ?)", arguments: [id, text])
            }
            try db.execute(sql: "DELETE FROM t WHERE id > 1000")
        }
        let (estimate, truth) = (Double(try estimate(store)), Double(try truth(store)))
        #expect((0.6...1.6).contains(estimate / truth), "\(estimate) \(truth)")
    }

    @Test("Of a short history, each change is weighed; of a long one, always as many")
    func positions() {
        #expect(HistorySize.positions(floor: 5, newest: 8) == [5, 6, 7])
        #expect(HistorySize.positions(floor: 5, newest: 5) == [])
        // A damaged store may have any numbers.
        #expect(HistorySize.positions(floor: 9, newest: 5) == [])
        for newest: Int64 in [165, 1_000_000, 1 << 62] {
            let positions = HistorySize.positions(floor: 100, newest: newest)
            #expect(Set(positions).count == HistorySize.samples)
            #expect(positions.allSatisfy { (100..<newest).contains($0) })
            // The first half of them is already spread over both halves of the history.
            let middle = 100 + (newest - 100) / 2
            #expect((10...22).contains(positions.prefix(32).count { $0 < middle }))
        }
    }

    @Test("Large tombstones are not all read, and a history as before is not read again") func bounded() throws
    {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.write { db in
            try db.execute(
                sql: """
                    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
                    INSERT INTO t SELECT i, hex(zeroblob(200000)) FROM n
                    """)
            try db.execute(sql: "DELETE FROM t")
        }
        let size = HistorySize()
        let estimate = try estimate(store, size)
        let truth = try truth(store)
        #expect((truth / 2...truth * 2).contains(estimate), "\(estimate) \(truth)")
        let reader = try HistoryReader(path: store.path)
        let (floor, newest) = (try reader.oldestToken().number, try reader.newestToken().number)
        try reader.close()
        #expect(try size.bytes(in: "/nowhere", floor: floor, newest: newest) == estimate)
        #expect(throws: (any Error).self) { try size.bytes(in: "/nowhere", floor: floor, newest: newest + 1) }
    }
}
