import FoundationEssentials
import GRDB
import Glibc
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

struct DescriptorTests {
    @Test("A share is given back with its store, and no more is given than there is")
    func shares() throws {
        let limit = Locked(200)
        let budget = DescriptorBudget { limit.withLock { $0 } }
        budget.keepSpare(80)
        var first: DescriptorBudget.Share? = try budget.take(100, for: "a")
        let second = try budget.take(20, for: "b")
        let error = try #require(throws: HistoryError.self) { _ = try budget.take(1, for: "c") }
        #expect(error.code == .tooManyFiles)
        #expect(error.message.contains("\"c\" needs 1 descriptor"))
        #expect(error.message.contains("the limit is 200"))
        #expect(error.message.contains("the other stores have 120"))
        // Raised from outside.
        limit.withLock { $0 = 201 }
        let third = try budget.take(1, for: "c")
        first = nil
        let fourth = try budget.take(100, for: "d")
        withExtendedLifetime((first, second, third, fourth)) {}
    }

    @Test("Of few descriptors, half is for stores")
    func few() throws {
        let budget = DescriptorBudget { 40 }
        budget.keepSpare(1000)
        let share = try budget.take(20, for: "a")
        withExtendedLifetime(share) {}
        #expect(throws: HistoryError.self) { _ = try budget.take(21, for: "a") }
    }

    @Test("An id is random, and none is made up where there are no random bits")
    func entropy() throws {
        let ids = try (0..<100).map { _ in try Entropy.uuid() }
        #expect(Set(ids).count == 100)
        #expect(ids.allSatisfy { $0.uuid.6 >> 4 == 4 && $0.uuid.8 >> 6 == 2 })
        #expect(throws: SystemError.self) {
            _ = try Entropy.uuid { _ in
                errno = ENOSYS
                return -1
            }
        }
        #expect(throws: SystemError.self) { _ = try Entropy.uuid { _ in 8 } }
    }

    @Test("A store with an id that was made up gets one of its own")
    func madeUp() throws {
        let folder = try TemporaryFolder()
        var ids: Set<String> = []
        for name in ["a", "b"] {
            let path = folder.file("\(name).sqlite")
            let queue = try DatabaseQueue(path: path)
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)")
            }
            _ = try Tracking.track(path, ["person": nil])
            try queue.writeWithoutTransaction { db in
                try db.execute(
                    sql:
                        "UPDATE historyd_store SET value = '00000000-0000-4000-8000-000000000000' WHERE key = 'id'"
                )
            }
            let outcome = try Tracking.track(path, ["person": nil])
            #expect(outcome.beganAgain)
            let id = try queue.read { db in
                try String.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'id'")
            }
            ids.insert(try #require(id))
            try queue.close()
        }
        #expect(ids.count == 2)
        #expect(!ids.contains("00000000-0000-4000-8000-000000000000"))
    }
}
