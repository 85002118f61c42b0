import CoreDataStores
import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// Reading a store that Core Data writes changes not a byte of it, nor its folder, and misses nothing of its log.
@Suite struct CoreDataUntouchedTests {
    /// Everything in a folder: names, contents, times and rights.
    struct Listing: Equatable {
        var files: [String: String] = [:]

        init(_ folder: String) throws {
            for name in try FileManager.default.contentsOfDirectory(atPath: folder) {
                let data = try Data(contentsOf: URL(fileURLWithPath: folder + "/" + name))
                var status = stat()
                try #require(lstat(folder + "/" + name, &status) == 0)
                files[name] =
                    "\(data.count) \(data.hashValue) \(status.st_mode) \(status.st_uid) \(status.st_ino) \(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec)"
            }
        }
    }

    /// How a store's files lie in a folder.
    enum Files: String, CaseIterable {
        case withoutLog, withLog, withLogAndIndex, withEmptyLog, withUselessLog, inRollbackMode, live
    }

    private static let model = StoreModel([
        .init("Note", attributes: [.init("text", .string, isPreserved: true), .init("at", .date)]),
        .init("Other", relationships: [.init("notes", to: "Note", isToMany: true)]),
    ])

    private func everything(_ path: String) throws -> [HistoryTransaction] {
        let reader = try #require(try StoreHistory.open(path) as? CoreDataReader)
        let transactions = try reader.all(changes: 20)
        _ = try CoreDataDescription(reader)
        _ = try reader.reversedBatch(before: nil)
        _ = try reader.look(after: 0, fingerprint: nil, values: nil)
        let second = try CoreDataReader(path: path)
        _ = try second.end()
        try second.close()
        try reader.close()
        return transactions
    }

    @Test("Nothing changes, nothing is missed", arguments: Files.allCases)
    func nothingChanges(_ files: Files) throws {
        let folder = try TemporaryFolder()
        let origin = try TemporaryFolder()
        let store = try GeneratedStore(
            (files == .live ? folder : origin).file("s.sqlite"), Self.model,
            journal: files == .inRollbackMode ? "DELETE" : "WAL", random: Seed(4))
        var seed = Seed(5)
        try store.writeAny(60, &seed)
        let path = folder.file("s.sqlite")
        let kept: [String] =
            switch files {
            case .withLog, .withUselessLog: ["", "-wal"]
            case .withLogAndIndex: ["", "-wal", "-shm"]
            case .live: []
            case .withoutLog, .withEmptyLog, .inRollbackMode: [""]
            }
        if kept == [""] { store.close() }
        for suffix in kept {
            try FileManager.default.copyItem(atPath: store.path + suffix, toPath: path + suffix)
        }
        if files == .withEmptyLog { try Data().write(to: URL(fileURLWithPath: path + "-wal")) }
        if files == .withUselessLog {
            // The log of another file's life: its salt is wrong from the first frame on.
            store.close()
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.copyItem(atPath: store.path, toPath: path)
            try Data(repeating: 7, count: 5000).write(to: URL(fileURLWithPath: path + "-wal"))
        }
        let before = try Listing(folder.path)
        #expect(try Told(everything(path)) == Told(store))
        #expect(try Listing(folder.path) == before)
        store.close()
    }

    @Test(
        "The samples, too", .enabled(if: AppleStores.areThere, "The samples are not beside the project."),
        arguments: AppleStores.names)
    func samples(_ name: String) throws {
        let folder = try TemporaryFolder()
        let path = try AppleStores.copy(name, to: folder.path)
        let before = try Listing(folder.path)
        #expect(try everything(path).count == AppleStores.expected(name).count)
        #expect(try Listing(folder.path) == before)
    }

