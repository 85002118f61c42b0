import CoreDataStores
import GRDB
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// What is in memory at once is bounded by its bytes, not only by the number of changes.
@Suite struct HistoryBytesTests {
    private static let text = String(repeating: "x", count: 1 << 18)

    /// 60 deletes in each of two transactions, each with a preserved text of 256 KiB.
    private func recorded() throws -> TrackedStore {
        let store = try TrackedStore()
        try store.write(
            "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120) INSERT INTO person (id, name) SELECT i, printf('%.*c', \(Self.text.utf8.count), 'x') FROM n"
        )
        try store.write("DELETE FROM person WHERE id <= 60")
        try store.write("DELETE FROM person")
        return store
    }

    private func coreData(_ folder: TemporaryFolder) throws -> GeneratedStore {
        let model = StoreModel([.init("Note", attributes: [.init("text", .string, isPreserved: true)])])
        let store = try GeneratedStore(folder.file("s.sqlite"), model, random: SplitMix(state: 3))
        for start: Int64 in [0, 60] {
            try store.commit((1...60).map { .init("Note", start + $0, .delete(["text": .text(Self.text)])) })
        }
        return store
    }

    private func bytes(_ changes: [HistoryChange]) -> Int {
        changes.flatMap { $0.tombstone?.values ?? [] }.reduce(0) { $0 + $1.value.byteCount }
    }

    /// Walks through a history page by page, and part by part.
    private func walk(_ reader: any HistoryReading, isReversed: Bool) throws -> [Int64: [HistoryChange]] {
        var found: [Int64: [HistoryChange]] = [:]
        var position: Int64?
        while true {
            let page =
                isReversed
                ? try reader.reversedPage(before: position, filter: HistoryFilter())
                : try reader.page(after: position ?? 0, filter: HistoryFilter())
            for transaction in page.transactions {
                var ends = 0
                try reader.forEachPart(of: transaction, filter: HistoryFilter()) { changes, isLast in
                    #expect(bytes(changes) <= TransactionOutline.partBytes + Self.text.utf8.count)
                    found[transaction.number, default: []] += changes
                    ends += isLast ? 1 : 0
                }
                #expect(ends == 1)
            }
            if page.isLast { return found }
            position = page.end
        }
    }

    @Test("Tombstones of any size are read in parts, in both directions", arguments: [false, true])
    func recordedParts(_ isReversed: Bool) throws {
        let store = try recorded()
        let reader = try HistoryReader(path: store.path)
        let whole = try reader.batch(after: 0, changes: .max).transactions
        let found = try walk(reader, isReversed: isReversed)
        #expect(found.count == 3)
        for transaction in whole { #expect(found[transaction.number] == transaction.changes) }
        let deleted = try reader.outlinedBatch(after: 120)
        let outline = try #require(deleted.transactions.first?.outline)
        #expect(outline.whole.count == 60)
        try reader.close()
    }

    @Test("The same of Core Data's", arguments: [false, true])
    func coreDataParts(_ isReversed: Bool) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try coreData(folder)
        let reader = try CoreDataReader(path: store.path)
        let found = try walk(reader, isReversed: isReversed)
        #expect(try found == Dictionary(uniqueKeysWithValues: reader.all().map { ($0.number, $0.changes) }))
        let transaction = try #require(
            try reader.outlinedBatch(after: 0, isPosition: true, through: .max, changes: 9, values: nil)
                .transactions.first)
        #expect(transaction.outline?.whole.count == 60)
        // What wants many changes at once is given them without tombstones.
        let numbers = try reader.numberedChanges(#require(UnreadChanges.whole(transaction))).map(\.number)
        let plain = try reader.changes(at: numbers, of: transaction, values: nil).changes
        #expect(plain.count == 60 && plain.allSatisfy { $0.tombstone == nil })
        try reader.close()
        store.close()
    }

    @Test("A part is as large as it may be, and one change is a part at least")
    func parts() {
        var outline = TransactionOutline(partSize: 80)
        let entity = CoreDataCatalog.unnamed(1, "A").entity
        for number: Int64 in 1...200 {
            outline.add(number, entity, .delete, bytes: number == 100 ? 9 << 20 : 1 << 17)
        }
        let parts = outline.whole.parts(of: 80)
        #expect(parts.reduce(0) { $0 + $1.size.count } == 200)
        #expect(
            parts.allSatisfy {
                $0.size.count <= 80 && ($0.size.bytes <= TransactionOutline.partBytes || $0.size.count == 1)
            })
        #expect(zip(parts, parts.dropFirst()).allSatisfy { $0.start + Int64($0.size.count) == $1.start })
        // Small ones make parts by their number alone.
        var small = TransactionOutline(partSize: 80)
        for number: Int64 in 1...200 { small.add(number, entity, .insert, bytes: 0) }
        #expect(small.whole.parts(of: 80).map(\.size.count) == [80, 80, 40])
    }
}
