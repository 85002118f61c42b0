import Foundation
import GRDB
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// Rows that hooks get with the objects of their calls.
@Suite struct CallValuesTests {
    private static let schema =
        "CREATE TABLE t (id INTEGER PRIMARY KEY, n TEXT, twice AS (id * 2)); CREATE TABLE u (id INTEGER PRIMARY KEY, n)"

    private static func hook(
        _ name: String = "p/h", _ kind: Hook.Kind = .observer, entity: String? = nil,
        cutAt limit: Int? = 1 << 20,
        operations: Set<ChangeOperation> = Set(ChangeOperation.allCases), calls: Calls = Calls()
    ) -> Hook {
        Hook(
            id: UUID(), name: name, kind: kind, entity: entity, operations: operations,
            maximumValueBytes: limit,
            endpoint: calls)
    }

    /// Each call's objects: `1 insert t/p1 {"id":1,…}`, or for a merge hook `merge` with all of them.
    private final class Calls: HookEndpoint {
        private let made = Locked<[String]>([])
        var all: [String] { made.withLock { $0 } }

        private func note(_ parameters: [UInt8]) {
            let text = String(decoding: parameters, as: UTF8.self)
            made.withLock { $0.append(text) }
        }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            for call in calls { note(call.parameters) }
            return ObserverOutcome(succeeded: calls.count)
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
            note(call.parameters)
            return MergeResult(.goOn)
        }
    }

    private static func values(_ call: String) -> [String] {
        call.matches(of: /"values":({[^}]*})(,"cutValues":{[^}]*})?/).map { "\($0.1)\($0.2 ?? "")" }
    }

    private static func position(_ call: String) -> String? {
        call.firstMatch(of: /"valuesAt":"[^"]*:([0-9]+)"/).map { String($0.1) }
    }

    @Test func anObjectComesWithItsRowAsOfTheEndOfTheHistory() async throws {
        let store = try GatekeeperStore(Self.schema)
        try store.write("A", "INSERT INTO t VALUES (1, 'one'), (2, 'two'); INSERT INTO u VALUES (1, 3.0)")
        try store.write("A", "UPDATE t SET n = 'later' WHERE id = 1; DELETE FROM t WHERE id = 2")
        let (observed, merged, plain) = (Calls(), Calls(), Calls())
        try await store.serve(
            store.served(["Main"]),
            [
                Self.hook("p/o", calls: observed), Self.hook("p/m", .merge, calls: merged),
                Self.hook("p/n", cutAt: nil, calls: plain),
            ])
        let calls = observed.all
        #expect(calls.map(Self.position) == ["5", "5", "5", "5"])
        #expect(
            calls.map(Self.values)
                == [[#"{"id":1,"n":"later"}"#], [#"{"id":1,"n":3.0}"#], [#"{"id":1,"n":"later"}"#], []])
        #expect(calls[0].contains(#""operation":"insert","objectID":{"id":2},"objectIDURL":"x-history:"#))
        #expect(merged.all.map(Self.position) == ["5"])
        #expect(
            merged.all.flatMap(Self.values)
                == [#"{"id":1,"n":"later"}"#, #"{"id":1,"n":3.0}"#, #"{"id":1,"n":"later"}"#])
        #expect(plain.all.count == 4 && plain.all.allSatisfy { !$0.contains("values") })
    }

    @Test func aRowIsReadOnceForAll() async throws {
        let store = try GatekeeperStore(Self.schema)
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        let fetcher = try SharedFetcher(reader)
        try store.write("A", "INSERT INTO t VALUES (1, 'one'); INSERT INTO u VALUES (1, 2)")
        let (some, all) = (
            WantedValues(entities: ["t"], maximumBytes: 10), WantedValues(entities: nil, maximumBytes: 100)
        )
        let look = try #require(try fetcher.look(values: all))
        let shared = try #require(look.batch.values)
        #expect(try fetcher.batch(after: 0, values: some).values === shared)
        #expect(try fetcher.batch(after: 0, values: all).values === shared)
        #expect(fetcher.known(after: 0, through: 2, values: some)?.values === shared)
        // Who wants none takes it as well; who wants more has it read again.
        #expect(try fetcher.batch(after: 0).values === shared)
        let more = WantedValues(entities: nil, maximumBytes: 101)
        #expect(fetcher.known(after: 0, through: 2, values: more) == nil)
        #expect(try fetcher.batch(after: 0, values: more).values !== shared)
    }

    @Test func wantsAreJoined() {
        let (t, u) = (
            WantedValues(entities: ["t"], maximumBytes: 1), WantedValues(entities: ["u"], maximumBytes: 2)
        )
        #expect(t.union(u) == WantedValues(entities: ["t", "u"], maximumBytes: 2))
        #expect(t.union(WantedValues(entities: nil, maximumBytes: 1)).entities == nil)
        #expect(t.union(u).covers(t) && t.union(u).covers(u) && !t.covers(u) && !u.covers(t))
        #expect(Self.hook(cutAt: nil).wantedValues == nil)
        #expect(Self.hook(operations: [.delete]).wantedValues == nil)
        #expect(Self.hook(entity: "t", cutAt: 5).wantedValues == WantedValues(entities: ["t"], maximumBytes: 5))
        #expect(WantedValues.union([]) == nil)
    }

    @Test func longTextsAndBlobsAreCutAndNamed() async throws {
        let store = try GatekeeperStore("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c, d)")
        try store.write(
            "A", "INSERT INTO t VALUES (1234567, 'aéé', x'0102030405', CAST(x'80808080ff' AS TEXT), 'abcd')")
        let (short, long) = (Calls(), Calls())
        try await store.serve(
            store.served(["Main"]),
            [Self.hook(cutAt: 4, calls: short), Self.hook("p/l", cutAt: 5, calls: long)])
        #expect(
            short.all[0].contains(
                #""values":{"id":1234567,"a":"aé","b":{"base64":"AQIDBA=="},"c":{"base64Text":"gICAgA=="},"d":"abcd"},"cutValues":{"a":5,"b":5,"c":5}"#
            ), "\(short.all)")
        #expect(
            long.all[0].contains(
                #""values":{"id":1234567,"a":"aéé","b":{"base64":"AQIDBAU="},"c":{"base64Text":"gICAgP8="},"d":"abcd"},"#
            ) && !long.all[0].contains("cutValues"), "\(long.all)")
    }

    /// A transaction that changes one row many times must not become a call of any size.
    @Test func theValuesOfACallAreBoundedTogether() async throws {
        let store = try GatekeeperStore("CREATE TABLE t (id INTEGER PRIMARY KEY, n)")
        let changes = (1...40).map { "UPDATE t SET n = zeroblob(1000000 + \($0))" }
        try store.write("A", "INSERT INTO t VALUES (1, 0)", changes.joined(separator: ";"))
        let calls = Calls()
        try await store.serve(store.served(["Main"]), [Self.hook(calls: calls)])
        let update = try #require(calls.all.last)
        // Some are whole, one is cut, and the others are left with nothing but their sizes.
        let whole = CallValues.mostBytes / 1_000_040
        func count(_ text: String) -> Int { ByteSearch.count(text, in: update) }
        #expect(count(#""values":"#) == 40)
        #expect(count(#""cutValues":{"n":1000040}"#) == 40 - whole)
        #expect(count(#""n":{"base64":""}},"cutValues""#) == 40 - whole - 1)
    }

    @Test func aBatchEndsWhereItsRowsFillTheMemory() throws {
        let store = try GatekeeperStore("CREATE TABLE t (id INTEGER PRIMARY KEY, n)")
        let megabyte = 1 << 20
        for id in 1...12 { try store.write("A", "INSERT INTO t VALUES (\(id), zeroblob(\(megabyte)))") }
        try store.write(
            "A",
            """
            WITH RECURSIVE c (i) AS (SELECT 13 UNION ALL SELECT i + 1 FROM c WHERE i < 24)
            INSERT INTO t SELECT i, zeroblob(\(megabyte)) FROM c
            """)
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        let wanted = WantedValues(entities: nil, maximumBytes: megabyte)
        var ends: [Int64] = []
        var end: Int64 = 0
        while true {
            let batch = try reader.outlinedBatch(after: end, values: wanted)
            if batch.end == end { break }
            #expect(batch.fingerprint == (try reader.outlinedBatch(after: end, through: batch.end).fingerprint))
            end = batch.end
            ends.append(end)
            guard let large = batch.transactions.first(where: { $0.outline != nil }) else {
                #expect(batch.values?.position.number == 24)
                continue
            }
            // It is read when its calls are made.
            #expect(batch.values == nil && batch.covers(wanted))
            let parts = UnreadChanges.parts(of: large, values: wanted)
            let read = try reader.changes(try #require(parts.first))
            #expect(parts.count == 1 && parts[0].part == nil && read.changes.count == 12)
            let rows = read.changes.compactMap { read.values?.row(of: $0.objectID, in: $0.entity) }
            #expect(rows.count == 12 && rows.allSatisfy { $0.sizes.isEmpty })
        }
        #expect(ends == [7, 12, 24])
    }

    /// One of an undeclared author ends where it ended before, also in parts: a repetition must not have grown.
    @Test func rowsOfAnUndeclaredTransactionAreReadInParts() throws {
        let store = try GatekeeperStore("CREATE TABLE t (id INTEGER PRIMARY KEY, n)")
        try store.write(
            nil,
            """
            WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 12)
            INSERT INTO t SELECT i, zeroblob(1048576) FROM c
            """, "UPDATE historyd_change SET origin = 5")
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        let wanted = WantedValues(entities: nil, maximumBytes: 1 << 20)
        for (last, count) in [(Int64.max, 12), (10, 10)] {
            let batch = try reader.outlinedBatch(after: 0, through: last, values: wanted)
            #expect(batch.end == Int64(count) && batch.isLast == (last == .max))
            let parts = UnreadChanges.parts(of: try #require(batch.transactions.first), values: wanted)
            let (changes, values) = try reader.changes(try #require(parts.first))
            #expect(parts.count == 1 && changes.count == count)
            #expect(changes.allSatisfy { values?.row(of: $0.objectID, in: $0.entity) != nil })
        }
    }

    /// The same deliveries, whether a transaction is read as a whole or part by part.
    @Test func partsWithValuesAreSmaller() async throws {
        let store = try GatekeeperStore(Self.schema)
        try store.write(
            "A",
            """
            WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 100)
            INSERT INTO t SELECT i, 'n' || i FROM c
            """)
        for partSize in [40, 80, 10_000] {
            let (with, without, merged) = (Calls(), Calls(), Calls())
            var served = store.served(["Main\(partSize)"])
            served.partSize = partSize
            try await store.serve(
                served,
                [
                    Self.hook("p/v", calls: with), Self.hook("p/n", cutAt: nil, calls: without),
                    Self.hook("p/m", .merge, calls: merged),
                ])
            let piece = TransactionOutline.pieceSize(of: partSize)
            #expect(piece == partSize / 40)
            let expected = (1...100).map { #"{"id":\#($0),"n":"n\#($0)"}"# }
            #expect(with.all.flatMap(Self.values) == expected)
            #expect(merged.all.flatMap(Self.values) == expected)
            #expect(without.all.count == (partSize == 10_000 ? 1 : (100 + partSize - 1) / partSize))
            if partSize < 100 {
                #expect(with.all.count == (100 + piece - 1) / piece)
                #expect(merged.all.count == with.all.count)
            }
        }
    }

    @Test func aHookThatCameMeanwhileHasTheBatchFetchedAgain() throws {
        let store = try GatekeeperStore(Self.schema)
        try store.write("A", "INSERT INTO t VALUES (1, 'one')")
        let reader = try HistoryReader(path: store.path)
        defer { try? reader.close() }
        let consumer = Consumer(store: "s", author: "Main", rule: DeliveryRule(authors: ["Main"]))
        var machine = ConsumerMachine(consumer, storeID: reader.storeID, cursor: 0)
        func around(_ hooks: Hook...) -> ConsumerMachine.Dependencies {
            ConsumerMachine.Dependencies(
                hooks: HookSet(observers: hooks, mergers: [], version: 0),
                now: HistoryTimestamp(milliseconds: 0),
                isEnding: false)
        }
        let hook = Self.hook()
        _ = machine.handle(.proceed, around())
        let output = machine.handle(.fetched(try reader.outlinedBatch(after: 0)), around(hook))
        guard case .fetch(after: 0, through: 1) = output.next else {
            Issue.record("\(output.next)")
            return
        }
        let wanted = around(hook).hooks.wantedValues
        let next = machine.handle(
            .fetched(try reader.outlinedBatch(after: 0, through: 1, values: wanted)), around(hook)
        ).next
        guard case .observe(let run) = next else {
            Issue.record("\(next)")
            return
        }
        #expect(
            Self.values(String(decoding: run.calls[0].parameters, as: UTF8.self)) == [#"{"id":1,"n":"one"}"#])
    }

    @Test func whatCannotBeLookedUpIsLeftOut() async throws {
        let store = try GatekeeperStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n); CREATE TABLE u (a TEXT PRIMARY KEY NOT NULL, n)")
        try store.write("A", "INSERT INTO t VALUES (1, 2); INSERT INTO u VALUES ('x', 3)")
        // Tables that others stand for now: a view, and one whose key is compared by the application alone.
        try store.write(
            nil,
            """
            DROP TABLE t; CREATE VIEW t AS WITH RECURSIVE c (id, n) AS (SELECT 1, 1 UNION ALL SELECT id, n FROM c)
            SELECT * FROM c;
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = replace(sql, 'a TEXT', 'a TEXT COLLATE mine') WHERE name = 'u'
            """)
        let calls = Calls()
        try await store.serve(store.served(["Main"]), [Self.hook(calls: calls)])
        #expect(calls.all.count == 2 && calls.all.flatMap(Self.values).isEmpty)
        #expect(calls.all.allSatisfy { Self.position($0) != nil })
    }
}
