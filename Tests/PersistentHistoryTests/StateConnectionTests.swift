import Foundation
import GRDB
import Glibc
import TestSupport
import Testing

@testable import PersistentHistory

/// A state that is closed until something is saved.
@Suite struct StateConnectionTests {
    private static let store = StoreID.sample()

    @Test("A state that was closed is opened again by the next access")
    func reopened() throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        try state.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main")
        for position in 3...5 as ClosedRange<Int64> {
            try state.close()
            // Nothing has it open any more (https://www.sqlite.org/wal.html).
            try state.cursors.flush()
            #expect(!FileManager.default.fileExists(atPath: state.path + "-wal"))
            #expect(try state.cursors.checkpoint(of: "Main")?.position == position)
            try state.cursors.save(Checkpoint(position: position + 1, movedAt: .now), of: "Main")
        }
        try state.close()
        try state.close()
    }

    @Test(
        "Where a state was removed while it was closed, no other is made, of which consumers would start over")
    func removed() throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        try state.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main")
        try state.close()
        try FileManager.default.moveItem(atPath: state.path, toPath: state.path + ".away")
        let error = #expect(throws: HistoryError.self) { try state.cursors.all() }
        #expect(error?.code == .stateUnusable)
        #expect(!FileManager.default.fileExists(atPath: state.path))
        try FileManager.default.moveItem(atPath: state.path + ".away", toPath: state.path)
        #expect(try state.cursors.checkpoint(of: "Main")?.position == 3)
        try state.close()
    }

    @Test("A state that is replaced while it is opened again is not taken for the other file")
    func replacedMeanwhile() throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        let path = state.path
        let (own, other, next) = (path + ".own", path + ".other", path + ".next")
        try state.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main")
        try state.close()
        try FileManager.default.copyItem(atPath: path, toPath: other)
        try state.cursors.save(Checkpoint(position: 4, movedAt: .now), of: "Main")
        try state.close()
        #expect(link(path, own) == 0)
        let replace: @Sendable (String) -> Void = { file in
            _ = link(file, next)
            _ = rename(next, path)
        }
        // It is replaced a moment later each time, so also between the look at its path and its opening.
        var (read, refused) = (0, 0)
        for moment in 0..<800 {
            let isReplaced = meanwhile(after: moment) { replace(other) }
            do {
                try #require(try state.cursors.checkpoint(of: "Main")?.position == 4)
                read += 1
            } catch let error as HistoryError {
                try #require(error.code == .stateUnusable)
                refused += 1
            }
            isReplaced.wait()
            replace(own)
            try state.close()
        }
        #expect(read > 0 && refused > 0)
    }

    @Test("What is saved survives the removal of the log while the state is opened again")
    func removedMeanwhile() throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        let path = state.path
        for moment in 1...800 {
            try state.close()
            let isRemoved = meanwhile(after: moment) { for side in ["-wal", "-shm"] { unlink(path + side) } }
            try state.cursors.save(Checkpoint(position: 1, movedAt: .now), of: "Main")
            isRemoved.wait()
            let position = Int64(moment)
            try state.cursors.save(Checkpoint(position: position, movedAt: .now), of: "Main")
            let other = try DatabaseQueue(path: path)
            let found = try other.read { try Int64.fetchOne($0, sql: "SELECT position FROM cursor") }
            try other.close()
            try #require(found == position)
        }
        try state.close()
    }

    @Test(
        "What was saved survives the removal of the log, although another connection is open",
        arguments: [["-wal"], ["-wal", "-shm"]])
    func removedLog(sides: [String]) throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        try state.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main")
        let other = try DatabaseQueue(path: state.path)
        _ = try other.inDatabase { try $0.tableExists("cursor") }
        for side in sides { unlink(state.path + side) }
        #expect(try state.cursors.checkpoint(of: "Main")?.position == 3)
        for side in sides { unlink(state.path + side) }
        try state.close()
        try other.close()
        let after = try StateDatabase(folder: folder.path, store: Self.store)
        #expect(try after.cursors.checkpoint(of: "Main")?.position == 3)
        try after.close()
    }

    /// Does something on another thread, once as many short calls have been made.
    private func meanwhile(after moment: Int, _ body: @escaping @Sendable () -> Void) -> DispatchSemaphore {
        let isDone = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            for _ in 0..<moment { _ = access("/", F_OK) }
            body()
            isDone.signal()
        }
        return isDone
    }

    /// What the database has without its write-ahead log.
    private func positionWithoutLog(_ state: StateDatabase) throws -> Int64? {
        let folder = try TemporaryFolder()
        let copy = folder.path + "/copy.sqlite"
        try FileManager.default.copyItem(atPath: state.path, toPath: copy)
        return try DatabaseQueue(path: copy).read { db in
            guard try db.tableExists("cursor") else { return nil }
            return try Int64.fetchOne(db, sql: "SELECT position FROM cursor WHERE consumer = 'Main'")
        }
    }

    @Test("Who saves does not wait for the log to be moved into the database; who keeps it short does")
    func logKeptShort() async throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        let saved = Int64(2 * StateConnection.logTurn)
        for position in 1...saved {
            try state.cursors.save(Checkpoint(position: position, movedAt: .now), of: "Main")
        }
        #expect(try positionWithoutLog(state) == nil)
        // What was notified before the end is still worked off.
        state.connection.logHasGrown.end()
        await state.connection.keepLogShort()
        #expect(try positionWithoutLog(state) == saved)
        try state.close()
    }

    @Test("A log that is not kept short is limited")
    func logLimited() throws {
        let folder = try TemporaryFolder()
        let state = try StateDatabase(folder: folder.path, store: Self.store)
        for position in 1...Int64(10 * StateConnection.logTurn) {
            try state.cursors.save(Checkpoint(position: position, movedAt: .now), of: "Main")
        }
        #expect(try positionWithoutLog(state) != nil)
        let size = try FileManager.default.attributesOfItem(atPath: state.path + "-wal")[.size] as? Int ?? 0
        #expect(size < 5 * StateConnection.logTurn * 4200)
        try state.close()
    }

    @Test("What is brought to the disk for a cleanup is not refused because the log is moved at that moment")
    func oneCheckpointAtATime() async throws {
        let folder = try TemporaryFolder()
        let state = try StateConnection(folder.path + "/state.sqlite", clock: .system)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { for _ in 0..<2000 { try state.moveLogIntoDatabase() } }
            group.addTask {
                for number in 0..<2000 {
                    try state.access { try $0.execute(sql: "UPDATE service SET passes = \(number)") }
                    try state.syncToDisk()
                }
            }
            try await group.waitForAll()
        }
        try state.close()
    }
}

/// Each trouble has the remedy that cures it.
@Suite struct StateAdviceTests {
    @Test func aLockedStateIsNoErrorOfTheDisk() {
        let error = HistoryError.state("/nowhere/s.sqlite", DatabaseError(resultCode: .SQLITE_BUSY))
        #expect(error.code == .stateUnusable)
        #expect(error.hint?.contains("Another program has locked it") ?? false, "\(error)")
    }

    @Test(.enabled(if: geteuid() == 0, "only root can leave files of another user"))
    func aStateWithFilesOfAnotherUserIsGivenBack() throws {
        let folder = try TemporaryFolder()
        try folder.write("historyd.lock", "")
        chown(folder.file("historyd.lock"), 61999, 61999)
        // Root may use them all the same.
        #expect(AccessAdvice(state: folder.path) == nil)
        let plan = RemedyPlan([.foreign([folder.path], isTree: true)], user: "historyd", unit: nil)
        #expect(plan.text == "As root: chown -hR historyd: \(folder.path)")
    }
}
