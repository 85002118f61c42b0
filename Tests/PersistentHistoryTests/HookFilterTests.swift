import Foundation
import GRDB
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// Hooks that are called only for some changes: `properties` and `where`.
@Suite struct HookFilterTests {
    private static let schema = """
        CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, name TEXT COLLATE NOCASE);
        CREATE TABLE u (id INTEGER PRIMARY KEY, n)
        """

    /// Each object that was told of, as `5 insert 1`: the transaction's number, the operation and the key.
    private final class Calls: HookEndpoint {
        struct Object: Equatable {
            let name: String
            let changed: [String]
            let row: [String: Int]?
            let tombstone: [String: Int]?
        }

        private let made = Locked<(objects: [Object], calls: [String])>(([], []))
        var objects: [Object] { made.withLock { $0.objects } }
        var names: [String] { objects.map(\.name) }
        var calls: [String] { made.withLock { $0.calls } }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            for call in calls {
                made.withLock { made in
                    made.calls.append(call.header.delivery)
                    made.objects += call.changes.map { change in
                        let row = call.values?.rows.row(of: change.objectID, in: change.entity)
                        return Object(
                            name:
                                "\(call.transaction.token.number) \(change.operation.rawValue) \(change.objectID.keyText.dropFirst())",
                            changed: change.changedProperties,
                            row: row.map { row in
                                Self.integers(zip(row.names.columns, row.values))
                            },
                            tombstone: change.tombstone.map { tombstone in
                                Self.integers(tombstone.values.map { ($0.column.name, $0.value) })
                            })
                    }
                }
            }
            return ObserverOutcome(succeeded: calls.count)
        }

        private static func integers(_ values: some Sequence<(String, HistoryValue)>) -> [String: Int] {
            values.reduce(into: [:]) { integers, value in
                if case .integer(let integer) = value.1 { integers[value.0] = Int(integer) }
            }
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { .goOn }
    }

    private static func hook(
        _ name: String = "p/h", entity: String? = "t",
        _ operations: Set<ChangeOperation> = Set(ChangeOperation.allCases), properties: [String]? = nil,
        where condition: String? = nil, values: Int? = nil, policy: FailurePolicy = FailurePolicy(),
        calls: any HookEndpoint = Calls()
    ) -> Hook {
        Hook(
            id: UUID(), name: name, kind: .observer, entity: entity, operations: operations,
            properties: properties, condition: condition, maximumValueBytes: values, endpoint: calls,
            policy: policy)
    }

    private static func preserved() throws -> GatekeeperStore {
        let store = try GatekeeperStore(schema)
        try Tracking.track(store.path, ["t": ["n", "name"], "u": nil])
        return store
    }

