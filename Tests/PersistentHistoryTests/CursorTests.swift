import Foundation
import GRDB
import GRDBSQLite
import TestSupport
import Testing

@testable import PersistentHistory

/// Cursors that are saved late, as those who come after a kill find them.
@Suite(.timeLimit(.minutes(60))) struct CursorTests {
    private static func place(_ number: Int64) -> Checkpoint {
        Checkpoint(position: number, movedAt: HistoryTimestamp(milliseconds: number))
    }

    /// What a daemon finds that is started after a kill.
    private func saved(_ store: GatekeeperStore) throws -> Int64? { try store.cursor("Main") }

    /// The file and its write-ahead log, which is what a cleanup brings to the disk.
    private func leftBehind(_ state: StateDatabase, in store: GatekeeperStore) throws -> String {
        let left = store.folder.file("left.sqlite")
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: state.path + suffix, toPath: left + suffix)
        }
        return left
    }

    @Test("Who was moved where he rested, and woken while all is held, is saved where he is")
    func woken() throws {
        let store = try GatekeeperStore()
        let reader = try HistoryReader(path: store.path)
        let idle = IdleConsumers(["Main"], at: Self.place(0))
        let state = try StateDatabase(
            folder: store.folder.path, store: reader.storeID, clock: store.clock.clock, idle: idle)
        try state.cursors.save(Self.place(0), of: "Main")
        idle.add("Main", at: 0, until: HookInterests(entities: ["t"]), hooks: 0)
        for (number, hooks) in [(1, 0), (2, nil)] as [(Int64, Int?)] {
            try store.write("A", "INSERT INTO u VALUES (\(number), 0)")
            let batch = try reader.batch(after: number - 1)
            _ = idle.pass(batch, to: Self.place(number), hooks: hooks)
        }
        // A cleanup may go as far as this.
        let plan = try CleaningPlan(store.served(["Main"]), source: reader, state: state)
        #expect(plan.number == 1)
        #expect(try saved(store) == 1)
        try state.close()
        try reader.close()
    }

    @Test("What could not be saved is saved the next time")
    func failed() throws {
        let store = try GatekeeperStore()
        let state = try store.state()
        try state.cursors.save(Self.place(1), of: "Main")
        let queue = try DatabaseQueue(path: state.path)
        try queue.writeWithoutTransaction { try $0.execute(sql: "ALTER TABLE cursor RENAME TO away") }
        state.cursors.saveLater(Self.place(2), of: "Main")
        #expect(throws: HistoryError.self) { try state.cursors.flush() }
        try queue.writeWithoutTransaction { try $0.execute(sql: "ALTER TABLE away RENAME TO cursor") }
        #expect(try saved(store) == 1)
        try queue.close()
        try state.cursors.flush()
        #expect(try saved(store) == 2)
        try state.close()
    }

    @Test("A feed that moves over what is not for it is not saved ahead of its consumer")
    func feed() throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"], feeds: ["Main": [FeedContext(name: "live")]])
        try store.write("Main", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        let (state, reader) = (try store.state(), try HistoryReader(path: store.path))
        try state.cursors.save(Self.place(0), of: "Main")
        let keeper = FeedKeeper(store: served, source: reader, state: state, reporter: SilentReporter())
        try keeper.begin()
        state.cursors.saveLater(Self.place(2), of: "Main")
        try keeper.skipWhatIsNotSent()
        #expect(try keeper.state(of: FeedID(consumer: "Main", context: "live")).position == 2)
        #expect(try saved(store) == 2)
        try state.close()
        try reader.close()
    }

    @Test("A cleanup goes no further than what a power failure leaves of the state")
    func powerFailure() throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        let (state, reader) = (try store.state(), try HistoryReader(path: store.path))
        try state.cursors.save(Self.place(2), of: "Main")
        #expect(try CleaningPlan(store.served(["Main"]), source: reader, state: state).number == 2)
        let left = try leftBehind(state, in: store)
        #expect(
            try GatekeeperStore.read(left) {
                try Int64.fetchOne($0, sql: "SELECT position FROM cursor WHERE consumer = 'Main'")
            } == 2)
        try state.close()
        try reader.close()
    }

    @Test("A program's own cleanup, too, goes no further than what a power failure leaves of the state")
    func powerFailureOfManualCleaner() async throws {
        let store = try GatekeeperStore()
        try store.write("A", "INSERT INTO t VALUES (1, 1)", "INSERT INTO t VALUES (2, 2)")
        // A daemon has it open, so that the write-ahead log stays.
        let state = try store.state()
        try state.cursors.save(Self.place(2), of: "Main")
        let cleaner = ManualCleaner(store.served(["Main"]), stateFolder: store.folder.path)
        _ = try await cleaner.clean()
        let left = try leftBehind(state, in: store)
        #expect(
            try GatekeeperStore.read(left) {
                try Int64.fetchOne($0, sql: "SELECT position FROM cursor WHERE consumer = 'Main'")
            } == 2)
        try state.close()
    }

    @Test("One cursor is what it is among all, and costs the same however many there are")
    func one() throws {
        func steps(_ count: Int) throws -> Int {
            let store = try GatekeeperStore()
            let names = (1...count).map { "Consumer \($0)" }
            let idle = IdleConsumers(names, at: Self.place(50))
            let connection = try StateConnection(store.folder.file("state.sqlite"), clock: store.clock.clock)
            let cursors = CursorStore(connection, idle: idle)
            for (place, name) in names.enumerated() {
                if place % 2 == 0 { try cursors.save(Self.place(Int64(place % 100)), of: name) }
                if place % 3 == 0 { cursors.saveLater(Self.place(Int64(place % 70)), of: name) }
                if place % 5 == 0 { idle.add(name, at: 50, until: HookInterests(entities: ["t"]), hooks: 0) }
            }
            let all = try cursors.all()
            for name in names + ["Nobody"] {
                #expect(try cursors.checkpoint(of: name)?.position == all[name]?.position)
            }
            let steps = Counter()
            try connection.access { db in
                let counter = Unmanaged.passUnretained(steps).toOpaque()
                sqlite3_progress_handler(
                    db.sqliteConnection, 1,
                    { pointer in
                        if let pointer {
                            Unmanaged<Counter>.fromOpaque(pointer).takeUnretainedValue().count += 1
                        }
                        return 0
                    }, counter)
            }
            _ = try cursors.checkpoint(of: names[0])
            try connection.access { db in sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
            try connection.close()
            return steps.count
        }
        #expect(try steps(1000) == steps(10))
    }

    private final class Counter { var count = 0 }

    @Test("A cleanup goes no further than what is saved, however fast a consumer moves meanwhile")
    func cleaning() async throws {
        let store = try GatekeeperStore()
        let served = store.served(["Main"])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        // The store's newest change lies far ahead.
        try store.write(nil, "UPDATE historyd_change SET id = 1000000000")
        let (state, reader) = (try store.state(), try HistoryReader(path: store.path))
        try state.cursors.save(Self.place(0), of: "Main")
        let isOver = Locked(false)
        async let consumer: Void = onThread {
            var number: Int64 = 0
            while !isOver.withLock({ $0 }) {
                number += 1
                state.cursors.saveLater(Self.place(number), of: "Main")
            }
        }
        for _ in 1...100 {
            let limit = try CleaningPlan(served, source: reader, state: state).number
            #expect(try saved(store) == limit)
        }
        isOver.withLock { $0 = true }
        try await consumer
        try state.close()
        try reader.close()
    }

    @Test("A cursor that is saved late on one thread does not come after one that is saved at once on another")
    func order() async throws {
        let store = try GatekeeperStore()
        let state = try store.state()
        let isOver = Locked(false)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 1...8 {
                group.addTask {
                    try await onThread { while !isOver.withLock({ $0 }) { try state.cursors.flush() } }
                }
            }
            group.addTask {
                try await onThread {
                    defer { isOver.withLock { $0 = true } }
                    for number in 1...2000 as ClosedRange<Int64> {
                        state.cursors.saveLater(Self.place(2 * number - 1), of: "Main")
                        try state.cursors.save(Self.place(2 * number), of: "Main")
                        guard try state.cursors.checkpoint(of: "Main")?.position == 2 * number else {
                            throw Back(number: number)
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        try state.close()
    }

    private struct Back: Error { let number: Int64 }
}
