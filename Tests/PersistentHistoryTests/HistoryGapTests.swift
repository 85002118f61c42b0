import Foundation
import GRDB
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// What is missing in the middle of a recorded history is lost history to all who stand before it, and never silent.
@Suite struct HistoryGapTests {
    @Test("Numbers that are missing above the floor are a gap")
    func numbers() {
        #expect(HistoryGap(after: 3, before: 4, floor: 0) == nil)
        #expect(HistoryGap(after: 3, before: 7, floor: 0)?.numbers == 4...6)
        #expect(HistoryGap(after: 3, before: 7, floor: 5)?.numbers == 6...6)
        #expect(HistoryGap(after: 3, before: 7, floor: 6) == nil)
        #expect(HistoryGap(after: 3, before: 7, floor: .max) == nil)
        #expect(HistoryGap(after: .max, before: .max, floor: .min) == nil)
        #expect(HistoryGap(after: 3, before: 7, floor: 0)?.text == "4 to 6")
        #expect(HistoryGap(after: 3, before: 5, floor: 0)?.text == "4")
    }

    private func tracked() throws -> TrackedStore {
        let store = try TrackedStore()
        for id in 1...6 { try store.write("INSERT INTO item (id) VALUES (\(id)), (\(id + 100))") }
        return store
    }

    private func delete(_ condition: String, in store: TrackedStore) throws {
        try DatabaseQueue(path: store.path).writeWithoutTransaction { db in
            try db.execute(sql: "DELETE FROM historyd_change WHERE \(condition)")
        }
    }

    @Test("Reading ends before a gap, and goes on behind it", arguments: [1, 3, 5000])
    func forwards(_ limit: Int) throws {
        let store = try tracked()
        try delete("id IN (5, 6, 9)", in: store)
        let reader = try HistoryReader(path: store.path)
        let (numbers, error) = try reader.numbers(after: 0, changes: limit)
        #expect(numbers == [2, 4])
        #expect(error?.code == .tokenExpired)
        #expect(error?.message.contains("the changes 5 to 6 are missing") == true)
        // The last gap counts, and it is in the middle of a transaction.
        #expect(error?.message.contains("\(reader.storeID):9") == true)
        #expect(try reader.oldestToken().number == 9)
        #expect(try reader.numbers(after: 9).numbers == [10, 12])
        #expect(throws: HistoryError.self) {
            try reader.check(after: HistoryToken(store: reader.storeID, number: 4))
        }
        try reader.close()
    }

    @Test("A transaction of which a part is missing is not shown as if it were whole")
    func partOfATransaction() throws {
        let store = try TrackedStore()
        try store.write("INSERT INTO item (id) VALUES (1)")
        try store.write("INSERT INTO item (id) VALUES (2), (3), (4)")
        try delete("id = 3", in: store)
        let reader = try HistoryReader(path: store.path)
        #expect(try reader.numbers(after: 0).numbers == [1])
        // What was given back is its own transaction: its author, its time.
        #expect(throws: HistoryError.self) { try reader.batch(after: 1) }
        try reader.close()
    }

    @Test("Backwards, too")
    func backwards() throws {
        let store = try tracked()
        try delete("id BETWEEN 5 AND 6", in: store)
        let reader = try HistoryReader(path: store.path)
        let batch = try reader.reversedBatch(before: nil)
        #expect(batch.transactions.map(\.number) == [12, 10, 8] && !batch.isLast)
        let error = #expect(throws: HistoryError.self) { try reader.reversedBatch(before: batch.end) }
        #expect(error?.code == .tokenExpired)
        // The beginning is missing.
        try delete("id < 8", in: store)
        let rest = try reader.reversedBatch(before: nil)
        #expect(!rest.isLast)
        #expect(throws: HistoryError.self) { try reader.reversedBatch(before: rest.end) }
        try reader.close()
    }

    @Test("A look at the end does not pass over a gap, and does not end the session")
    func look() throws {
        let store = try tracked()
        let reader = try HistoryReader(path: store.path)
        let end = try reader.end()
        try store.write("INSERT INTO item (id) VALUES (50), (51)")
        try store.write("INSERT INTO item (id) VALUES (52)")
        try delete("id = 13", in: store)
        for _ in 0..<2 {
            let look = try reader.look(after: end.number, fingerprint: end.fingerprint)
            #expect(look.batch.transactions.isEmpty && !look.batch.isLast && look.end == 15)
        }
        #expect(throws: HistoryError.self) { try reader.batch(after: end.number, isPosition: true) }
        try reader.close()
    }

    @Test("What the recording does by its own rules is no gap")
    func ownRules() async throws {
        let store = try tracked()
        // Rollbacks give their numbers back.
        let queue = try DatabaseQueue(path: store.path)
        try await queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    BEGIN; INSERT INTO person (id) VALUES (1); SAVEPOINT s; INSERT INTO person (id) VALUES (2);
                    ROLLBACK TO s; INSERT OR IGNORE INTO person (id) VALUES (1); COMMIT;
                    BEGIN; INSERT INTO item (id) VALUES (900); ROLLBACK;
                    """)
        }
        // A cleanup that keeps what somebody else wrote.
        try store.write("INSERT INTO item (id) VALUES (950)", as: "NSCloudKitMirroringDelegate.import")
        try store.write("INSERT INTO item (id) VALUES (951)")
        let rule = DeliveryRule(authors: ["Widget"])
        _ = try await HistoryCleaner(path: store.path, rule: rule).clean(through: 15)
        try store.write("INSERT INTO person (id) VALUES (7)")
        try store.write("INSERT INTO item (id) VALUES (952)")
        // An entity's changes are purged.
        try Tracking.untrack(store.path, ["person"], purging: true)
        try store.write("INSERT INTO item (id) VALUES (953)")
        let reader = try HistoryReader(path: store.path)
        let floor = try reader.oldestToken().number
        #expect(floor > 0)
        for start in [0, floor] { #expect(try reader.numbers(after: start).error == nil) }
        let entities = try reader.numbers(after: floor).numbers
        #expect(!entities.isEmpty)
        #expect(
            try reader.batch(after: floor).transactions.flatMap(\.changes).allSatisfy {
                $0.entity.name == "item"
            })
        try reader.close()
    }

    @Test("A tracker that stands before a gap is told, and goes on behind it")
    func tracker() async throws {
        let store = try TrackedStore()
        let tracker = store.tracker()
        let notes = Notes()
        await tracker.registerObserver(
            entityName: "item", operation: .insert,
            onExpired: { await notes.add("\($0.reason) \($0.lost?.number ?? 0) \($0.after.number)") },
            callback: { contexts in await notes.add("\(contexts[0].objectIDURL.lastPathComponent)") })
        try store.write("INSERT INTO item (id) VALUES (1)")
        try await tracker.runOnce()
        for id in 2...5 { try store.write("INSERT INTO item (id) VALUES (\(id))") }
        try delete("id BETWEEN 3 AND 4", in: store)
        try await tracker.runOnce()
        #expect(await notes.all == ["p1", "p2", "expired 2 4", "p5"])
    }
}
