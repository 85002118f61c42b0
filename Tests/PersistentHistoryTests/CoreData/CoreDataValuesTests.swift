import CoreDataStores
import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// The values before and after a change are those that the writer knows; where none are certain, there are none.
@Suite struct CoreDataValuesTests {
    private static let note = StoreModel([
        .init(
            "Note",
            attributes: [
                .init("at", .date), .init("isDone", .boolean), .init("text", .string, isPreserved: true),
            ], relationships: [.init("next", to: "Note")])
    ])

    /// What was given, by source.
    private struct Given {
        var before: [ChangeValues.Source: Int] = [:]
        var after: [ChangeValues.Source: Int] = [:]
    }

    private func read(_ path: String) throws -> [HistoryTransaction] {
        let reader = try CoreDataReader(path: path)
        let history = ObjectHistory(reader)
        let transactions = try history.add(to: reader.all())
        try reader.close()
        return transactions
    }

    private func copy(_ store: GeneratedStore, _ folder: TemporaryFolder, _ name: String) throws -> String {
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: store.path + suffix) {
            try FileManager.default.copyItem(atPath: store.path + suffix, toPath: folder.file(name + suffix))
        }
        return folder.file(name)
    }

    /// Compares each value with what the writer knows.
    ///
    /// - Parameter hasTraceless: Whether there are changes that the history does not have.
    private func check(
        _ transactions: [HistoryTransaction], _ store: GeneratedStore, hasTraceless: Bool = false,
        _ given: inout Given, _ context: String
    ) {
        for transaction in transactions {
            guard let truth = store.transactions.first(where: { $0.number == transaction.number }) else {
                continue
            }
            for change in transaction.changes {
                let place = "\(context), transaction \(transaction.number), \(change)"
                if let before = change.values?.before {
                    given.before[before.source, default: 0] += 1
                    if before.source != .tombstone {
                        compare(before, change, truth.before, store.model, place)
                    }
                }
                if let after = change.values?.after {
                    given.after[after.source, default: 0] += 1
                    if after.source == .wal || !hasTraceless {
                        compare(after, change, truth.after, store.model, place)
                    }
                }
            }
        }
    }

    private func compare(
        _ state: ChangeValues.State, _ change: HistoryChange, _ objects: GeneratedStore.Objects,
        _ model: StoreModel, _ place: String
    ) {
        let line = model.line(of: change.entity.name)
        guard case .integer(let number)? = change.objectID.onlyValue,
            let object = objects[line.first?.name ?? ""]?[number], object.entity == change.entity.name
        else {
            Issue.record("There is no such object: \(place)")
            return
        }
        for (column, value) in state.values {
            let type = line.flatMap(\.attributes).first { $0.name == column.name }?.type ?? .integer64
            let known = object.values[column.name].map { Told.read($0, type) } ?? .null
            #expect(value == known, "\(column.name), \(state.source): \(place)")
        }
    }

    @Test("All values are found where the log has all commits")
    func everything() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try noteStore(folder)
        try store.commit([.init("Note", 1, .insert), .init("Note", 2, .insert)])
        try store.commit([.init("Note", 1, .update(["text", "next"]))])
        // This leaves no trace in the history.
        try store.setValues("Note", 1) { $0 == "at" }
        try store.commit([.init("Note", 1, .update(["isDone"])), .init("Note", 2, .delete([:]))])
        let path = try copy(store, folder, "t.sqlite")
        let transactions = try read(path)
        var given = Given()
        check(transactions, store, &given, "all")
        #expect(given.before == [.wal: 3] && given.after == [.wal: 4])
        let changes = transactions.flatMap(\.changes)
        #expect(changes[0].values?.after?.values.map(\.column.name) == ["at", "isDone", "next", "text"])
        #expect(changes[2].values?.before?.values.map(\.column.name) == ["next", "text"])
        #expect(changes[3].values?.after?.values.map(\.column.name) == ["isDone"])
        #expect(changes[4].values?.before?.values.count == 4 && changes[4].values?.after == nil)

        // A process may checkpoint at any time: then only the present is certain.
        var live = Given()
        check(try read(store.path), store, hasTraceless: true, &live, "live")
        #expect(live.before == [:] && live.after == [.current: 1])
        store.close()
        var rest = Given()
        check(try read(store.path), store, hasTraceless: true, &rest, "at rest")
        #expect(rest.before == [:] && rest.after == [.current: 1])
    }

    private func noteStore(_ folder: TemporaryFolder) throws -> GeneratedStore {
        try GeneratedStore(folder.file("s.sqlite"), Self.note, hasValues: true, random: SplitMix(state: 3))
    }

    @Test("Two changes of an object in one transaction have no values")
    func twice() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try noteStore(folder)
        try store.commit([.init("Note", 1, .insert), .init("Note", 1, .update(["text"]))])
        #expect(try read(copy(store, folder, "t.sqlite")).flatMap(\.changes).allSatisfy { $0.values == nil })
        store.close()
    }

    @Test("Two transactions in one commit have no state between them")
    func oneCommit() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try noteStore(folder)
        try store.commit([.init("Note", 1, .insert)])
        let raw = try RawStore(store.path)
        try raw.script(
            """
            BEGIN; INSERT INTO ATRANSACTION (Z_PK, ZTIMESTAMP) VALUES (2, 1), (3, 1);
            INSERT INTO ACHANGE (Z_PK, ZCHANGETYPE, ZENTITY, ZENTITYPK, ZTRANSACTIONID, ZCOLUMNS)
            SELECT 900 + t, 1, ZENTITY, 1, t, x'10' FROM ACHANGE, (SELECT 2 AS t UNION SELECT 3);
            UPDATE Z_PRIMARYKEY SET Z_MAX = 3 WHERE Z_NAME = 'TRANSACTION';
            UPDATE ZNOTE SET ZTEXT = 'third'; COMMIT
            """)
        let changes = try read(copy(store, folder, "t.sqlite")).flatMap(\.changes)
        try #require(changes.count == 3)
        #expect(changes[0].values?.after?.source == .wal && changes[1].values == nil)
        #expect(changes[2].values?.before == nil && changes[2].values?.after?.source == .current)
        raw.close()
        store.close()
    }

    @Test("Values too large to show are named")
    func large() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try noteStore(folder)
        try store.commit([.init("Note", 1, .insert)])
        try store.script("UPDATE ZNOTE SET ZTEXT = printf('%.*c', 70000, 'x')")
        store.close()
        let values = try read(store.path).first?.changes.first?.values
        #expect(values?.after?.omitted == ["text"] && values?.after?.values.count == 3)
    }

    @Test(
        "Random histories, checkpoints, restarted logs and torn tails",
        arguments: [UInt64.random(in: 1...1_000_000)])
    func random(_ number: UInt64) throws {
        var seed = Seed(number)
        print("values of random histories: \(seed)")
        var given = Given()
        for round in 0..<12 {
            let folder = try TemporaryFolder(inMemory: true)
            let model = round % 3 == 0 ? Self.note : StoreModel.any(&seed)
            let store = try GeneratedStore(folder.file("s.sqlite"), model, hasValues: true, random: seed)
            let hasTraceless = Bool.random(using: &seed)
            for step in 0..<10 {
                try store.writeAny(Int.random(in: 1...6, using: &seed), &seed)
                if hasTraceless, let entity = model.entities.randomElement(using: &seed)?.name {
                    for number: Int64 in 1...50 { try store.setValues(entity, number) { $0.count % 2 == 0 } }
                }
                let path = try copy(store, folder, "\(step).sqlite")
                let early = try Data(contentsOf: URL(fileURLWithPath: store.path))
                let checkpoint =
                    ["", "PASSIVE", "FULL", "RESTART", "TRUNCATE"].randomElement(using: &seed) ?? ""
                if !checkpoint.isEmpty { try store.script("PRAGMA wal_checkpoint(\(checkpoint))") }
                let late = try Data(contentsOf: URL(fileURLWithPath: store.path))
                try damage(path, early, late, &seed)
                let context = "\(seed), round \(round), step \(step)"
                let before = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
                check(try read(path), store, hasTraceless: hasTraceless, &given, context)
                #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-wal")) == before)
            }
            store.close()
        }
        print("given before: \(given.before), after: \(given.after)")
        #expect(given.before[.wal, default: 0] > 0 && given.after[.wal, default: 0] > 0)
    }

    /// A checkpoint that was interrupted has copied some pages to the store. A crash has torn the log's end.
    private func damage(_ path: String, _ early: Data, _ late: Data, _ seed: inout Seed) throws {
        switch Int.random(in: 0..<3, using: &seed) {
        case 0:
            var mixed = early.count > late.count ? early : late
            for start in stride(from: 0, to: min(early.count, late.count), by: 4096) {
                let source = Bool.random(using: &seed) ? early : late
                mixed.replaceSubrange(start..<start + 4096, with: source[start..<start + 4096])
            }
            try mixed.write(to: URL(fileURLWithPath: path))
        case 1:
            let log = try Data(contentsOf: URL(fileURLWithPath: path + "-wal"))
            // Where it lacks a commit with the schema, there is no store yet.
            let size = max(log.count - Int.random(in: 0...9000, using: &seed), log.count / 2)
            if early.count > 8192 { try log.prefix(size).write(to: URL(fileURLWithPath: path + "-wal")) }
        default: break
        }
    }
}
