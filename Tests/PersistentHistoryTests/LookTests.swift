import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What is read of a store when something may have been committed.
@Suite struct LookTests {
    private func store(_ folder: TemporaryFolder) throws -> DatabaseQueue {
        let store = try DatabaseQueue(path: folder.file("s.sqlite"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)") }
        try Tracking.track(store.path, ["t": nil])
        return store
    }

    @Test func aPlaceWhereSomethingElseStandsIsNotGoneOnFrom() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        let reader = try HistoryReader(path: store.path)
        let (number, fingerprint) = try reader.end()
        #expect(number == 1 && fingerprint != nil)
        #expect(try reader.look(after: number, fingerprint: fingerprint).batch.transactions.isEmpty)
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
        #expect(
            try reader.look(after: number, fingerprint: fingerprint).batch.transactions.map(\.token.number) == [
                2
            ])
        // Nothing is known of it.
        #expect(try reader.look(after: number, fingerprint: nil).batch.end == 2)
        let error = #expect(throws: HistoryError.self) {
            try reader.look(after: number, fingerprint: "another")
        }
        #expect(error?.code == .tokenAhead)
        #expect(try reader.isReplaced("another", at: 1))
        #expect(try !reader.isReplaced("another", at: 7))
        try reader.close()
    }

    /// A mirror takes over another store without a change of the schema.
    @Test func theHistoryOfAnotherStoreIsNotReadOn() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        let reader = try HistoryReader(path: store.path)
        _ = try reader.look(after: 0, fingerprint: nil)
        let (number, fingerprint) = try reader.end()
        for _ in 0..<2 {
            let look = try reader.look(after: number, fingerprint: fingerprint)
            #expect(look.batch.isLast && look.end == number)
        }
        try store.write { db in
            try db.execute(
                sql: "UPDATE historyd_store SET value = ? WHERE key = 'id'",
                arguments: ["00000000-0000-4000-8000-000000000000"])
            try db.execute(sql: "INSERT INTO t VALUES (2)")
        }
        let error = #expect(throws: HistoryError.self) {
            try reader.look(after: number, fingerprint: fingerprint)
        }
        #expect(error?.code == .notTracked)
        try reader.close()
    }

    /// A reader that has given back its pages finds what was and what comes.
    @Test func whatWasForgottenIsReadAgain() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.writeWithoutTransaction {
            try $0.execute(sql: "PRAGMA journal_mode = WAL; INSERT INTO t VALUES (1)")
        }
        let reader = try HistoryReader(path: store.path)
        for id in 2...4 {
            let (number, fingerprint) = try reader.end()
            reader.forgetPages()
            #expect(try reader.look(after: number, fingerprint: fingerprint).batch.transactions.isEmpty)
            reader.forgetPages()
            try store.write { try $0.execute(sql: "INSERT INTO t VALUES (?)", arguments: [id]) }
            #expect(
                try reader.look(after: number, fingerprint: fingerprint).batch.transactions.map(\.number) == [
                    Int64(id)
                ])
        }
        try reader.close()
        reader.forgetPages()
    }

    /// The usual way to look reads on from the change at a position. Whatever the history is, it finds what reading
    /// everything again finds.
    @Test(arguments: (0..<40).map { _ in UInt64.random(in: 0...UInt64.max) })
    func lookingOnFindsWhatReadingAgainFinds(seed: UInt64) throws {
        var dice = Seed(seed)
        let folder = try TemporaryFolder()
        let store = try store(folder)
        // Where nothing is large or recreated, one batch reaches the end.
        let isPlain = Bool.random(using: &dice)
        try store.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1)")
            let shape = try #require(try Int64.fetchOne(db, sql: "SELECT kind FROM historyd_change")) >> 2
            for _ in 0..<Int.random(in: 0...30, using: &dice) {
                let key = Int.random(in: 0...9, using: &dice)
                let origin = Bool.random(using: &dice) ? "'k\(key)\t1\t\(key)\tApp'" : "\(key)"
                for _ in 0..<Int.random(in: 1...9, using: &dice) {
                    let (kind, object, detail) =
                        switch Int.random(in: isPlain ? 2...19 : 0...19, using: &dice) {
                        case 0: (shape << 2 | 3, "NULL", "NULL")
                        case 1: (Int64(3), "'recreated'", "'[\"t\"]'")
                        default: (shape << 2 | Int64.random(in: 0...2, using: &dice), "\(key)", "NULL")
                        }
                    try db.execute(
                        sql:
                            "INSERT INTO historyd_change VALUES (NULL, \(origin), \(kind), \(object), \(detail))"
                    )
                }
            }
            let newest = try #require(try Int64.fetchOne(db, sql: "SELECT max(id) FROM historyd_change"))
            let floor = Bool.random(using: &dice) ? 0 : Int64.random(in: 0...newest, using: &dice)
            // A cleanup may keep what its rule does not cover.
            let kept = Bool.random(using: &dice) ? "AND id % 3 > 0" : ""
            try db.execute(sql: "DELETE FROM historyd_change WHERE id <= \(floor) \(kept)")
            try db.execute(sql: "UPDATE historyd_store SET value = \(floor) WHERE key = 'floor'")
        }
        let reader = try HistoryReader(
            path: store.path, timeout: .zero, partSize: isPlain ? 1000 : Int.random(in: 3...12, using: &dice))
        func look(after number: Int64, _ fingerprint: String?) -> String {
            do {
                let look = try reader.look(after: number, fingerprint: fingerprint)
                let isNews = look.end > number
                return
                    "\(look.batch.transactions) \(look.batch.end) \(look.batch.isLast) \(look.end) \(isNews ? look.fingerprint ?? "-" : "")"
            } catch let error as HistoryError {
                return "\(error.code)"
            } catch {
                return "\(error)"
            }
        }
        // The shapes are known then, as they are to a reader that is not new.
        _ = try reader.reversedBatch(before: nil)
        let newest = try reader.newestToken().number
        for number in 0...newest + 1 {
            let fingerprint = try reader.fingerprint(at: number, in: nil)
            #expect(
                look(after: number, fingerprint) == look(after: number, nil), "seed \(seed), after \(number)")
        }
        try reader.close()
    }

    /// Changes that nobody declared, of one millisecond, are one transaction, also where a first reading came
    /// in between: whoever repeats the reading finds them so.
    @Test func aBatchThatHasGrownIsReadAsAWhole() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        try store.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)")
            try db.execute(sql: "UPDATE historyd_change SET origin = 5")
        }
        let reader = try HistoryReader(path: store.path)
        let first = try reader.batch(after: 0)
        #expect(first.transactions.map(\.token.number) == [2])
        #expect(try store.read { try reader.batch($0, after: 0, beginningAs: first) }.end == 2)
        try store.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (3); UPDATE historyd_change SET origin = 5")
        }
        let grown = try store.read { try reader.batch($0, after: 0, beginningAs: first) }
        #expect(grown.transactions == (try reader.batch(after: 0).transactions))
        #expect(grown.transactions.map(\.changes.count) == [3])
        // And where it is not the same history any more, it is none.
        try store.write { try $0.execute(sql: "UPDATE historyd_change SET origin = 6") }
        #expect(throws: HistoryError.self) {
            try store.read { try reader.batch($0, after: 0, beginningAs: first) }
        }
        try reader.close()
    }

    @Test func theSchemasVersionComesWithIt() throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        let reader = try HistoryReader(path: store.path)
        let before = try reader.look(after: 0, fingerprint: nil).schemaVersion
        try store.write { try $0.execute(sql: "ALTER TABLE t ADD COLUMN a") }
        #expect(try reader.look(after: 0, fingerprint: nil).schemaVersion != before)
        try reader.close()
    }

    /// Who is told that there is more than was read reads on by himself; and what all have had may be deleted
    /// before the next look.
    @Test func aLookGoesOnWhereTheHistoryEnds() async throws {
        let folder = try TemporaryFolder()
        let store = try store(folder)
        let reader = try HistoryReader(path: store.path)
        let fetcher = try SharedFetcher(reader)
        func insert(_ count: Int) throws {
            try store.write { db in
                try db.execute(
                    sql: """
                        WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < \(count))
                        INSERT INTO t SELECT NULL FROM c
                        """)
            }
        }
        func clean() async throws {
            let cleaner = HistoryCleaner(path: store.path, rule: DeliveryRule(authors: []))
            _ = try await cleaner.clean(through: reader.newestToken().number)
        }
        let many = HistoryReader.batchSize + 10
        try insert(many)
        let first = try #require(try fetcher.look())
        #expect(!first.batch.isLast)
        try await clean()
        try insert(1)
        let second = try #require(try fetcher.look())
        #expect(second.batch.transactions.map(\.token.number) == [Int64(many) + 1])
        #expect(second.batch.isLast)
        // Deleted before it was looked: nobody may be moved past it unseen.
        try insert(1)
        try await clean()
        let third = try #require(try fetcher.look())
        #expect(third.batch.transactions.isEmpty && !third.batch.isLast)
        #expect(try fetcher.look() == nil)
        try reader.close()
    }
}
