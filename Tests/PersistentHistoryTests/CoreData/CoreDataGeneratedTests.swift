import CoreDataStores
import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What the generator wrote is what is read.
@Suite struct CoreDataGeneratedTests {
    @Test(
        "Any model, any history, either layout",
        arguments: [1, 2, 3] + [UInt64.random(in: 9...1_000_000)])
    func anyHistory(_ number: UInt64) throws {
        var seed = Seed(number)
        print("generated Core Data stores: \(seed)")
        let folder = try TemporaryFolder(inMemory: true)
        for round in 0..<8 {
            let store = try GeneratedStore(
                folder.file("\(round).sqlite"), .any(&seed),
                layout: GeneratedStore.Layout.allCases.randomElement(using: &seed) ?? .strings,
                journal: Int.random(in: 0..<4, using: &seed) == 0 ? "DELETE" : "WAL",
                isIndexed: Int.random(in: 0..<3, using: &seed) > 0, random: seed)
            try store.writeAny(Int.random(in: 0...40, using: &seed), &seed)
            let isAtRest = Bool.random(using: &seed)
            if isAtRest { store.close() }
            let reader = try #require(try StoreHistory.open(store.path) as? CoreDataReader)
            let told = Told(store)
            #expect(try Told(reader.all()) == told, "\(seed), round \(round)")
            #expect(try Told(reader.all(changes: 3)) == told)
            if !isAtRest {
                try store.writeAny(3, &seed)
                let purged = Int64.random(in: 0...3, using: &seed)
                try store.purge(through: purged)
                #expect(try Told(reader.all()) == Told(store))
                #expect(try reader.oldestToken().number == purged)
                var model = store.model
                model.entities.append(.init("AAA", attributes: [.init("first", .string, isPreserved: true)]))
                try store.migrate(to: model)
                try store.writeAny(5, &seed)
                // The same reader: what it knew of the entities is outdated.
                #expect(try Told(reader.all()) == Told(store))
            }
            try reader.close()
            store.close()
            #expect(try Told(StoreHistory.open(store.path).all()) == Told(store))
        }
    }

    private static let contacts = StoreModel([
        .init(
            "Contact",
            attributes: [
                .init("name", .string, isPreserved: true), .init("born", .date, isPreserved: true),
                .init("isFriend", .boolean, isPreserved: true), .init("key", .uuid, isPreserved: true),
                .init("photo", .binary, isPreserved: true),
            ],
            relationships: [
                .init("tags", to: "Tag", isToMany: true, inverse: "contacts"),
                .init("groups", to: "Tag", isToMany: true, inverse: "members"),
            ]),
        .init(
            "Tag", attributes: [.init("title", .string)],
            relationships: [
                .init("contacts", to: "Contact", isToMany: true, inverse: "tags"),
                .init("members", to: "Contact", isToMany: true, inverse: "groups"),
            ]),
    ])

    private func contacts(_ folder: TemporaryFolder, hasModel: Bool = true) throws -> GeneratedStore {
        try GeneratedStore(
            folder.file("contacts.sqlite"), Self.contacts, hasModel: hasModel, random: SplitMix(state: 7))
    }

    private func lines(_ reader: CoreDataReader) throws -> [String] {
        try reader.all().map { transaction in
            var json = JSONBytes()
            HistoryJSON.write(transaction, to: &json)
            return json.bytes.text
        }
    }

