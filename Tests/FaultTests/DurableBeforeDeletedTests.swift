import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What a cleanup relies on is on the disk before anything is deleted.
@Suite struct DurableBeforeDeletedTests {
    /// Another program has the state open and reads it: then a passive checkpoint does nothing, and says OK
    /// (https://www.sqlite.org/c3ref/wal_checkpoint_v2.html).
    private func cleanWhileStateIsRead(_ body: (FaultStore, FaultDisk) async throws -> Void) async throws {
        let disk = try FaultDisk()
        let store = FaultStore(folder: disk.path, hasFeed: false, hasReplica: false)
        try store.make()
        for number in 1...4 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
        try await store.serve([DeliveryLog().hook()])
        let state = try store.withState { $0.path }
        var configuration = Configuration()
        configuration.allowsUnsafeTransactions = true
        let reader = try DatabaseQueue(path: state, configuration: configuration)
        try await reader.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN")
            _ = try Int.fetchOne(db, sql: "SELECT count(*) FROM cursor")
        }
        try await body(store, disk)
        try await reader.writeWithoutTransaction { try $0.execute(sql: "COMMIT") }
        try reader.close()
    }

    @Test("A cleanup while another program reads the state leaves no consumer behind the floor")
    func stateIsRead() async throws {
        try await cleanWhileStateIsRead { store, disk in
            for number in 5...9 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
            let refusing = DeliveryLog { $0 == "insert t 7" }
            try await store.serve([refusing.hook(then: .skip)])
            let kept = try store.withState { try $0.deadLetters.all().map(\.letter.call) }
            #expect(kept.count == 1)
            try await store.clean()
            // The application's next commit makes the cleanup durable.
            try store.write("INSERT INTO t VALUES (10, 0)")
            let image = try TemporaryFolder(inMemory: true)
            try disk.image(to: image.file("after"), .lost)
            let after = FaultStore(folder: image.file("after"), hasFeed: false, hasReplica: false)
            let floor = try after.floor()
            let (cursor, letters) = try after.withState {
                (try $0.cursors.checkpoint(of: "Main")?.position ?? 0, try $0.deadLetters.all().count)
            }
            #expect(floor == 9)
            #expect(cursor == 9)
            #expect(letters == 1)
        }
    }

    @Test(
        "A cleanup leaves no consumer and no feed behind the floor, whatever else is lost",
        arguments: [1, 2, 3])
    func feeds(seed: UInt64) async throws {
        let disk = try FaultDisk()
        let store = FaultStore(folder: disk.path, hasReplica: false)
        try store.make()
        try await store.serve([DeliveryLog().hook()])
        for number in 1...4 { try store.write("INSERT INTO t VALUES (\(number), 0)") }
        try await store.serve([DeliveryLog().hook()])
        try await store.readFeed()
        try await store.clean()
        try store.write("INSERT INTO t VALUES (5, 0)")
        let image = try TemporaryFolder(inMemory: true)
        for (number, loss) in [FaultDisk.Loss.lost, .kept, .seeded(seed)].enumerated() {
            try disk.image(to: image.file("\(number)"), loss)
            let after = FaultStore(folder: image.file("\(number)"), hasReplica: false)
            #expect(try after.floor() == 4, "\(loss)")
            try after.expectNothingNeededIsGone()
        }
    }
}
