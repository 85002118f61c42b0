import Foundation
import PersistentHistory
import TestSupport
import Testing

/// The daemon is killed, again and again, while others write.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
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

    @Test(
        "Killed at random instants, it delivers everything, in order, and the replica equals the store",
        arguments: 1...4 as ClosedRange<UInt64>)
    func killed(_ number: UInt64) async throws {
        var seed = Seed(number)
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored()),
                plugins: [
                    PluginSetup(hooks: [
                        #"{"name": "all", "kind": "observer"}"#,
                        #"{"name": "people", "kind": "observer", "entity": "person"}"#,
                    ])
                ])
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
            #expect(kills > 0)

            try await bench.expectReplicaEqualsStore(["person": "id", "item": "code"])
            let recorded = try await bench.recordedChanges()
            for hook in ["audit/all", "audit/people"] {
                Self.expect(
                    try bench.calls().filter { $0.params.hook == hook },
                    deliver: recorded.filter { hook == "audit/all" || $0.kind.hasPrefix("person ") },
                    "\(seed) \(hook)")
            }
        }
    }

    /// Every change was delivered, in order of commit; what came again had the same delivery id
    /// and was the same call.
    private static func expect(_ calls: [Call], deliver recorded: [RecordedChange], _ comment: Comment) {
        var seen: [String: String] = [:]
        var first: [Call] = []
        for call in calls {
            if let before = seen.updateValue(call.summary, forKey: call.params.delivery) {
                #expect(before == call.summary, comment)
            } else {
                first.append(call)
            }
        }
        // Where an undeclared writer's transactions begin and end is for the daemon to say; in each
        // of them a call for each kind of change, in the order of the first one.
        var rest = recorded[...]
        var place = first[...]
        while let number = place.first?.params.transaction?.number {
            let delivered = place.prefix { $0.params.transaction?.number == number }
            let changes = rest.prefix { $0.number <= number }
            var kinds: [String] = []
            for change in changes where !kinds.contains(change.kind) { kinds.append(change.kind) }
            let expected = kinds.map { kind in
                let group = changes.filter { $0.kind == kind }
                return
                    "\(number) \(Set(group.map(\.author)).sorted().joined(separator: "+")) \(kind) \(group.map(\.key).joined(separator: " "))"
            }
            let found = delivered.map { $0.summary.split(separator: " ").dropFirst(2).joined(separator: " ") }
            #expect(found == expected, comment)
            guard found == expected else { return }
            rest = rest.dropFirst(changes.count)
            place = place.dropFirst(delivered.count)
        }
        #expect(rest.isEmpty, comment)
    }
}

/// One row of the history.
struct RecordedChange {
    let number: Int
    let author: String
    /// `person insert`
    let kind: String
    let key: String
}

extension Workbench {
    /// The whole history, as the library reads it.
    func recordedChanges() async throws -> [RecordedChange] {
        let numbers = try await sql("SELECT id FROM historyd_change WHERE kind & 3 <> 3 ORDER BY id").wholeLines
            .compactMap { Int($0) }
        let reader = try HistoryReader(path: store)
        var changes: [RecordedChange] = []
        var place: Int64 = 0
        var isLast = false
        while !isLast {
            let batch = try reader.batch(after: place)
            for transaction in batch.transactions {
                for change in transaction.changes {
                    let url = HistoryJSON.objectIDURL(
                        of: change.objectID, in: change.entity, store: transaction.token.store)
                    changes.append(
                        RecordedChange(
                            number: changes.count < numbers.count ? numbers[changes.count] : 0,
                            author: transaction.author ?? "-",
                            kind: "\(change.entity.name) \(change.operation.rawValue)",
                            key: url.split(separator: "/").last.map(String.init) ?? ""))
                }
            }
            place = batch.end
            isLast = batch.isLast
        }
        try reader.close()
        #expect(changes.count == numbers.count)
        return changes
    }

    /// Compares all rows.
    func expectReplicaEqualsStore(
        _ keys: [String: String], replica: String = "replica.sqlite",
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        for (table, key) in keys.sorted(by: { $0.key < $1.key }) {
            let sql = ".mode quote\nSELECT * FROM \(table) ORDER BY \(key)"
            let (ours, theirs) = (try await rows(sql, of: path(replica)), try await rows(sql, of: store))
            #expect(ours == theirs, "\(table)", sourceLocation: sourceLocation)
        }
    }

    private func rows(_ script: String, of file: String) async throws -> [String] {
        let commands = script.split(separator: "\n").map(String.init)
        let output = try await start(
            [Products.shell, "-bail", file, ".timeout 60000"] + commands, "rows-\(UUID().uuidString)"
        ).succeed()
        return output.wholeLines
    }
}
