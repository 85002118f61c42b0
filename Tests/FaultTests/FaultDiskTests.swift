import Foundation
import GRDB
import PersistentHistory
import TestSupport
import Testing

/// The disk that the other tests here rely on.
@Suite struct FaultDiskTests {
    private func count(_ path: String) throws -> Int? {
        let queue = try DatabaseQueue(path: path)
        defer { try? queue.close() }
        return try queue.read { db in
            guard try db.tableExists("t") else { return nil }
            return try Int.fetchOne(db, sql: "SELECT count(*) FROM t")
        }
    }

    private func open(_ disk: FaultDisk, _ pragmas: String) throws -> DatabaseQueue {
        let queue = try DatabaseQueue(path: disk.folder.file("d.sqlite"))
        try queue.writeWithoutTransaction { try $0.execute(sql: pragmas + "; CREATE TABLE t (n)") }
        return queue
    }

    @Test("What is not synced is lost with the power, and kept by a kill")
    func lost() throws {
        let (disk, images) = (try FaultDisk(), try TemporaryFolder(inMemory: true))
        let queue = try open(disk, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT INTO t VALUES (1)")
            _ = try db.checkpoint(.full)
            try db.execute(sql: "INSERT INTO t VALUES (2)")
        }
        #expect(disk.unsynced > 0)
        try disk.image(to: images.file("lost"), .lost)
        try disk.image(to: images.file("kept"), .kept)
        #expect(try count(images.file("lost/d.sqlite")) == 1)
        #expect(try count(images.file("kept/d.sqlite")) == 2)
        try queue.close()
    }

    @Test("With synchronous=FULL, no commit is lost, and no image is damaged", arguments: ["WAL", "DELETE"])
    func durable(mode: String) throws {
        let (disk, images) = (try FaultDisk(), try TemporaryFolder(inMemory: true))
        let queue = try open(disk, "PRAGMA journal_mode = \(mode); PRAGMA synchronous = EXTRA")
        let made = Locked(0)
        let cuts = Locked<[(cut: Int, made: Int)]>([])
        disk.decide { call in
            guard FaultDisk.Calls.changes.contains(call.kind) else { return .none }
            let cut = cuts.withLock { cuts in
                cuts.append((cuts.count, made.withLock { $0 }))
                return cuts.count - 1
            }
            for (way, loss) in [FaultDisk.Loss.lost, .seeded(UInt64(cut)), .seeded(UInt64(cut) + 1 << 32)]
                .enumerated()
            {
                do { try disk.image(to: images.file("\(cut)-\(way)"), loss) } catch { return .inputOutput }
            }
            return .none
        }
        for number in 1...20 {
            try queue.writeWithoutTransaction { db in
                try db.execute(sql: "INSERT INTO t VALUES (\(number))")
                if number % 7 == 0, mode == "WAL" { _ = try db.checkpoint(.passive) }
            }
            made.withLock { $0 = number }
        }
        disk.mend()
        try queue.close()
        for (cut, made) in cuts.withLock({ $0 }) {
            for way in 0..<3 {
                let found = try count(images.file("\(cut)-\(way)/d.sqlite"))
                #expect([made, made + 1].contains(found ?? 0), "cut \(cut), way \(way)")
            }
        }
    }

    @Test("The call that is told to fail fails, and the next one does not")
    func fails() throws {
        let disk = try FaultDisk()
        let queue = try open(disk, "PRAGMA journal_mode = DELETE")
        for (fault, code) in [
            (FaultDisk.Fault.full, ResultCode.SQLITE_FULL), (.inputOutput, .SQLITE_IOERR),
            (.short, .SQLITE_IOERR), (.result(8), .SQLITE_READONLY),
        ] {
            disk.decide { $0.kind == .write && $0.file == "d.sqlite" ? fault : .none }
            let error = #expect(throws: DatabaseError.self) {
                try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
            }
            #expect(error?.resultCode == code)
            disk.mend()
        }
        try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        try queue.close()
        #expect(try count(disk.folder.file("d.sqlite")) == 1)
    }
}
