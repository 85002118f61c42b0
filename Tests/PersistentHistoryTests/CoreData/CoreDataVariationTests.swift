import CoreDataStores
import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// Stores that lack something, have it otherwise, or have much of it.
@Suite struct CoreDataVariationTests {
    private static let model = StoreModel([
        .init("Note", attributes: [.init("text", .string, isPreserved: true), .init("at", .date)])
    ])

    private func store(_ folder: TemporaryFolder, changedBy statement: String) throws -> String {
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(1))
        try store.commit(.init(author: "editor"), [.init("Note", 1, .update(["text"]))])
        try store.commit([.init("Note", 1, .delete(["text": .text("gone")]))])
        store.close()
        let raw = try RawStore(store.path)
        try raw.script(statement)
        raw.close()
        return store.path
    }

    @Test(
        "What the history cannot be read without is named",
        arguments: [
            ("DROP TABLE Z_METADATA", "the table Z_METADATA is missing"),
            ("DELETE FROM Z_METADATA", "the store's id, is not a UUID"),
            ("DROP TABLE ATRANSACTION", "has no history of Core Data or SwiftData"),
            ("DROP TABLE ACHANGE", "has no history of Core Data or SwiftData"),
            ("ALTER TABLE ACHANGE RENAME COLUMN ZENTITY TO Z", "the history's column ZENTITY is missing"),
            ("UPDATE ATRANSACTION SET ZTIMESTAMP = NULL", "the time of the transaction 1 is missing"),
            ("UPDATE ATRANSACTION SET ZTIMESTAMP = 'noon'", "the time of the transaction 1 is a text"),
            ("UPDATE ACHANGE SET ZENTITYPK = NULL WHERE Z_PK > 1", "is missing, not an integer"),
            ("UPDATE ACHANGE SET ZENTITY = NULL WHERE Z_PK > 1", "is missing, not an integer"),
        ])
    func missing(_ statement: String, _ said: String) throws {
        let folder = try TemporaryFolder()
        let path = try store(folder, changedBy: statement)
        let error = try #require(throws: HistoryError.self) { try StoreHistory.open(path).all() }
        #expect(error.description.contains(said))
        #expect(!error.description.contains("track it"))
    }

    @Test("What only tells names, or who it was, is not needed")
    func dispensable() throws {
        let folder = try TemporaryFolder()
        let reader = try StoreHistory.open(
            store(folder, changedBy: "DROP TABLE Z_PRIMARYKEY; DROP TABLE ATRANSACTIONSTRING"))
        let transactions = try reader.all()
        #expect(transactions.map(\.author) == [nil, nil])
        let changes = transactions.flatMap(\.changes)
        #expect(changes.map(\.operation) == [.update, .delete])
        #expect(changes.allSatisfy { $0.entity.name.hasPrefix("#") })
        #expect(changes[0].unnamedProperties == [])
        #expect(changes[1].tombstone?.values.map(\.column.name) == ["ZTOMBSTONE0"])
        #expect(try reader.newestToken().number == 2)
        try reader.close()
    }

    @Test("A model in another wrapping is read", arguments: ["", "7801"])
    func wrapping(_ header: String) throws {
        let folder = try TemporaryFolder()
        let archive = ModelArchive.bytes(Self.model)
        let content = header.isEmpty ? archive : Deflate.stored(archive)
        let hex = header + content.map { String(format: "%02x", $0) }.joined()
        let path = try store(folder, changedBy: "UPDATE Z_MODELCACHE SET Z_CONTENT = x'\(hex)'")
        let changes = try StoreHistory.open(path).all().flatMap(\.changes)
        #expect(changes.map(\.changedProperties) == [["text"], []])
    }

    @Test("Many entities, long bitmaps, and names that are not ASCII")
    func large() throws {
        var seed = Seed(7)
        let signs = ["größe", "名前", "Émile", "ключ", "𝄞"]
        var model = StoreModel([])
        for number in 0..<70 {
            let parent = number % 6 == 0 ? nil : model.entities[number - number % 6 + (number % 6 - 1) / 2].name
            model.entities.append(
                .init(
                    "\(signs[number % 5])\(number)", parent: parent,
                    attributes: (0..<25).map { place in
                        .init(
                            "\(signs[place % 5])\(number)_\(place)", place % 2 == 0 ? .string : .date,
                            isPreserved: place % 9 == 0)
                    },
                    relationships: [.init("zu\(number)", to: "größe0", inverse: nil)]))
        }
        let folder = try TemporaryFolder()
        let store = try GeneratedStore(folder.file("s.sqlite"), model, random: Seed(8))
        try store.writeAny(80, &seed)
        store.close()
        let reader = try CoreDataReader(path: store.path)
        #expect(try Told(reader.all()) == Told(store))
        let description = try CoreDataDescription(reader)
        #expect(description.entities.count == 70 && description.entities.allSatisfy(\.namesAreKnown))
        try reader.close()
    }

    @Test("Authors and properties whose names only look the same are told apart")
    func namesAreBytes() throws {
        let (one, two) = ("caf\u{e9}", "cafe\u{301}")
        let attribute = ObjectModel.Property.Kind.attribute(
            .init(type: .string, isTransient: false, isDerived: false, isPreserved: true))
        let properties = [one, two].map { ObjectModel.Property(name: $0, kind: attribute) }
        let model = ObjectModel(entities: [
            "A": .init(
                name: "A", parent: nil, isAbstract: false,
                properties: Dictionary(uniqueKeysWithValues: properties.map { (BinaryText($0.name), $0) }))
        ])
        // In the order of the bytes.
        let slots = try #require(PropertySlots(of: "A", in: model))
        #expect(slots.named.haveSameBytes(as: [two, one]))
        #expect(PreservedAttributes(of: "A", in: model).columns.map(\.name).haveSameBytes(as: [two, one]))
        let both = [0b1100_0000 as UInt8].withUnsafeBufferPointer { slots.changed($0) }
        #expect(both.names.haveSameBytes(as: [two, one]))

        let folder = try TemporaryFolder()
        let store = try GeneratedStore(
            folder.file("s.sqlite"), StoreModel([.init("A", attributes: [.init("a", .string)])]),
            layout: .inline, random: SplitMix(state: 7))
        for author in [one, two, one] { try store.commit(.init(author: author), [.init("A", 1, .insert)]) }
        let reader = try CoreDataReader(path: store.path)
        #expect(try reader.all().compactMap(\.author).haveSameBytes(as: [one, two, one]))
        try reader.close()
        store.close()
    }

    @Test("A property of a kind that is not known leaves the places of tombstones unknown")
    func unknownProperty() {
        let attribute = ObjectModel.Attribute(
            type: .string, isTransient: false, isDerived: false, isPreserved: true)
        func model(_ other: ObjectModel.Property.Kind) -> ObjectModel {
            ObjectModel(entities: [
                "A": .init(
                    name: "A", parent: nil, isAbstract: false,
                    properties: [
                        "z": .init(name: "z", kind: .attribute(attribute)), "a": .init(name: "a", kind: other),
                    ])
            ])
        }
        #expect(PreservedAttributes(of: "A", in: model(.fetchedProperty)).columns.map(\.name) == ["z"])
        #expect(PreservedAttributes(of: "A", in: model(.other("NSCompositeAttribute"))).columns.isEmpty)
    }
}
