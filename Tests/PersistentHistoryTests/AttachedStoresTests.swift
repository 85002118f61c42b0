import GRDB
import PersistentHistory
import TestSupport
import Testing

/// Two stores written to in one SQL transaction, through ATTACH: each has its own part of it in its own
/// history, under the one author, as one transaction.
@Suite struct AttachedStoresTests {
    private struct Stores {
        let writer: DatabaseQueue
        let readers: [HistoryReader]
        var places: [Int64] = [0, 0]
        /// What each store holds by its history.
        var keys: [Set<Int64>] = [[], []]

        init(_ folder: TemporaryFolder) throws {
            let paths = ["one", "two"].map { folder.file($0) }
            for path in paths {
                let store = try DatabaseQueue(path: path)
                try store.write { db in
                    try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE)")
                }
                try Tracking.track(path, ["t": nil])
                try store.close()
            }
            var configuration = Configuration()
            configuration.allowsUnsafeTransactions = true
            writer = try DatabaseQueue(path: paths[0], configuration: configuration)
            try writer.writeWithoutTransaction { db in
                try db.execute(sql: "ATTACH ? AS other", arguments: [paths[1]])
                try db.installHistory()
                try db.declareAuthor("Both")
            }
            readers = try paths.map { try HistoryReader(path: $0) }
        }

        /// - Returns: The numbers of new transactions.
        mutating func check(_ seed: UInt64) throws -> [Int] {
            var counts: [Int] = []
            for (store, reader) in readers.enumerated() {
                let batch = try reader.batch(after: places[store])
                #expect(batch.transactions.allSatisfy { $0.author == "Both" }, "seed \(seed)")
                for change in batch.transactions.flatMap(\.changes) {
                    guard case .integer(let id) = change.objectID.values[0] else { continue }
                    if change.operation == .delete { keys[store].remove(id) } else { keys[store].insert(id) }
                }
                places[store] = batch.end
                counts.append(batch.transactions.count)
                let schema = store == 0 ? "main" : "other"
                let held = try writer.read { try Set(Int64.fetchAll($0, sql: "SELECT id FROM \(schema).t")) }
                #expect(keys[store] == held, "seed \(seed)")
            }
            return counts
        }

        func close() throws {
            for reader in readers { try reader.close() }
            try writer.close()
        }
    }

    @Test(arguments: UInt64(1)...30)
    func oneTransactionInEach(seed: UInt64) throws {
        var dice = Seed(seed)
        let folder = try TemporaryFolder(inMemory: true)
        var stores = try Stores(folder)
        for _ in 0..<12 {
            try stores.writer.writeWithoutTransaction { db in
                try db.execute(sql: "BEGIN")
                for _ in 0..<Int.random(in: 1...6, using: &dice) {
                    let table = ["main.t", "other.t"].randomElement(using: &dice) ?? ""
                    let id = Int.random(in: 1...6, using: &dice)
                    let sql = [
                        "INSERT OR REPLACE INTO \(table) VALUES (\(id), \(id % 3))",
                        "UPDATE OR IGNORE \(table) SET a = a + 1", "DELETE FROM \(table) WHERE id = \(id)",
                        "SAVEPOINT s", "SAVEPOINT s",
                    ]
                    try db.execute(sql: sql.randomElement(using: &dice) ?? "")
                    if Int.random(in: 0...4, using: &dice) == 0 {
                        // Without one, both are errors.
                        try? db.execute(sql: ["ROLLBACK TO s", "RELEASE s"].randomElement(using: &dice) ?? "")
                        if !db.isInsideTransaction { try db.execute(sql: "BEGIN") }
                    }
                }
                try db.execute(sql: Int.random(in: 0...5, using: &dice) == 0 ? "ROLLBACK" : "COMMIT")
            }
            for count in try stores.check(seed) { #expect(count <= 1, "seed \(seed)") }
        }
        try stores.close()
    }

    /// What was done to the first is taken back; the second alone is committed to.
    @Test func aStoreThatTheTransactionCameToLaterEndsIt() throws {
        let folder = try TemporaryFolder(inMemory: true)
        var stores = try Stores(folder)
        try stores.writer.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    BEGIN; SAVEPOINT s; INSERT INTO main.t VALUES (1, 1); ROLLBACK TO s;
                    INSERT INTO other.t VALUES (1, 1); COMMIT;
                    INSERT INTO other.t VALUES (2, 2);
                    """)
        }
        #expect(try stores.check(0) == [0, 2])
        try stores.close()
    }
}
