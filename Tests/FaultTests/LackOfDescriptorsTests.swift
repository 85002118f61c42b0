import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// SQLite opens a file for reading alone where it cannot be opened for writing, also for lack of descriptors.
@Suite struct LackOfDescriptorsTests {
    /// The next opening of each database is for reading alone, or fails.
    private func lack(_ disk: FaultDisk, _ outcome: FaultDisk.Fault = .readOnly) {
        let files = Locked<Set<String>>([])
        disk.decide { call in
            guard call.kind == .open, call.file.hasSuffix(".sqlite") else { return .none }
            return files.withLock { $0.insert(call.file).inserted } ? outcome : .none
        }
    }

    @Test("A store that may be written, and was opened for reading alone, lacks no rights: it is opened again")
    func store() throws {
        let disk = try FaultDisk()
        let store = FaultStore(folder: disk.path)
        try store.makeUntracked()
        lack(disk)
        let error = #expect(throws: HistoryError.self) {
            try StoreConnection.withConnection(to: store.path, .write) { queue in
                try queue.writeInTransaction { try $0.execute(sql: "INSERT INTO t (n) VALUES (1)") }
            }
        }
        #expect(error?.code == .storeInterrupted)
        try Tracking.track(store.path, ["t": nil])
    }

    @Test("A store that may be used, and cannot be opened for a moment, lacks no rights: it is opened again")
    func opening() throws {
        let disk = try FaultDisk()
        let store = FaultStore(folder: disk.path)
        try store.makeUntracked()
        lack(disk, .result(ResultCode.SQLITE_CANTOPEN.rawValue))
        let error = #expect(throws: HistoryError.self) {
            try StoreConnection.withConnection(to: store.path, .write) { _ in }
        }
        #expect(error?.code == .storeInterrupted)
        try Tracking.track(store.path, ["t": nil])
    }

    @Test(
        "What is in the place of a side file is named: a new opening would not help",
        arguments: ["-wal", "-shm"])
    func obstacle(suffix: String) throws {
        let disk = try FaultDisk()
        let store = FaultStore(folder: disk.path)
        try store.makeUntracked()
        for side in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: store.path + side) }
        try FileManager.default.createDirectory(
            atPath: store.path + suffix, withIntermediateDirectories: false)
        let error = #expect(throws: HistoryError.self) {
            try StoreConnection.withConnection(to: store.path, .write) { queue in
                try queue.writeInTransaction { try $0.execute(sql: "INSERT INTO t (n) VALUES (1)") }
            }
        }
        #expect(error?.code == .storeUnreadable)
        #expect(error?.hint?.contains("\(store.path)\(suffix)\" is not a file: move it away") == true)
    }

    @Test("A folder in which no journal can be made is a matter of rights: a new opening would not help")
    func folder() throws {
        let disk = try FaultDisk()
        let store = FaultStore(folder: disk.path)
        try store.make(journal: "DELETE")
        // As SQLite's own VFS says it.
        disk.decide { call in
            call.kind == .open && call.file.hasSuffix("-journal")
                ? .result(ResultCode.SQLITE_READONLY_DIRECTORY.rawValue) : .none
        }
        let error = #expect(throws: HistoryError.self) {
            try StoreConnection.withConnection(to: store.path, .write) { queue in
                try queue.writeInTransaction { try $0.execute(sql: "INSERT INTO t (n) VALUES (1)") }
            }
        }
        #expect(error?.code == .storeUnreadable)
    }

    @Test("A state that was opened for reading alone is opened again")
    func state() throws {
        let disk = try FaultDisk()
        let state = try StateDatabase(folder: disk.path, store: .sample())
        try state.cursors.save(Checkpoint(position: 3, movedAt: .now), of: "Main")
        try state.close()
        lack(disk)
        #expect(throws: HistoryError.self) {
            try state.cursors.save(Checkpoint(position: 4, movedAt: .now), of: "Main")
        }
        try state.cursors.save(Checkpoint(position: 4, movedAt: .now), of: "Main")
        #expect(try state.cursors.checkpoint(of: "Main")?.position == 4)
        try state.close()
    }
}
