import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// Stores that Apple's frameworks wrote are read as others have decoded them.
@Suite(.enabled(if: AppleStores.areThere, "The samples of Apple's stores are not beside the project."))
struct CoreDataSampleTests {
    @Test("Each change is as it was decoded", arguments: AppleStores.names)
    func decoded(_ name: String) throws {
        let reader = try CoreDataReader(path: AppleStores.path(name))
        let transactions = try reader.all()
        let expected = try AppleStores.expected(name)
        #expect(transactions.count == expected.count)
        for (transaction, other) in zip(transactions, expected) {
            #expect(transaction.token.number == (other["number"] as? NSNumber)?.int64Value)
            #expect(transaction.author == other["author"] as? String)
            #expect(transaction.context == other["contextName"] as? String)
            #expect(transaction.application?.process == other["processID"] as? String)
            #expect(transaction.application?.bundleID == other["bundleID"] as? String)
            let seconds = try #require(other["timestamp"] as? Double)
            let milliseconds = (seconds + 978_307_200) * 1000
            #expect(abs(Double(transaction.timestamp.milliseconds) - milliseconds) <= 1)
            let changes = try #require(other["changes"] as? [[String: Any]])
            #expect(transaction.changes.count == changes.count)
            for (change, other) in zip(transaction.changes, changes) {
                try compare(change, other, reader.storeID)
            }
        }
        let newest = try #require(transactions.last)
        #expect(try reader.newestToken() == newest.token)
        #expect(try reader.oldestToken().number == (transactions.first?.token.number ?? 0) - 1)
        try reader.close()
    }

    private func compare(_ change: HistoryChange, _ other: [String: Any], _ store: StoreID) throws {
        #expect(change.entity.name == other["entity"] as? String)
        #expect(change.operation.rawValue == other["type"] as? String)
        let number = try #require((other["pk"] as? NSNumber)?.int64Value)
        #expect(change.objectID.values == [.integer(number)])
        #expect(
            HistoryJSON.objectIDURL(of: change.objectID, in: change.entity, store: store)
                == other["uri"] as? String)
        if change.operation == .update {
            let names =
                change.unnamedProperties == []
                ? nil : change.changedProperties + (change.unnamedProperties ?? [])
            #expect(names?.sorted() == other["updated"] as? [String])
        }
        guard change.operation == .delete else { return }
        let tombstone = other["tombstone"] as? [String: Any] ?? [:]
        let values = change.tombstone?.values.filter { $0.value != .null } ?? []
        #expect(Set(values.map(\.column.name)) == Set(tombstone.filter { !($0.value is NSNull) }.keys))
        for (column, value) in values { #expect(try isSame(value, column, #require(tombstone[column.name]))) }
    }

    private func isSame(_ value: HistoryValue, _ column: Entity.Column, _ other: Any) throws -> Bool {
        switch (value, column.declaredType) {
        case (.text(let text), "Date"):
            let seconds = try #require(other as? Double)
            return text == SQLiteDate(secondsSince2001: seconds)?.iso8601
        case (.text(let text), "UUID"):
            return text.filter { $0 != "-" }.lowercased() == other as? String
        case (.text(let text), _): return text == other as? String
        case (.integer(let integer), _): return (other as? NSNumber)?.int64Value == integer
        case (.real(let real), _): return other as? Double == real
        case (.blob(let bytes), _): return bytes.map { String(format: "%02x", $0) }.joined() == other as? String
        default: return false
        }
    }

    @Test("Backwards it is the same", arguments: AppleStores.names)
    func reversed(_ name: String) throws {
        let reader = try CoreDataReader(path: AppleStores.path(name))
        var backwards: [HistoryTransaction] = []
        var position: Int64?
        while true {
            let batch = try reader.reversedBatch(before: position, changes: 100, filter: HistoryFilter())
            backwards += batch.transactions
            position = batch.end
            if batch.isLast { break }
        }
        #expect(try Told(reader.all(changes: 70)) == Told(backwards.reversed()))
        try reader.close()
    }

    @Test("The names of every update are known, of every store's model", arguments: AppleStores.names)
    func describes(_ name: String) throws {
        let description = try CoreDataDescription(path: AppleStores.path(name))
        #expect(description.modelProblem == nil)
        #expect(description.frameworkVersion != nil)
        #expect(!description.entities.isEmpty)
        for entity in description.entities { #expect(entity.namesAreKnown, "\(entity.name)") }
        #expect(
            description.changes
                == (try AppleStores.expected(name)).reduce(0) { $0 + ($1["changes"] as? [Any] ?? []).count })
    }
}