    @Test("What would change a store is refused before anything is opened for it")
    func refused() throws {
        let folder = try TemporaryFolder()
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(4))
        try store.commit([.init("Note", 1, .insert)])
        store.close()
        let before = try Listing(folder.path)
        let path = store.path
        let attempts: [() throws -> Void] = [
            { try Tracking.track(path, [:], all: true) }, { _ = try Tracking.tables(of: path) },
            { try Tracking.untrack(path) },
            { _ = try AuthoredSQL.run("DELETE FROM ZNOTE", on: path, author: "a") },
            { _ = try Migration(path) },
        ]
        for attempt in attempts {
            let error = #expect(throws: HistoryError.self) { try attempt() }
            #expect(error?.code == .onlyRead)
        }
        #expect(try Listing(folder.path) == before)
    }

    @Test("A damaged file is left as it is", arguments: [100, 4096, 20_000])
    func damaged(_ size: Int) throws {
        let folder = try TemporaryFolder()
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(4))
        var seed = Seed(5)
        try store.writeAny(300, &seed)
        store.close()
        try #require(truncate(store.path, size) == 0)
        let before = try Listing(folder.path)
        let error = #expect(throws: HistoryError.self) { try StoreHistory.open(store.path).all() }
        #expect(error?.code == .storeCorrupt)
        #expect(try Listing(folder.path) == before)
    }

    @Test("A reader follows a store from rest to life and back")
    func comesToLife() throws {
        let folder = try TemporaryFolder()
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(4))
        var seed = Seed(5)
        try store.writeAny(3, &seed)
        store.close()
        let reader = try CoreDataReader(path: store.path)
        #expect(try reader.all().count == 3)
        func write(_ raw: RawStore, _ number: Int) throws {
            try raw.script("INSERT INTO ATRANSACTION (Z_PK, ZTIMESTAMP) VALUES (\(number), \(number))")
        }
        for number in [4, 6] {
            let raw = try RawStore(store.path)
            try write(raw, number)
            #expect(try reader.all().count == number)
            try write(raw, number + 1)
            #expect(try reader.all().count == number + 1)
            raw.close()
            #expect(try reader.all().count == number + 1)
        }
        let second = try CoreDataReader(path: store.path)
        #expect(try second.all().count == 7)
        try second.close()
        let raw = try RawStore(store.path)
        try write(raw, 8)
        #expect(try reader.all().count == 8)
        try reader.close()
        raw.close()
        // The last one out is the app, which brings its log into the file.
        #expect(!FileManager.default.fileExists(atPath: store.path + "-wal"))
        #expect(try CoreDataReader(path: store.path).all().count == 8)
    }

    @Test("A store that is replaced is another store")
    func replaced() throws {
        let folder = try TemporaryFolder()
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(4))
        try store.commit([.init("Note", 1, .insert)])
        store.close()
        let other = try GeneratedStore(
            folder.file("t.sqlite"), Self.model, uuid: "FFFFFFFF-0B0A-4908-8706-050403020100", random: Seed(4))
        try other.commit([.init("Note", 1, .insert)])
        other.close()
        let reader = try CoreDataReader(path: store.path)
        #expect(try reader.all().count == 1)
        try #require(rename(other.path, store.path) == 0)
        #expect(throws: HistoryError.self) { try reader.newestToken() }
        try reader.close()
    }

    @Test("What is no store of Core Data's is said to be none")
    func otherFiles() throws {
        let folder = try TemporaryFolder()
        let plain = try RawStore(folder.file("plain.sqlite"))
        try plain.script("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        plain.close()
        for (name, content) in [("empty", ""), ("text", String(repeating: "no database ", count: 100))] {
            try folder.write(name, content)
        }
        func code(_ name: String) -> HistoryError.Code? {
            do {
                _ = try StoreHistory.open(folder.file(name))
                return nil
            } catch {
                return (error as? HistoryError)?.code
            }
        }
        #expect(code("plain.sqlite") == .notTracked)
        #expect(code("missing") == .storeMissing)
        #expect(code("empty") != nil)
        #expect(code("text") == .storeCorrupt)
    }
}
