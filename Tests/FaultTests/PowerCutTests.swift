import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// A store's life with commits, a dead letter, a feed, cleanings, a replica, a mirror, a migration, a move and a restore,
/// cut by a power failure before each change of the disk.
///
/// In `make test` some cuts are taken, from HISTORYD_FAULTS_SEED on; `make test-faults` takes all.
@Suite(.timeLimit(.minutes(60))) struct PowerCutTests {
    /// What had happened when the power failed.
    private struct Cut: Sendable {
        let folder: String
        let comment: Comment
        let delivered: [DeliveryLog.Delivery]
        let wasRestored: Bool
    }

    /// How many cuts are taken in one life: their images lie in memory.
    private static let share = 40

    @Test("After a power failure nothing is lost, and all is right in the end")
    func everyCut() async throws {
        var last = 0
        var isOver = false
        while !isOver {
            var seed = Seed(FaultSelection.seed &+ UInt64(last))
            var numbers: Set<Int> = []
            for _ in 0..<Self.share {
                last += FaultSelection.isComplete ? 1 : Int.random(in: 1...60, using: &seed)
                numbers.insert(last)
            }
            isOver = try await cut(at: numbers) < last
        }
    }

    /// - Returns: How many changes of the disk there were.
    private func cut(at numbers: Set<Int>) async throws -> Int {
        let (disk, images) = (try FaultDisk(), try TemporaryFolder(inMemory: true))
        let store = FaultStore(folder: disk.path)
        try store.make()
        let (log, count) = (Self.log(), Locked(0))
        let (wasRestored, cuts) = (Locked(false), Locked<[Cut]>([]))
        disk.decide { [disk] call in
            guard FaultDisk.Calls.changes.contains(call.kind) else { return .none }
            let number = count.withLock {
                $0 += 1
                return $0
            }
            guard numbers.contains(number) else { return .none }
            for (index, loss) in [FaultDisk.Loss.lost, .kept, .seeded(UInt64(number))].enumerated() {
                let cut = Cut(
                    folder: images.file("\(number)-\(index)"),
                    comment: "before change \(number), \(call.kind) \(call.file): \(loss)", delivered: log.all,
                    wasRestored: wasRestored.withLock(\.self))
                do { try disk.image(to: cut.folder, loss) } catch { Issue.record(error) }
                cuts.withLock { $0.append(cut) }
            }
            return .none
        }
        try await Self.live(store, log) { wasRestored.withLock { $0 = true } }
        disk.mend()
        // Beside the original, an image would be a copy of it.
        for name in try FileManager.default.contentsOfDirectory(atPath: disk.path) {
            try FileManager.default.removeItem(atPath: disk.path + "/" + name)
        }
        for cut in cuts.withLock(\.self) {
            do {
                try await Self.check(cut)
            } catch {
                Issue.record(error, cut.comment)
            }
            try FileManager.default.removeItem(atPath: cut.folder)
        }
        return count.withLock(\.self)
    }

    /// The second row's call is given up.
    private static func log() -> DeliveryLog { DeliveryLog { $0 == "insert t 2" } }

    private static func write(_ ids: Int..., to store: FaultStore) throws {
        for id in ids { try store.write("INSERT INTO t (id, n) VALUES (\(id), 0)") }
    }

    private static func serve(_ store: FaultStore, _ log: DeliveryLog) async throws {
        try await store.serve([log.hook(then: .skip)])
        try await store.readFeed()
        try store.followWithMirror()
        try await store.clean()
    }

    private static func live(_ store: FaultStore, _ log: DeliveryLog, restoring: () -> Void) async throws {
        try write(1, 2, 3, to: store)
        try await serve(store, log)
        try write(4, 5, to: store)
        try await serve(store, log)
        let (manager, backup) = (FileManager.default, store.folder + "/backup")
        try manager.copyItem(atPath: store.path, toPath: backup)
        try store.migrate()
        try write(6, to: store)
        try await serve(store, log)

        var moved = store
        moved.name = "moved"
        try manager.moveItem(atPath: store.path, toPath: moved.path)
        try write(7, to: moved)
        try await serve(moved, log)

        restoring()
        try manager.removeItem(atPath: moved.path)
        try manager.copyItem(atPath: backup, toPath: moved.path)
        try write(8, to: moved)
        try await serve(moved, log)
    }

    private static func check(_ cut: Cut) async throws {
        var store = FaultStore(folder: cut.folder)
        if FileManager.default.fileExists(atPath: cut.folder + "/moved.sqlite") { store.name = "moved" }
        #expect(try FaultStore.check(store.path) == [], cut.comment)
        if !cut.wasRestored { try store.expectNothingNeededIsGone() }
        let log = Self.log()
        // Twice: the second time there is nothing left to be mended.
        for _ in 0..<2 { try await serve(store, log) }
        try store.expectServed()
        #expect(try FaultStore.rows(store.mirrorPath) == FaultStore.rows(store.path), cut.comment)

        let delivered = cut.delivered + log.all
        let contents = Set(delivered.map(\.content))
        // What was committed between a restore and its discovery is told as lost, not delivered.
        let told: Set<Int> = cut.wasRestored ? [2, 8] : [2]
        for id in try FaultStore.ids(store.path) where !told.contains(id) {
            #expect(contents.contains("insert t \(id)"), cut.comment)
        }
        let letters = try store.withState { try $0.deadLetters.all() }
        #expect(letters.count == (try FaultStore.ids(store.path).contains(2) ? 1 : 0), cut.comment)
        // A restored store gives numbers again.
        if cut.wasRestored { return }
        // A migration that was cut may have changed what was not recorded, and says so.
        let losses = [Expiry.Reason.expired, .restored, .late].map(\.rawValue)
        #expect(contents.allSatisfy { content in !losses.contains { content.hasPrefix($0) } }, cut.comment)
        for (id, same) in Dictionary(grouping: delivered, by: \.id) {
            #expect(Set(same.map(\.content)).count == 1, "\(id), \(cut.comment)")
        }
    }
}
