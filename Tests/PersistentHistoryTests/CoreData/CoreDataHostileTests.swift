import CoreDataStores
import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// Files that were made to do harm, or are damaged: an error at most, in bounded time and memory.
@Suite struct CoreDataHostileTests {
    private static let model = StoreModel([
        .init("Base", attributes: [.init("key", .uuid, isPreserved: true)]),
        .init(
            "Leaf", parent: "Base", attributes: [.init("text", .string)],
            relationships: [.init("others", to: "Base", isToMany: true, inverse: "leaf")]),
        .init("Third", relationships: [.init("leaf", to: "Leaf", inverse: "others")]),
    ])

    /// How many files are tried: more by `make fuzz-coredata`.
    private static let count =
        ProcessInfo.processInfo.environment["HISTORYD_MUTATIONS"].flatMap { Int($0) } ?? 60

    /// Changes some bytes, takes some away, or repeats some.
    private func mutated(_ bytes: [UInt8], _ seed: inout Seed) -> [UInt8] {
        var bytes = bytes
        for _ in 0..<Int.random(in: 1...8, using: &seed) {
            guard !bytes.isEmpty else { break }
            let place = Int.random(in: 0..<bytes.count, using: &seed)
            switch Int.random(in: 0..<6, using: &seed) {
            case 0: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &seed)
            case 1: bytes[place] = [0, 1, 0x7f, 0x80, 0xff, 0x13, 0xd0, 0xa1].randomElement(using: &seed) ?? 0
            case 2: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...40, using: &seed)))
            case 3:
                let end = min(bytes.count, place + Int.random(in: 1...40, using: &seed))
                bytes.insert(contentsOf: bytes[place..<end], at: place)
            case 4:
                let other = Int.random(in: 0..<bytes.count, using: &seed)
                for index in 0..<min(16, bytes.count - max(place, other)) {
                    bytes[place + index] = bytes[other + index]
                }
            default:
                bytes[max(0, bytes.count - 1 - Int.random(in: 0..<64, using: &seed) % bytes.count)] =
                    UInt8.random(in: 0...255, using: &seed)
            }
        }
        return bytes
    }

    /// Everything that reads a store; what it throws is of no interest, but for its type.
    private func readAll(_ path: String, _ context: String) throws {
        do {
            let history = try StoreHistory.open(path)
            defer { try? history.close() }
            _ = try history.newestToken()
            var position: Int64 = 0
            for _ in 0..<1000 {
                let batch = try history.batch(after: position)
                for transaction in batch.transactions {
                    var json = JSONBytes()
                    HistoryJSON.write(transaction, to: &json)
                }
                if batch.isLast || batch.end <= position { break }
                position = batch.end
            }
            let last = try history.reversedBatch(before: nil)
            if let reader = history as? CoreDataReader {
                _ = try ObjectHistory(reader).add(to: last.transactions)
            }
            if let reader = history as? CoreDataReader { _ = try CoreDataDescription(reader) }
        } catch is HistoryError {
        } catch {
            Issue.record("\(context): \(error)")
        }
    }

    @Test("Damaged archives of models", arguments: [UInt64.random(in: 1...1_000_000)])
    func archives(_ number: UInt64) {
        var seed = Seed(number)
        print("damaged models: \(seed)")
        for _ in 0..<Self.count * 5 {
            let archive = ModelArchive.bytes(Bool.random(using: &seed) ? Self.model : .any(&seed))
            let bytes = Deflate.stored(mutated(archive, &seed))
            do throws(ObjectModel.Unreadable) {
                let model = try ObjectModel(compressed: bytes)
                for name in model.entities.keys.map(\.text) {
                    _ = PropertySlots(of: name, in: model)
                    _ = PreservedAttributes(of: name, in: model)
                }
            } catch {
                #expect(!error.message.isEmpty)
            }
            _ = try? ObjectModel(compressed: mutated(Deflate.fixed(archive), &seed))
        }
    }

    @Test("Damaged stores", arguments: [UInt64.random(in: 1...1_000_000)])
    func stores(_ number: UInt64) throws {
        var seed = Seed(number)
        print("damaged Core Data stores: \(seed)")
        let folder = try TemporaryFolder(inMemory: true)
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: seed)
        try store.writeAny(30, &seed)
        let log = try [UInt8](Data(contentsOf: URL(fileURLWithPath: store.path + "-wal")))
        let early = try [UInt8](Data(contentsOf: URL(fileURLWithPath: store.path)))
        store.close()
        let whole = try [UInt8](Data(contentsOf: URL(fileURLWithPath: store.path)))
        let path = folder.file("damaged.sqlite")
        for round in 0..<Self.count {
            let isInLog = round % 3 == 0
            try Data(isInLog ? early : mutated(whole, &seed)).write(to: URL(fileURLWithPath: path))
            try? FileManager.default.removeItem(atPath: path + "-wal")
            if isInLog { try Data(mutated(log, &seed)).write(to: URL(fileURLWithPath: path + "-wal")) }
            try readAll(path, "\(seed), round \(round)")
        }
    }

    @Test(
        "Damaged samples", .enabled(if: AppleStores.areThere, "The samples are not beside the project."),
        arguments: [UInt64.random(in: 1...1_000_000)])
    func samples(_ number: UInt64) throws {
        var seed = Seed(number)
        print("damaged samples: \(seed)")
        let folder = try TemporaryFolder(inMemory: true)
        for round in 0..<max(6, Self.count / 30) {
            let name = try #require(
                ["CartKitSwiftData_v1.sqlite", "knowledgec-10.13.db"].randomElement(using: &seed))
            let bytes = try [UInt8](Data(contentsOf: URL(fileURLWithPath: AppleStores.path(name))))
            var damaged = bytes
            for _ in 0..<20 {
                damaged[Int.random(in: 100..<damaged.count, using: &seed)] = UInt8.random(
                    in: 0...255, using: &seed)
            }
            try Data(damaged).write(to: URL(fileURLWithPath: folder.file("d.sqlite")))
            try readAll(folder.file("d.sqlite"), "\(name), \(seed), round \(round)")
        }
    }

    @Test func aBombIsGivenUp() throws {
        let bomb = Deflate.bomb(blocks: 4000)
        #expect(bomb.count < 2_000_000)
        #expect(throws: Inflate.Failure("it expands to more than 1000000 bytes")) {
            try Inflate.inflate(bomb, limit: 1_000_000)
        }
        #expect(throws: ObjectModel.Unreadable.self) { try ObjectModel(compressed: bomb) }
    }

    @Test func theHistoryIsReadWithoutItsModel() throws {
        let folder = try TemporaryFolder()
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(1))
        try store.commit([.init("Leaf", 1, .update(["text"]))])
        store.close()
        let raw = try RawStore(store.path)
        try raw.script("UPDATE Z_MODELCACHE SET Z_CONTENT = x'ffffff'")
        raw.close()
        let reader = try CoreDataReader(path: store.path)
        #expect(try reader.all().flatMap(\.changes).map(\.unnamedProperties) == [[]])
        #expect(try CoreDataDescription(reader).modelProblem?.contains("decompressed") == true)
        try reader.close()
    }

    /// A property list of nothing but references to itself.
    @Test func circlesEnd() {
        for cycle in [
            PropertyListValue.dictionary([
                ("$top", .dictionary([("root", .reference(1))])),
                (
                    "$objects",
                    .array([
                        .text("$null"),
                        .dictionary([("$class", .reference(1)), ("NSEntities", .reference(2))]),
                        .dictionary([
                            ("NS.keys", .array([.reference(3)])), ("NS.objects", .array([.reference(4)])),
                        ]), .text("A"),
                        .dictionary([
                            ("$class", .reference(4)), ("NSEntityName", .reference(3)),
                            ("NSSuperentity", .reference(4)), ("NSProperties", .reference(5)),
                        ]),
                        .dictionary([
                            ("NS.keys", .array([.reference(3)])), ("NS.objects", .array([.reference(6)])),
                        ]),
                        .dictionary([("$class", .reference(7)), ("NSUnderlyingProperty", .reference(6))]),
                        .dictionary([("$classname", .text("_NSPropertyDescriptionProxy"))]),
                    ])
                ),
            ])
        ] {
            #expect(throws: ObjectModel.Unreadable("a property stands for itself")) {
                try ObjectModel(compressed: Deflate.stored(PropertyListWriter.bytes(cycle)))
            }
        }
    }

    /// Arrays within arrays, deeper than any stack.
    @Test func depthIsNotFollowed() {
        var value = PropertyListValue.array([])
        for _ in 0..<2000 { value = .array([value]) }
        let bytes = PropertyListWriter.bytes(.dictionary([("$objects", value), ("$top", .dictionary([]))]))
        #expect(throws: ObjectModel.Unreadable.self) { try ObjectModel(compressed: Deflate.stored(bytes)) }
    }

    @Test func tablesThatAreViewsAreRefused() throws {
        let folder = try TemporaryFolder()
        let raw = try RawStore(folder.file("s.sqlite"))
        try raw.script(
            """
            CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_NAME, Z_SUPER, Z_MAX);
            CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_UUID, Z_PLIST);
            CREATE TABLE ATRANSACTION (Z_PK INTEGER PRIMARY KEY, ZTIMESTAMP);
            CREATE VIEW ACHANGE AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                SELECT i AS Z_PK, 0 AS ZCHANGETYPE, 1 AS ZENTITY, i AS ZENTITYPK, 1 AS ZTRANSACTIONID FROM n;
            INSERT INTO Z_METADATA VALUES (1, '0F0E0D0C-0B0A-4908-8706-050403020100', NULL);
            INSERT INTO ATRANSACTION VALUES (1, 0);
            """)
        raw.close()
        #expect(throws: HistoryError.self) { try StoreHistory.open(folder.file("s.sqlite")) }
    }

    @Test func oddNumbersAreErrorsOrValues() throws {
        for statement in [
            "UPDATE ATRANSACTION SET ZTIMESTAMP = 1e300", "UPDATE ATRANSACTION SET ZTIMESTAMP = 'now'",
            "UPDATE ATRANSACTION SET Z_PK = 9223372036854775807",
            "UPDATE ATRANSACTION SET Z_PK = -9223372036854775808",
            "UPDATE ACHANGE SET ZENTITY = 9223372036854775807", "UPDATE ACHANGE SET ZENTITYPK = x'00'",
            "UPDATE ACHANGE SET ZCHANGETYPE = 7", "UPDATE ACHANGE SET ZTOMBSTONE0 = 1e308, ZCHANGETYPE = 2",
            "UPDATE Z_PRIMARYKEY SET Z_MAX = 9223372036854775807", "UPDATE Z_PRIMARYKEY SET Z_NAME = NULL",
            "UPDATE Z_METADATA SET Z_UUID = 'x'", "DELETE FROM Z_METADATA", "DELETE FROM Z_PRIMARYKEY",
            "UPDATE ACHANGE SET ZTRANSACTIONID = -5", "DROP TABLE ATRANSACTIONSTRING",
            "UPDATE ATRANSACTION SET ZAUTHORTS = 77", "UPDATE ATRANSACTIONSTRING SET ZNAME = zeroblob(100000)",
            "UPDATE ATRANSACTIONSTRING SET ZNAME = CAST(zeroblob(100000) AS TEXT)",
        ] {
            let folder = try TemporaryFolder(inMemory: true)
            let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(1))
            try store.commit(.init(author: "a"), [.init("Leaf", 1, .update(["text"]))])
            store.close()
            let raw = try RawStore(store.path)
            try raw.script(statement)
            raw.close()
            try readAll(store.path, statement)
        }
    }
}