    @Test func anUpdateOfOtherColumnsIsLeftOut() async throws {
        let store = try Self.preserved()
        try store.write("A", "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')")
        try store.write("A", "UPDATE t SET n = 5 WHERE id = 1")
        try store.write("A", "UPDATE t SET name = 'c'")
        try store.write("A", "UPDATE t SET n = 6, name = 'd' WHERE id = 2; DELETE FROM t WHERE id = 1")
        let calls = Calls()
        try await store.serve(store.served(["Main"]), [Self.hook(properties: ["name"], calls: calls)])
        #expect(
            calls.names == ["2 insert 1", "2 insert 2", "5 update 1", "5 update 2", "7 update 2", "7 delete 1"])
    }

    @Test func rowsAreJudgedAsOfTheEndOfTheBatchAndDeletesByTheirTombstones() async throws {
        let store = try Self.preserved()
        try store.write("A", "INSERT INTO t VALUES (1, 1, 'Ada'), (2, 20, 'bob'), (3, 30, 'ADA')")
        try store.write("A", "UPDATE t SET n = 9 WHERE id = 1")
        try store.write("A", "DELETE FROM t WHERE id = 3")
        let (few, ada) = (Calls(), Calls())
        try await store.serve(
            store.served(["Main"]),
            [
                Self.hook("p/few", where: "n > 5 AND n < 15", calls: few),
                // The column's own collation counts.
                Self.hook("p/ada", where: "name = 'ada'", calls: ada),
            ])
        // Row 3 is gone: its delete follows.
        #expect(few.names == ["3 insert 1", "4 update 1"])
        #expect(ada.names == ["3 insert 1", "4 update 1", "5 delete 3"])
        #expect(ada.calls.map { $0.split(separator: "/").last } == ["0", "0", "0"])
    }

    /// A filtered hook's calls are those of an unfiltered one to which the filter is applied afterwards.
    @Test(arguments: 0..<12) func theCallsAreThoseOfAnUnfilteredHook(round: Int) async throws {
        let seed = UInt64.random(in: 0...UInt64(UInt32.max))
        var generator = SplitMix(state: seed)
        let store = try Self.preserved()
        let (all, some, both) = (Calls(), Calls(), Calls())
        let limit = Int.random(in: 0..<10, using: &generator)
        let properties = [["n"], ["name"], ["n", "name"], ["id"]].randomElement(using: &generator) ?? []
        let hooks = [
            Self.hook("p/all", values: 100, calls: all),
            Self.hook("p/some", where: "n >= \(limit)", calls: some),
            Self.hook(
                "p/both", properties: properties, where: "NOT (n < \(limit)) AND name IS NOT 'x'", calls: both),
        ]
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
            for _ in 0..<Int.random(in: 0...12, using: &generator) {
                let (id, n) = (
                    Int.random(in: 0..<6, using: &generator), Int.random(in: 0..<10, using: &generator)
                )
                let sql = [
                    "INSERT OR REPLACE INTO t VALUES (\(id), \(n), 'a')",
                    "UPDATE t SET n = \(n) WHERE id = \(id)",
                    "UPDATE t SET name = 'b\(n)' WHERE id >= \(id)", "DELETE FROM t WHERE id = \(id)",
                    "UPDATE t SET n = NULL WHERE id = \(id)", "INSERT INTO u (n) VALUES (\(n))",
                ]
                let count = Int.random(in: 1...3, using: &generator)
                try store.write(
                    "A",
                    (0..<count).compactMap { _ in sql.randomElement(using: &generator) }.joined(separator: ";"))
            }
            try await store.serve(store.served(["Main"]), hooks)
        }
        func passes(_ object: Calls.Object) -> Bool {
            let isDelete = object.name.contains("delete")
            guard let n = (isDelete ? object.tombstone : object.row)?["n"] else { return false }
            return n >= limit
        }
        #expect(some.objects.map(\.name) == all.objects.filter(passes).map(\.name), "seed \(seed)")
        let expected = all.objects.filter { object in
            passes(object)
                && (!object.name.contains("update") || !Set(object.changed).isDisjoint(with: properties))
        }
        #expect(both.objects.map(\.name) == expected.map(\.name), "seed \(seed)")
    }

    /// What a large transaction has for a hook comes in parts; those that have nothing are left out.
    @Test func partsOfALargeTransactionAreFiltered() async throws {
        let store = try Self.preserved()
        try store.write(
            "A",
            "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 50) INSERT INTO t SELECT i, i, 'a' FROM c"
        )
        for (condition, expected) in [
            ("n = 7", ["7"]), ("n <= 3 OR n = 50", ["1", "2", "3", "50"]), ("n > 50", []),
        ] {
            var served = store.served(["Main\(expected.count)"])
            served.partSize = 10
            let calls = Calls()
            try await store.serve(served, [Self.hook(where: condition, calls: calls)])
            #expect(
                calls.objects.compactMap { $0.name.split(separator: " ").last.map(String.init) } == expected)
            // Where a part was made, the last one follows.
            #expect(calls.calls.isEmpty == expected.isEmpty)
            if !expected.isEmpty { #expect(calls.calls.last?.hasSuffix(".4") == true, "\(calls.calls)") }
        }
    }

    @Test func aFilteredCommitWakesNoIdleConsumer() throws {
        let store = try Self.preserved()
        let idle = IdleConsumers(["a", "b", "c"], at: Checkpoint(position: 0, fingerprint: nil, movedAt: .now))
        let hooks = [
            "a": Self.hook(entity: "t", [.update], properties: ["name"]), "b": Self.hook(where: "n > 100"),
            "c": Self.hook(),
        ]
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        let wanted = WantedValues.union(hooks.values.compactMap(\.wantedRows))
        var position: Int64 = 0
        func commit(_ sql: String) throws -> Set<String> {
            for (name, hook) in hooks {
                _ = idle.wake(name)
                idle.add(name, at: position, until: try #require(HookInterests([hook])), hooks: 0)
            }
            try store.write("A", sql)
            let batch = try reader.outlinedBatch(after: position, values: wanted)
            position = batch.end
            let checkpoint = Checkpoint(position: position, fingerprint: nil, movedAt: .now)
            return idle.pass(batch, to: checkpoint, hooks: 0).woken
        }
        #expect(try commit("INSERT INTO t VALUES (1, 1, 'a')") == ["c"])
        #expect(try commit("UPDATE t SET n = 2") == ["c"])
        #expect(try commit("UPDATE t SET name = 'b'") == ["a", "c"])
        #expect(try commit("UPDATE t SET n = 200") == ["b", "c"])
        #expect(try commit("INSERT INTO u VALUES (1, 1)") == [])
    }

    // MARK: Conditions

    private static func problem(_ condition: String, deletes: Bool = false) throws -> String? {
        let store = try preserved()
        return try withExtendedLifetime(store) {
            try RowCondition(entity: "t", condition).problem(
                in: store.path, takesDeletes: deletes, mayLackTable: false)
        }
    }

    @Test(arguments: [
        "n > 1", "name LIKE 'a%' AND n IS NOT NULL", "json_extract(name, '$.a') = 1",
        "date(name) > '2026-01-01'",
        "length(name) -- a comment", "(n)", "n IN (1, 2, 3)", "CASE WHEN n THEN 1 ELSE 0 END", "\"name\" = 'a'",
    ])
    func aConditionOverTheRowFits(_ condition: String) throws {
        #expect(try Self.problem(condition) == nil)
    }

    @Test(arguments: [
        ("missing = 1", "no such column: missing"), ("name = \"paid\"", "no such column: paid"),
        ("n IN (SELECT 1)", "subquer"), ("EXISTS (SELECT 1 FROM sqlite_schema)", "subquer"),
        ("random() > 0", "random"), ("date('now') > name", "non-deterministic"),
        ("name = CURRENT_TIMESTAMP", "current_timestamp"), ("load_extension('x')", "load_extension"),
        ("n = ?", "parameters"), ("1; DROP TABLE t", "more than one"), ("1) OR (1", "more than one"),
        ("n, 1", "row value"),
        ("(n", "no \")\""), ("", "empty"), ("count(*) > 1", "count()"), ("rowid = 1", "rowid"),
        ("u.n = 1", "no such column"),
        ("sqlite_compileoption_get(1212765012)", "not allowed"), ("n COLLATE mine = 1", "no such collation"),
        ("zeroblob(1000000000) = 1", "zeroblob"), ("RAISE(IGNORE)", "RAISE()"),
    ])
    func whatIsMoreThanALookAtARowIsRefused(_ condition: String, _ reason: String) throws {
        let problem = try #require(try Self.problem(condition) ?? RowCondition.problem(of: condition))
        #expect(problem.contains(reason), "\(problem)")
    }

    @Test func ofDeletedRowsThePreservedColumnsAreKnown() throws {
        #expect(try Self.problem("n = 1 AND id > 5", deletes: true) == nil)
        let store = try GatekeeperStore(Self.schema)
        let problem = try RowCondition(entity: "t", "n = 1 OR name = 'a'").problem(
            in: store.path, takesDeletes: true, mayLackTable: false)
        #expect(problem?.contains("--preserve t.n --preserve t.name") == true, "\(problem ?? "")")
    }

    @Test func aConditionThatTakesTooLongFailsForItsRow() throws {
        let database = try ConditionDatabase(
            columns: [.init(name: "a", declaredType: "TEXT", collation: "BINARY")], isStrict: false)
        let long = (0..<6).reduce("a") { text, _ in "substr(replace(\(text), 'x', 'xx'), 1, 400000)" }
        let deep = Array(repeating: "length(\(long))", count: 30).joined(separator: " + ")
        let condition = try database.compiled(BinaryText("\(deep) > 0"))
        #expect(
            database.verdict(condition, [.text(String(repeating: "x", count: 400_000))])
                == ConditionDatabase.tookTooLong)
        #expect(database.verdict(condition, [.text("y")]) == .wanted)
        guard
            case .failed(let text) = database.verdict(
                condition, [.text(String(repeating: "x", count: 2 << 20))])
        else {
            Issue.record("it was decided")
            return
        }
        #expect(text.contains("conditions look at"))
    }

    /// A replica is brought up to date on another thread than hooks are called.
    @Test func aConditionMayBeDecidedOnSeveralThreads() async throws {
        let database = try ConditionDatabase(
            columns: [.init(name: "n", declaredType: "INTEGER", collation: "BINARY")], isStrict: false)
        let condition = try database.compiled(BinaryText("n > 1000"))
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    try await onThread {
                        (1...2000).count { database.verdict(condition, [.integer(Int64($0))]) == .wanted }
                    }
                }
            }
            for try await wanted in group { #expect(wanted == 1000) }
        }
    }

    @Test func whatTheStoreHasIsComparedAsTheStoreCompares() throws {
        let database = try ConditionDatabase(
            columns: [
                .init(name: "a b", declaredType: "VARCHAR(20)", collation: "NOCASE"),
                .init(name: "n", declaredType: "", collation: "BINARY"),
                .init(name: "historyd_condition_0", declaredType: "INTEGER", collation: "RTRIM"),
            ], isStrict: false)
        let condition = try database.compiled(
            BinaryText("\"a b\" = 'ADA' AND n = 1 AND historyd_condition_0 = 5"))
        #expect(condition.columns == ["a b", "n", "historyd_condition_0"])
        #expect(database.verdict(condition, [.text("ada"), .integer(1), .integer(5)]) == .wanted)
        // A column without a type converts nothing.
        #expect(database.verdict(condition, [.text("ada"), .text("1"), .integer(5)]) == .unwanted)
        #expect(database.verdict(condition, [.null, .integer(1), .integer(5)]) == .unwanted)
    }

    @Test func aChangedSchemaHoldsTheConsumerAndGoesOnWhenItIsMended() async throws {
        let store = try Self.preserved()
        let calls = Calls()
        let hook = Self.hook(
            where: "name = 'a'",
            policy: FailurePolicy(attempts: 1, initialDelay: .milliseconds(1), afterLastAttempt: .skip),
            calls: calls)
        try store.write("A", "INSERT INTO t VALUES (1, 1, 'a')")
        try store.write(nil, "ALTER TABLE t RENAME COLUMN name TO title")
        try Tracking.refresh(store.path)
        try store.write("A", "INSERT INTO t VALUES (2, 2, 'a')")
        try await store.serveUntilHeld(store.served(["Main"]), [hook])
        #expect(calls.names.isEmpty)
        try store.write(nil, "ALTER TABLE t RENAME COLUMN title TO name")
        try Tracking.refresh(store.path)
        try await store.serve(store.served(["Main"]), [hook])
        #expect(
            calls.names.map { $0.split(separator: " ").dropFirst().joined(separator: " ") } == [
                "insert 1", "insert 2",
            ])
    }
}
