import CoreDataStores
import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What is left of a damaged history is read, and what is missing is marked.
@Suite struct CoreDataSalvageTests {
    private static let model = StoreModel([
        .init("Note", attributes: [.init("text", .string, isPreserved: true)]),
        .init("Sketch", parent: "Note", attributes: [.init("ink", .string)]),
    ])

    private func store(_ folder: TemporaryFolder, _ count: Int64, changedBy statements: String = "") throws
        -> String
    {
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: SplitMix(state: 3))
        for object in 1...count {
            try store.commit(
                .init(author: object % 2 == 0 ? "even" : "odd"),
                [.init("Note", object, .insert), .init("Sketch", object + 10_000, .update(["text", "ink"]))])
        }
        store.close()
        let raw = try RawStore(store.path)
        try raw.script(statements)
        raw.close()
        return store.path
    }

    /// Everything that was found, in a line each.
    private func salvage(_ path: String) throws -> (lines: [String], summary: CoreDataSalvage.Summary) {
        var lines: [String] = []
        let summary = try CoreDataSalvage.read(path) { finding in
            switch finding {
            case .transaction(let transaction):
                lines.append("\(transaction.number) \(transaction.author ?? "-") \(transaction.changes.count)")
            case .changes(let changes, let token): lines.append("\(token.number) lost \(changes.count)")
            case .missing(let numbers): lines.append("missing \(numbers.lowerBound)-\(numbers.upperBound)")
            }
        }
        return (lines, summary)
    }

    @Test("A history that is whole is read as always")
    func whole() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(folder, 4)
        let (lines, summary) = try salvage(path)
        #expect(lines == ["1 odd 2", "2 even 2", "3 odd 2", "4 even 2"])
        #expect(summary.isWhole && summary.transactions == 4 && summary.changes == 8)
    }

    @Test("Gaps, and changes without their transaction, are marked")
    func marks() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(
            folder, 8,
            changedBy: """
                DELETE FROM ATRANSACTION WHERE Z_PK IN (1, 4, 5, 8); DELETE FROM ACHANGE WHERE ZTRANSACTIONID = 4;
                UPDATE ATRANSACTION SET ZTIMESTAMP = 'noon' WHERE Z_PK = 7;
                """)
        let (lines, summary) = try salvage(path)
        #expect(
            lines == [
                "1 lost 2", "2 even 2", "3 odd 2", "5 lost 2", "missing 4-5", "6 even 2", "7 lost 2",
                "8 lost 2",
                "missing 8-8",
            ])
        #expect(summary.missing == 3)
        #expect(summary.orphans == 8 && summary.unreadable == 1 && !summary.isWhole)
    }

    @Test("One bad row of the entities costs no more than its name")
    func names() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(
            folder, 2, changedBy: "UPDATE Z_PRIMARYKEY SET Z_NAME = x'00' WHERE Z_NAME = 'Sketch'")
        #expect(throws: HistoryError.self) { try StoreHistory.open(path).all() }
        var names: Set<String> = []
        _ = try CoreDataSalvage.read(path) { finding in
            if case .transaction(let transaction) = finding {
                names.formUnion(transaction.changes.map(\.entity.name))
            }
        }
        #expect(names.contains("Note") && names.count == 2 && names.contains { $0.hasPrefix("#") })
    }

    @Test("Any page may be damaged: what others hold is read", arguments: [UInt64.random(in: 1...1_000_000)])
    func damagedPages(_ number: UInt64) throws {
        var seed = Seed(number)
        print("damaged pages: \(seed)")
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(folder, 900)
        let whole = try [UInt8](Data(contentsOf: URL(fileURLWithPath: path)))
        for round in 0..<12 {
            var bytes = whole
            // A page behind the first, with the schema: all of it, or a byte.
            let page = Int.random(in: 1..<bytes.count / 4096, using: &seed)
            if Bool.random(using: &seed) {
                for place in page * 4096..<(page + 1) * 4096 {
                    bytes[place] = UInt8.random(in: 0...255, using: &seed)
                }
            } else {
                bytes[page * 4096 + Int.random(in: 0..<4096, using: &seed)] ^= 0xff
            }
            try Data(bytes).write(to: URL(fileURLWithPath: path))
            do {
                let (lines, summary) = try salvage(path)
                let normally = try? StoreHistory.open(path).all().count
                #expect(summary.transactions >= normally ?? 0, "\(seed), round \(round): \(lines.count)")
            } catch let error as HistoryError {
                // Not even the tables could be found.
                #expect(
                    error.code == .storeCorrupt || error.code == .notTracked,
                    "\(seed), round \(round): \(error)")
            }
            #expect(try [UInt8](Data(contentsOf: URL(fileURLWithPath: path))) == bytes)
        }
    }

    @Test("Filters by program, context and property")
    func filters() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try GeneratedStore(folder.file("s.sqlite"), Self.model, random: SplitMix(state: 3))
        try store.commit(
            .init(context: "import", process: "notes", bundleID: "org.a"), [.init("Note", 1, .insert)])
        try store.commit(.init(process: "notesd", bundleID: nil), [.init("Note", 1, .update(["text"]))])
        try store.commit(.init(process: nil, bundleID: "org.b"), [.init("Sketch", 2, .update(["ink"]))])
        try store.commit(.init(process: "notes", bundleID: "org.a"), [])
        let reader = try CoreDataReader(path: store.path)
        func numbers(_ set: (inout HistoryFilter) -> Void) throws -> [Int64] {
            var filter = HistoryFilter()
            set(&filter)
            let found = try reader.all(filter).map(\.number)
            #expect(
                try reader.reversedBatch(before: nil, filter: filter).transactions.map(\.number)
                    == found.reversed())
            return found
        }
        #expect(try numbers { $0.processes = ["notes"] } == [1, 4])
        #expect(try numbers { $0.processes = ["notes", "notesd"] } == [1, 2, 4])
        #expect(try numbers { $0.bundles = ["org.b"] } == [3])
        #expect(try numbers { $0.contexts = ["import"] } == [1])
        #expect(try numbers { $0.properties = ["text"] } == [2])
        #expect(try numbers { $0.properties = ["ink", "text"] } == [2, 3])
        #expect(try numbers { ($0.processes, $0.properties) = (["notes"], ["text"]) } == [])
        try reader.close()
        store.close()
    }

    @Test("A label says which object a change is of")
    func labels() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(
            folder, 2,
            changedBy: """
                UPDATE ZNOTE SET ZTEXT = 'Shopping' WHERE Z_PK = 1;
                UPDATE ACHANGE SET ZCHANGETYPE = 2, ZTOMBSTONE0 = 'gone' WHERE Z_PK = 3;
                """)
        let reader = try CoreDataReader(path: path)
        let labels = try ObjectLabels(reader, entity: "Note", property: "text")
        let transactions = try labels.label(reader.all())
        #expect(transactions.flatMap(\.changes).map(\.shownLabel) == ["Shopping", nil, "gone", nil])
        #expect(try reader.all().flatMap(\.changes) == transactions.flatMap(\.changes))
        for (entity, property) in [("Note", "ink"), ("Nobody", "text"), ("Note", "Z_PK")] {
            #expect(throws: HistoryError.self) { try ObjectLabels(reader, entity: entity, property: property) }
        }
        try reader.close()
    }

    @Test("No label is taken from a column that may be a sibling's")
    func labelsOfSiblings() throws {
        let model = StoreModel([
            .init("Page", attributes: [.init("number", .integer32)]),
            .init("Note", parent: "Page", attributes: [.init("text", .string)]),
            .init("Sketch", parent: "Page", attributes: [.init("text", .string)]),
        ])
        let folder = try TemporaryFolder(inMemory: true)
        let store = try GeneratedStore(folder.file("s.sqlite"), model, random: Seed(1))
        try store.commit([.init("Note", 1, .insert), .init("Sketch", 2, .insert)])
        store.close()
        let reader = try CoreDataReader(path: store.path)
        for entity in ["Note", "Sketch"] {
            #expect(throws: HistoryError.self) { try ObjectLabels(reader, entity: entity, property: "text") }
        }
        // What all of them inherit has one column.
        _ = try ObjectLabels(reader, entity: "Sketch", property: "number")
        try reader.close()
    }

    @Test("What a history takes is told by entity and month, and what is missing in it")
    func footprint() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(
            folder, 6,
            changedBy: """
                DELETE FROM ATRANSACTION WHERE Z_PK IN (3, 4); DELETE FROM ACHANGE WHERE ZTRANSACTIONID = 3;
                UPDATE ATRANSACTION SET ZTIMESTAMP = 0 WHERE Z_PK = 1;
                """)
        let description = try CoreDataDescription(path: path)
        let footprint = description.footprint
        #expect(footprint.missing == [3...4] && footprint.orphans == 2)
        #expect(Set(footprint.months.keys) == ["2001-01", "2023-03"])
        #expect(footprint.months["2001-01"]?.changes == 2 && footprint.months["2023-03"]?.transactions == 3)
        #expect(footprint.whole.changes == 10 && description.changes == 10 && description.transactions == 4)
        #expect(footprint.fileBytes ?? 4096 >= 4096)
        #expect(footprint.entities.values.reduce(0) { $0 + $1.changes } == 10)
    }

    @Test("A store without a history has a model all the same")
    func withoutHistory() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(folder, 1, changedBy: "DROP TABLE ACHANGE; DROP TABLE ATRANSACTION")
        let description = try CoreDataDescription(anyStore: path)
        #expect(!description.hasHistory && description.lastToken == nil)
        #expect(description.entities.map(\.name).sorted() == ["Note", "Sketch"])
        #expect(description.entities.count { $0.namesAreKnown } == 2)
        let error = #expect(throws: HistoryError.self) { try StoreHistory.open(path) }
        #expect(error?.code == .notTracked && error?.description.contains("Track it") == false)
    }

    @Test(
        "Nobody is told to track a store of Core Data's, in whatever state",
        arguments: [
            "DROP TABLE Z_PRIMARYKEY", "DROP TABLE Z_METADATA", "DROP TABLE ACHANGE", "DROP TABLE ATRANSACTION",
            "DROP TABLE ACHANGE; DROP TABLE Z_PRIMARYKEY",
        ])
    func advice(_ statements: String) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = try store(folder, 1, changedBy: statements)
        do {
            try StoreHistory.open(path).close()
        } catch let error as HistoryError {
            #expect(!error.description.lowercased().contains("track it"), "\(error)")
        }
    }

    @Test("A store that an application opens and closes is read all the same")
    func openedAndClosed() async throws {
        let folder = try TemporaryFolder()
        let path = try store(folder, 3)
        let end = ContinuousClock.now + .seconds(2)
        async let application: Void = onPool {
            while ContinuousClock.now < end {
                let raw = try RawStore(path)
                try raw.script("PRAGMA busy_timeout = 1000; UPDATE ZNOTE SET Z_OPT = Z_OPT + 1 WHERE Z_PK = 1")
                raw.close()
            }
        }
        var count = 0
        while ContinuousClock.now < end {
            let transactions = try await onPool {
                let reader = try StoreHistory.open(path)
                let found = try reader.all()
                try reader.close()
                return found
            }
            #expect(transactions.map(\.number) == [1, 2, 3])
            count += 1
        }
        try await application
        #expect(count > 0)
    }
}