    @Test func theFormInJSON() throws {
        let folder = try TemporaryFolder()
        let store = try contacts(folder)
        try store.commit(.init(author: "Importer"), [.init("Contact", 1, .insert)])
        try store.commit(
            [
                .init("Contact", 1, .update(["name", "tags"])),
                .init(
                    "Contact", 2,
                    .delete([
                        "name": .text("Ada"), "born": .real(-5.25), "isFriend": .integer(1),
                        "key": .blob(Array(0..<16)), "photo": .blob([1, 2]),
                    ])),
            ])
        let reader = try CoreDataReader(path: store.path)
        let lines = try lines(reader)
        let url = "x-coredata://0F0E0D0C-0B0A-4908-8706-050403020100/Contact"
        #expect(
            lines[0]
                == #"{"token":"0F0E0D0C-0B0A-4908-8706-050403020100:1","author":"Importer","context":null,"processID":"app","bundleID":"org.example.app","timestamp":"2023-03-08T20:26:41.125Z","changes":[{"entityName":"Contact","operation":"insert","objectID":{"Z_PK":1},"objectIDURL":"\#(url)/p1"}]}"#
        )
        let place = try #require(store.layouts["Contact"]?.known(["tags"]).unnamed.first)
        #expect(
            lines[1].contains(
                #""changedProperties":["name"],"changedPropertiesUnknown":true,"unnamedProperties":["\#(place)"]"#
            ))
        #expect(
            lines[1].contains(
                #""tombstone":{"attributes":{"born":"2000-12-31T23:59:54.750Z","isFriend":"true","key":"00010203-0405-0607-0809-0A0B0C0D0E0F","name":"Ada","photo":"AQI="},"values":{"born":"2000-12-31T23:59:54.750Z","isFriend":true,"key":"00010203-0405-0607-0809-0A0B0C0D0E0F","name":"Ada","photo":{"base64":"AQI="}}"#
            ))
        try reader.close()
    }

    @Test func withoutAModelNothingIsGuessed() throws {
        let folder = try TemporaryFolder()
        let store = try contacts(folder, hasModel: false)
        try store.commit([
            .init("Contact", 1, .update(["name"])), .init("Contact", 2, .delete(["name": .text("Ada")])),
        ])
        let reader = try CoreDataReader(path: store.path)
        let changes = try reader.all().flatMap(\.changes)
        #expect(changes[0].changedProperties == [] && changes[0].unnamedProperties == [])
        #expect(changes[1].tombstone?.values.map(\.column.name) == ["ZTOMBSTONE3"])
        #expect(try CoreDataDescription(reader).modelProblem == "the store has none")
        try reader.close()
    }

    @Test func whatDoesNotFitTheModelIsUnknown() throws {
        let folder = try TemporaryFolder()
        let store = try contacts(folder)
        try store.commit([
            .init("Contact", 1, .update(["name"])), .init("Contact", 2, .update(["name"])),
            .init("Contact", 3, .delete(["name": .text("Ada")])),
        ])
        store.close()
        let raw = try #require(try? RawStore(store.path))
        try raw.script(
            """
            UPDATE ACHANGE SET ZCOLUMNS = x'800000' WHERE Z_PK = 1;
            UPDATE ACHANGE SET ZCOLUMNS = x'01' WHERE Z_PK = 2;
            UPDATE ACHANGE SET ZTOMBSTONE0 = 'no date', ZENTITY = ZENTITY WHERE Z_PK = 3;
            INSERT INTO ACHANGE SELECT 4, Z_ENT, Z_OPT, 0, 77, 5, ZTRANSACTIONID, NULL, NULL, NULL, NULL, NULL, NULL FROM ACHANGE WHERE Z_PK = 1;
            """)
        raw.close()
        let changes = try StoreHistory.open(store.path).all().flatMap(\.changes)
        #expect(changes[0].unnamedProperties == [])
        #expect(changes[1].unnamedProperties == [])
        #expect(
            changes[2].tombstone?.values.contains {
                $0.column.name == "ZTOMBSTONE0" && $0.value == .text("no date")
            } == true)
        #expect(
            changes[2].tombstone?.values.contains { $0.column.name == "name" && $0.value == .text("Ada") }
                == true)
        #expect(changes[3].entity.name == "#77")
    }

    @Test func tokensExpireAndAreForeign() throws {
        let folder = try TemporaryFolder()
        let store = try contacts(folder)
        for object: Int64 in 1...4 { try store.commit([.init("Contact", object, .insert)]) }
        try store.purge(through: 2)
        let reader = try CoreDataReader(path: store.path)
        func code(_ token: HistoryToken) -> HistoryError.Code? {
            do {
                try reader.check(after: token)
                return nil
            } catch {
                return (error as? HistoryError)?.code
            }
        }
        func token(_ number: Int64) -> HistoryToken { HistoryToken(store: reader.storeID, number: number) }
        #expect(code(token(1)) == .tokenExpired)
        #expect(code(token(0)) == .tokenExpired)
        #expect(code(token(2)) == nil)
        #expect(code(token(4)) == nil)
        #expect(code(token(5)) == .tokenAhead)
        #expect(code(HistoryToken(store: .none, number: 3)) == .tokenForeign)
        // An emptied log keeps its head.
        try store.purge(through: 4)
        #expect(try reader.newestToken() == token(4))
        #expect(code(token(3)) == .tokenExpired)
        #expect(code(token(4)) == nil)
        #expect(throws: HistoryError.self) {
            try reader.batch(after: 3, isPosition: true, through: .max, changes: 10, filter: HistoryFilter())
        }
        try reader.close()
    }

    @Test func aLargeTransactionIsReadInParts() throws {
        let folder = try TemporaryFolder()
        let store = try contacts(folder)
        try store.commit([.init("Tag", 1, .insert)])
        try store.commit((1...95).map { .init($0 % 3 == 0 ? "Tag" : "Contact", $0, .insert) })
        try store.commit([.init("Tag", 2, .insert)])
        let reader = try CoreDataReader(path: store.path, partSize: 40)
        let small = try reader.outlinedBatch(
            after: 0, isPosition: true, through: .max, changes: 5000, values: nil)
        #expect(small.transactions.count == 1 && !small.isLast)
        let large = try reader.outlinedBatch(
            after: 1, isPosition: true, through: .max, changes: 5000, values: nil)
        let transaction = try #require(large.transactions.first)
        #expect(transaction.outline?.whole.count == 95 && large.end == 2)
        let whole = try reader.whole(transaction)
        #expect(try Told([whole]) == Told([reader.all()[1]]))
        for group in transaction.outline?.groups ?? [] {
            let parts = UnreadChanges.parts(of: transaction, in: group)
            let changes = try parts.flatMap { try reader.changes($0).changes }
            #expect(changes == whole.changes.filter { $0.entity.name == group.entity.name })
        }
        try reader.close()
    }

    @Test func theLinesOfThePage() throws {
        let folder = try TemporaryFolder()
        let store = try contacts(folder)
        try store.commit([.init("Contact", 1, .update(["name"]))])
        var printed: [String] = []
        let history = try StoreHistory.open(store.path)
        for transaction in try history.batch().transactions {
            for change in transaction.changes {
                printed.append(
                    "\(transaction.timestamp) \(change.operation) \(change.entity.name) \(change.changedProperties)"
                )
            }
        }
        #expect(printed == [#"2023-03-08T20:26:41.125Z update Contact ["name"]"#])
    }
}
