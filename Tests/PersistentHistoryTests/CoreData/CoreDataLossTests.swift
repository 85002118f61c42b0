import CoreDataStores
import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// What is missing in a history of Core Data's is an error, wherever it is missing.
@Suite struct CoreDataLossTests {
    private static let model = StoreModel([
        .init("Note", attributes: [.init("text", .string, isPreserved: true)])
    ])

    /// A store of some transactions, with a change each, closed, then changed.
    private func store(
        _ folder: TemporaryFolder, _ count: Int64 = 9, isIndexed: Bool = true, changedBy statements: String = ""
    ) throws -> String {
        let store = try GeneratedStore(
            folder.file("s.sqlite"), Self.model, isIndexed: isIndexed, random: SplitMix(state: 3))
        for object in 1...count { try store.commit([.init("Note", object, .insert)]) }
        store.close()
        let raw = try RawStore(store.path)
        try raw.script(statements)
        raw.close()
        return store.path
    }

    private func delete(_ numbers: ClosedRange<Int64>) -> String {
        """
        DELETE FROM ATRANSACTION WHERE Z_PK BETWEEN \(numbers.lowerBound) AND \(numbers.upperBound);
        DELETE FROM ACHANGE WHERE ZTRANSACTIONID BETWEEN \(numbers.lowerBound) AND \(numbers.upperBound);
        """
    }

    @Test("Any transactions that are missing behind the first", arguments: [UInt64.random(in: 1...1_000_000)])
    func anyGap(_ number: UInt64) throws {
        var seed = Seed(number)
        print("gaps: \(seed)")
        for _ in 0..<12 {
            let folder = try TemporaryFolder(inMemory: true)
            let missing = Set(
                (0..<Int.random(in: 1...4, using: &seed)).map { _ in
                    Int64.random(in: 2...9, using: &seed)
                })
            let path = try store(
                folder, isIndexed: Bool.random(using: &seed),
                changedBy: missing.map { delete($0...$0) }.joined())
            let reader = try CoreDataReader(path: path)
            let first = try #require(missing.min())
            let last = try #require(missing.max())
            let (numbers, error) = try reader.numbers(after: 0, changes: Int.random(in: 1...10, using: &seed))
            #expect(numbers == Array(1..<first), "\(seed), \(missing)")
            #expect(error?.code == .tokenExpired)
            #expect(error?.message.hasSuffix("is \(reader.storeID):\(last).") == true)
            #expect(try reader.oldestToken().number == last)
            #expect(try reader.numbers(after: last).numbers == Array((last..<9).map { $0 + 1 }))
            #expect(try reader.numbers(after: last).error == nil)
            // Backwards the end comes first.
            if last < 9 {
                let batch = try reader.reversedBatch(before: nil)
                #expect(batch.transactions.map(\.number) == Array((last + 1...9).reversed()) && !batch.isLast)
                #expect(throws: HistoryError.self) { try reader.reversedBatch(before: batch.end) }
            } else {
                #expect(throws: HistoryError.self) { try reader.reversedBatch(before: nil) }
            }
            try reader.close()
        }
    }

    @Test("Who stands right before a gap has expired, and a look passes it over for nobody")
    func before() throws {
        let folder = try TemporaryFolder()
        let path = try store(folder, changedBy: delete(4...6))
        let reader = try CoreDataReader(path: path)
        let error = #expect(throws: HistoryError.self) { try reader.batch(after: 3) }
        #expect(error?.code == .tokenExpired)
        #expect(error?.message.contains("the transactions 4 to 6 are missing") == true)
        let look = try reader.look(after: 3, fingerprint: nil, values: nil)
        #expect(look.batch.transactions.isEmpty && !look.batch.isLast && look.end == 9)
        let other = try reader.another(timeout: .zero)
        #expect(try other.bounds().floor == 6)
        try other.close()
        try reader.close()
    }

    @Test("A purged prefix is no gap, nor is a log that was emptied")
    func purged() throws {
        let folder = try TemporaryFolder()
        let purged = try CoreDataReader(path: store(folder, changedBy: delete(1...4)))
        #expect(try purged.numbers(after: 0).numbers == [5, 6, 7, 8, 9])
        #expect(try purged.numbers(after: 0).error == nil)
        #expect(try purged.reversedBatch(before: nil).isLast)
        try purged.close()
        let other = try TemporaryFolder()
        let emptied = try CoreDataReader(path: store(other, changedBy: delete(1...9)))
        #expect(try emptied.numbers(after: 0).numbers == [] && emptied.numbers(after: 0).error == nil)
        try emptied.close()
    }

    @Test(
        "A change whose transaction is gone is a loss, wherever it lies",
        arguments: [1...2, 1...9, 8...9], [true, false])
    func withoutTransaction(_ numbers: ClosedRange<Int64>, _ isIndexed: Bool) throws {
        let folder = try TemporaryFolder()
        // The store does not know of newer ones.
        let path = try store(
            folder, isIndexed: isIndexed,
            changedBy: """
                DELETE FROM ATRANSACTION WHERE Z_PK BETWEEN \(numbers.lowerBound) AND \(numbers.upperBound);
                UPDATE Z_PRIMARYKEY SET Z_MAX = 0;
                """)
        let reader = try CoreDataReader(path: path)
        let error = try reader.numbers(after: 0).error
        #expect(error?.code == .storeCorrupt)
        #expect(error?.message.contains("which is missing") == true)
        #expect(throws: HistoryError.self) {
            var batch = try reader.reversedBatch(before: nil)
            while !batch.isLast { batch = try reader.reversedBatch(before: batch.end) }
        }
        try reader.close()
    }

    /// Makes a page that holds something say that it has no cells.
    private func empty(_ name: String, in path: String) throws {
        let raw = try RawStore(path)
        let page = try raw.number("SELECT rootpage FROM sqlite_master WHERE name = '\(name)'")
        let size = try raw.number("PRAGMA page_size")
        raw.close()
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        try file.seek(toOffset: UInt64((page - 1) * size + 3))
        try file.write(contentsOf: Data([0, 0]))
        try file.close()
    }

    @Test(
        "A page that says it is empty is not believed",
        arguments: ["ACHANGE_ZTRANSACTIONID_INDEX", "ACHANGE", "ATRANSACTION"])
    func emptyPage(_ name: String) throws {
        let folder = try TemporaryFolder()
        let path = try store(folder)
        try empty(name, in: path)
        let error = #expect(throws: HistoryError.self) { try StoreHistory.open(path).all() }
        #expect(error?.code == .storeCorrupt)
        #expect(error?.description.contains("--salvage") == true)
        // What examines a file is to leave it as it is.
        #expect(error?.description.contains("copy") == true)
    }

    @Test("Without an index, too", arguments: ["ATRANSACTION"])
    func emptyPageWithoutIndex(_ name: String) throws {
        let folder = try TemporaryFolder()
        let path = try store(folder, isIndexed: false)
        try empty(name, in: path)
        #expect(throws: HistoryError.self) { try StoreHistory.open(path).all() }
    }
}
