import Foundation
import PersistentHistory
import TestSupport
import Testing

/// Whatever the transactions, the hooks and their failures: what succeeds does so once, in order.
@Suite(.timeLimit(.minutes(60))) struct DeliveryPropertyTests {
    @Test(arguments: (0..<12).map { _ in UInt64.random(in: 0...UInt64.max) })
    func eachCallSucceedsOnceAndInOrder(_ number: UInt64) async throws {
        var seed = Seed(number)
        let store = try TrackedStore()
        let transactions = try Self.write(to: store, &seed)
        let record = Record(seed: seed.next(), failing: Int.random(in: 0...60, using: &seed))
        let plugins = (0..<2).map { _ in FlakyPlugin(record) }
        let observers = (0..<4).map { index in
            Self.hook("p/o\(index)", .observer, plugins, &seed)
        }
        let mergers = (0..<3).map { index in Self.hook("p/m\(index)", .merge, plugins, &seed) }
        let rule = DeliveryRule(authors: ["MainApp", "Widget"])
        var served = ServedStore(
            name: "store", path: store.path, entities: nil, rule: rule,
            consumers: [Consumer(store: "store", author: "MainApp", rule: rule)])
        served.isUsedInProcess = true
        try await StoreRunner(
            served, hooks: HookRegistry(observers + mergers), stateFolder: store.stateFolder,
            reporter: SilentReporter(), stop: OneShotEvent()
        ).runOnce()

        let expected = transactions.flatMap { transaction in
            transaction.groups.flatMap { group in
                observers.filter { $0.matches(entity: group.entity, operation: group.operation) }.map {
                    "\($0.name) \(transaction.number) \(group.entity) \(group.operation)"
                }
            }
        }
        let entries = record.entries()
        #expect(entries.compactMap(\.observed) == expected, "\(seed)")
        // Each merge hook has had each transaction once, in the pipeline's order, and after the observers.
        for merger in mergers {
            let merged = entries.flatMap { $0.merged?.hook == merger.name ? $0.merged?.numbers ?? [] : [] }
            #expect(merged == transactions.map(\.number), "\(seed)")
        }
        let batches = entries.compactMap(\.merged)
        #expect(batches.map(\.hook) == (0..<batches.count / 3).flatMap { _ in mergers.map(\.name) }, "\(seed)")
        for (place, entry) in entries.enumerated() {
            guard let numbers = entry.merged?.numbers else { continue }
            let later = entries[place...].compactMap(\.number)
            #expect(numbers.allSatisfy { !later.contains($0) }, "\(seed)")
        }
        // A call that is repeated is the same.
        #expect(Set(record.deliveries.values).allSatisfy { $0 == 1 }, "\(seed)")
    }

    private struct Transaction {
        let number: Int64
        let groups: [(entity: String, operation: ChangeOperation)]
    }

    /// Transactions of some groups each, in random order.
    private static func write(to store: TrackedStore, _ seed: inout Seed) throws -> [Transaction] {
        var id = 0
        return try (0..<Int.random(in: 1...8, using: &seed)).compactMap { _ in
            var groups: [(entity: String, operation: ChangeOperation)] = []
            var sql = ""
            for _ in 0..<Int.random(in: 1...6, using: &seed) {
                let entity = Bool.random(using: &seed) ? "person" : "item"
                let operation: ChangeOperation
                switch Int.random(in: 0..<3, using: &seed) {
                case 1 where id > 0:
                    // An update changes something each time: of a row that was inserted just before.
                    sql +=
                        "INSERT INTO \(entity) (id) VALUES (\(id)); UPDATE \(entity) SET \(entity == "person" ? "name" : "note") = \(id) WHERE id = \(id);"
                    groups.append((entity, .insert))
                    operation = .update
                case 2 where id > 0:
                    sql += "INSERT INTO \(entity) (id) VALUES (\(id)); DELETE FROM \(entity) WHERE id = \(id);"
                    groups.append((entity, .insert))
                    operation = .delete
                default:
                    sql += "INSERT INTO \(entity) (id) VALUES (\(id));"
                    operation = .insert
                }
                groups.append((entity, operation))
                id += 1
            }
            var seen: [String] = []
            let distinct = groups.filter { group in
                let name = "\(group.entity) \(group.operation)"
                defer { seen.append(name) }
                return !seen.contains(name)
            }
            return try store.write(sql).map { Transaction(number: $0.number, groups: distinct) }
        }
    }

    private static func hook(_ name: String, _ kind: Hook.Kind, _ plugins: [FlakyPlugin], _ seed: inout Seed)
        -> Hook
    {
        let operations = ChangeOperation.allCases.filter { _ in Int.random(in: 0..<3, using: &seed) > 0 }
        return Hook(
            id: UUID(), name: name, kind: kind,
            entity: [nil, "person", "item"].randomElement(using: &seed) ?? nil,
            operations: Set(operations), endpoint: plugins[Int.random(in: 0..<2, using: &seed)],
            policy: FailurePolicy(attempts: 2, initialDelay: .microseconds(10), maximumDelay: .microseconds(20))
        )
    }
}

/// What succeeded, in order, over all plugins.
private final class Record: Sendable {
    struct Entry: Sendable {
        var observed: String?
        var number: Int64?
        var merged: (hook: String, numbers: [Int64])?
    }

    private struct State {
        var seed: Seed
        var entries: [Entry] = []
        /// How many different calls went by one delivery.
        var calls: [String: Set<[UInt8]>] = [:]
    }

    private let state: Locked<State>
    private let failing: Int

    /// - Parameter failing: Of a hundred calls.
    init(seed: UInt64, failing: Int) {
        state = Locked(State(seed: Seed(seed)))
        self.failing = failing
    }

    /// - Returns: Whether the call succeeds.
    func take(_ call: some HookCallJSON, _ delivery: String, _ entry: Entry) -> Bool {
        state.withLock { state in
            state.calls[delivery, default: []].insert(call.parameters)
            let succeeds = Int.random(in: 0..<100, using: &state.seed) >= failing
            if succeeds { state.entries.append(entry) }
            return succeeds
        }
    }

    func entries() -> [Entry] { state.withLock { $0.entries } }
    var deliveries: [String: Int] { state.withLock { $0.calls.mapValues(\.count) } }
}

private final class FlakyPlugin: HookEndpoint {
    private let record: Record

    init(_ record: Record) { self.record = record }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        for (index, call) in calls.enumerated() {
            let change = call.changes.first
            let number = call.transaction.token.number
            let entry = Record.Entry(
                observed:
                    "\(call.header.hook) \(number) \(change?.entity.name ?? "") \(change?.operation.rawValue ?? "")",
                number: number)
            if !record.take(call, call.header.delivery, entry) {
                return ObserverOutcome(succeeded: index, failure: HookFailure(.refused, "not now"))
            }
        }
        return ObserverOutcome(succeeded: calls.count)
    }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        let entry = Record.Entry(merged: (call.header.hook, call.transactions.map(\.token.number)))
        guard record.take(call, call.header.delivery, entry) else { throw HookFailure(.refused, "not now") }
        return MergeResult(.goOn)
    }
}
