import Foundation
import PersistentHistory
import TestSupport
import Testing

/// The daemon is killed, again and again, while others write.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(15)))
struct KillTests {
    /// Random transactions, declared or not, for some seconds, on a range of keys of its own.
    private static func writer(seed: UInt64, author: String?, keys: ClosedRange<Int>) -> String {
        """
        dice = random.Random(\(seed))
        connection = connect(store, \(author.map { "'\($0)'" } ?? "None"), None, 'synchronous = OFF')
        keys = range(\(keys.lowerBound), \(keys.upperBound) + 1)
        def statement():
            key = dice.choice(keys)
            kind = dice.randrange(6)
            if kind < 2: return 'INSERT OR REPLACE INTO person (id, name, age) VALUES (?, ?, 1)', (key, dice.choice('abc'))
            if kind == 2: return 'UPDATE person SET age = age + 1 WHERE id BETWEEN ? AND ?', (key, key + 3)
            if kind == 3: return 'DELETE FROM person WHERE id = ?', (key,)
            if kind == 4: return 'INSERT INTO item VALUES (?, 1) ON CONFLICT DO UPDATE SET price = price + 1', (f'c{key}',)
            return 'DELETE FROM item WHERE code = ?', (f'c{key}',)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            count = dice.randrange(4)
            if count > 1: connection.execute('BEGIN IMMEDIATE')
            for _ in range(max(1, count)): connection.execute(*statement())
            if count > 1: connection.execute('ROLLBACK' if dice.randrange(8) == 0 else 'COMMIT')
            # In bursts of several commits in a millisecond.
            if dice.randrange(10) == 0: time.sleep(dice.random() * 0.03)
        """
    }

    @Test("Killed at random instants, it delivers everything, in order, and the replica equals the store", arguments: 1...4 as ClosedRange<UInt64>)
    func killed(_ number: UInt64) async throws {
        var seed = Seed(number)
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored()),
                plugins: [PluginSetup(hooks: [
                    #"{"name": "all", "kind": "observer"}"#, #"{"name": "people", "kind": "observer", "entity": "person"}"#,
                ])])
            var daemon = try await bench.startDaemon()
            let writers = [
                try await bench.startPython(Self.writer(seed: number, author: "Widget", keys: 1...20)),
                try await bench.startPython(Self.writer(seed: number + 100, author: nil, keys: 15...35)),
                try await bench.startPython(Self.writer(seed: number + 200, author: "Importer", keys: 30...50)),
            ]
            var kills = 0
            while writers.contains(where: { $0.ended == nil }) {
                try await observe(for: .milliseconds(Int.random(in: 10...250, using: &seed)))
                try await daemon.kill()
                kills += 1
                daemon = try bench.launchDaemon()
            }
            for writer in writers { try await writer.succeed() }
            try await daemon.kill()
            let last = try await bench.runDaemon("--once")
            #expect(last.status == .exited(0), "\(last.log.joined(separator: "\n"))")
            print("\(seed): \(kills) kills, \(try bench.calls().count) calls")
            #expect(kills > 3)

            try await bench.expectReplicaEqualsStore(["person": "id", "item": "code"])
            for hook in ["audit/all", "audit/people"] {
                let calls = try bench.calls().filter { $0.params.hook == hook }
                let recorded = try bench.recordedChanges().filter { hook == "audit/all" || $0.contains(" person ") }
                Self.expect(calls, deliver: recorded, "\(seed) \(hook)")
            }
        }
    }

    /// Every change was delivered, in order of commit; what came again had the same delivery id
    /// and was the same call.
    private static func expect(_ calls: [Call], deliver recorded: [String], _ comment: Comment) {
        var seen: [String: String] = [:]
        var delivered: [String] = []
        for call in calls {
            if let before = seen.updateValue(call.summary, forKey: call.params.delivery) {
                #expect(before == call.summary, comment)
            } else {
                delivered += call.params.contexts.map { "\($0.entityName ?? "") \($0.operation ?? "") \($0.key)" }.map { "\(call.params.transaction?.author ?? "-") \($0)" }
            }
        }
        if let place = delivered.indices.first(where: { !recorded.indices.contains($0) || delivered[$0] != recorded[$0] }) {
            let near = max(0, place - 5)
            Issue.record("Change \(place) is not the recorded one: delivered \(delivered[near...].prefix(12)), recorded \(recorded.dropFirst(near).prefix(12)). \(comment)")
        }
        #expect(delivered.count == recorded.count, comment)
    }
}

extension Workbench {
    /// The history as the library reads it, each transaction's changes in the order in which an
    /// observer is told of them.
    func recordedChanges() throws -> [String] {
        let reader = try HistoryReader(path: store)
        defer { #expect(throws: Never.self) { try reader.close() } }
        var changes: [String] = []
        var place: Int64 = 0
        while true {
            let batch = try reader.batch(after: place)
            for transaction in batch.transactions {
                var groups: [(String, [String])] = []
                for change in transaction.changes {
                    let kind = "\(change.entity.name) \(change.operation.rawValue)"
                    let url = HistoryJSON.objectIDURL(of: change.objectID, in: change.entity, store: transaction.token.store)
                    let text = "\(transaction.author ?? "-") \(kind) \(url.split(separator: "/").last ?? "")"
                    if let group = groups.firstIndex(where: { $0.0 == kind }) { groups[group].1.append(text) } else { groups.append((kind, [text])) }
                }
                changes += groups.flatMap(\.1)
            }
            place = batch.end
            if batch.isLast { return changes }
        }
    }

    /// Compares all rows.
    func expectReplicaEqualsStore(_ keys: [String: String], replica: String = "replica.sqlite", sourceLocation: SourceLocation = #_sourceLocation) async throws {
        for (table, key) in keys.sorted(by: { $0.key < $1.key }) {
            let sql = ".mode quote\nSELECT * FROM \(table) ORDER BY \(key)"
            let (ours, theirs) = (try await rows(sql, of: path(replica)), try await rows(sql, of: store))
            #expect(ours == theirs, "\(table)", sourceLocation: sourceLocation)
        }
    }

    private func rows(_ script: String, of file: String) async throws -> [String] {
        let commands = script.split(separator: "\n").map(String.init)
        let output = try await start([Products.shell, "-bail", file, ".timeout 60000"] + commands, "rows-\(UUID().uuidString)").succeed()
        return output.wholeLines
    }
}
