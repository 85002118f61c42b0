import CoreDataStores
import TestSupport
import Testing

@testable import PersistentHistory

/// Names are known where the tables are those of the model, and unknown where they are not.
@Suite struct CoreDataColumnsTests {
    private static let model = StoreModel([
        .init("Note", attributes: [.init("text", .string, isPreserved: true), .init("at", .date)]),
        .init("Sketch", parent: "Note", attributes: [.init("ink", .string)]),
        .init(
            "Tag", attributes: [.init("title", .string)], relationships: [.init("note", to: "Note")]),
    ])

    /// What is known of an update of each entity, after the tables were changed.
    private func known(_ statements: String) throws -> [String: Bool] {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(1))
        try store.commit([
            .init("Note", 1, .update(["text"])), .init("Sketch", 2, .update(["ink"])),
            .init("Tag", 3, .update(["title"])), .init("Note", 4, .delete(["text": .text("gone")])),
        ])
        store.close()
        let raw = try RawStore(store.path)
        try raw.script(statements)
        raw.close()
        let reader = try CoreDataReader(path: store.path)
        let changes = try reader.all().flatMap(\.changes)
        let isPreservedKnown = changes[3].tombstone?.values.map(\.column.name) == ["text"]
        #expect(isPreservedKnown == (changes[0].unnamedProperties == nil))
        for entity in try CoreDataDescription(reader).entities {
            let change = changes.first { $0.entity.name == entity.name }
            #expect(entity.namesAreKnown == (change?.unnamedProperties == nil), "\(entity.name)")
        }
        try reader.close()
        return Dictionary(
            uniqueKeysWithValues: changes.prefix(3).map { ($0.entity.name, $0.unnamedProperties == nil) })
    }

    @Test(
        "A column more, one less, one renamed, a to-one less, no table",
        arguments: [
            ("", true, true), ("ALTER TABLE ZNOTE ADD COLUMN ZEXTRA VARCHAR", false, true),
            ("ALTER TABLE ZNOTE DROP COLUMN ZAT", false, true),
            ("ALTER TABLE ZNOTE RENAME COLUMN ZTEXT TO ZTITLE", false, true),
            ("ALTER TABLE ZTAG DROP COLUMN ZNOTE", true, false),
            ("ALTER TABLE ZTAG RENAME COLUMN ZNOTE TO ZNOTE9", true, true),
            ("DROP TABLE ZNOTE", false, true), ("DROP TABLE ZTAG", true, false),
            ("ALTER TABLE ZNOTE ADD COLUMN ZTEXT1 VARCHAR", true, true),
        ])
    func columns(_ statements: String, _ note: Bool, _ tag: Bool) throws {
        // What a table has it has for all entities of a hierarchy.
        #expect(try known(statements)["Note"] == note)
        #expect(try known(statements)["Tag"] == tag)
    }

    @Test("A sub-entity's column that is missing leaves its own names unknown")
    func subEntity() throws {
        let known = try known("ALTER TABLE ZNOTE DROP COLUMN ZINK")
        #expect(known == ["Note": true, "Sketch": false, "Tag": true])
    }

    @Test(
        "A column that is missing beside the history leaves unknown what it says",
        arguments: [
            "ALTER TABLE Z_MODELCACHE RENAME COLUMN Z_CONTENT TO Z",
            "ALTER TABLE Z_PRIMARYKEY RENAME COLUMN Z_NAME TO Z",
            "ALTER TABLE Z_PRIMARYKEY DROP COLUMN Z_SUPER", "ALTER TABLE Z_PRIMARYKEY DROP COLUMN Z_MAX",
            "ALTER TABLE ATRANSACTIONSTRING RENAME COLUMN ZNAME TO Z",
            "ALTER TABLE Z_METADATA DROP COLUMN Z_PLIST",
            "ALTER TABLE Z_METADATA RENAME COLUMN Z_VERSION TO Z",
        ])
    func beside(_ statement: String) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: Seed(1))
        try store.commit([.init("Note", 1, .insert)])
        store.close()
        let raw = try RawStore(store.path)
        try raw.script(statement)
        raw.close()
        let reader = try CoreDataReader(path: store.path)
        #expect(try reader.all().flatMap(\.changes).map(\.operation) == [.insert])
        #expect(try CoreDataDescription(reader).changes == 1)
        try reader.close()
    }
}
