import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// What was asked for stays wanted until `untrack`, whatever others do to the tables and however often the schema is
/// looked at meanwhile.
@Suite(.timeLimit(.minutes(60))) struct WantedNamesTests {
    private static let table = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)"

    /// The ways in which tools rebuild a table, statement by statement.
    private static let rebuilds = [
        ["DROP TABLE t", table],
        [
            "CREATE TABLE n (id INTEGER PRIMARY KEY, a, b)", "INSERT INTO n SELECT * FROM t", "DROP TABLE t",
            "ALTER TABLE n RENAME TO t",
        ],
        ["ALTER TABLE t RENAME TO o", table, "INSERT INTO t SELECT * FROM o", "DROP TABLE o"],
        ["ALTER TABLE t RENAME TO o", "DROP TABLE o", table],
        ["CREATE TEMP TABLE k AS SELECT * FROM t", "DROP TABLE t", table, "INSERT INTO t SELECT * FROM k"],
        ["DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY)", "ALTER TABLE t ADD COLUMN a"],
        ["DROP TABLE t", "CREATE VIEW t AS SELECT 1 AS id", "DROP VIEW t", table],
        ["ALTER TABLE t RENAME TO o", "ALTER TABLE o RENAME TO p", "DROP TABLE p", "CREATE TABLE T (id, a)"],
    ]

    private struct Store {
        let folder: TemporaryFolder
        let queue: DatabaseQueue
        var path: String { queue.path }

        init(_ sql: String) throws {
            folder = try TemporaryFolder()
            queue = try DatabaseQueue(path: folder.file("s.sqlite"))
            try run(sql)
        }

        func run(_ sql: String) throws { try queue.writeWithoutTransaction { try $0.execute(sql: sql) } }

        func transactions() throws -> [HistoryTransaction] {
            let reader = try HistoryReader(path: path)
            defer { #expect(throws: Never.self) { try reader.close() } }
            var (transactions, end) = ([HistoryTransaction](), Int64(0))
            while true {
                let batch = try reader.batch(after: end)
                transactions += batch.transactions
                if batch.end <= end { return transactions }
                end = batch.end
            }
        }

        func keeping() throws -> [WantedNames.Entry]? { try queue.read { try WantedNames($0)?.all } }
    }

    @Test("A rebuilt table is recorded again and announced", arguments: rebuilds, [0, 1, 2, 3])
    func rebuilt(steps: [String], looks: Int) throws {
        let store = try Store("\(Self.table); INSERT INTO t VALUES (1, 'x', 'y')")
        try Tracking.track(store.path, ["t": ["a"]])
        for (number, step) in steps.enumerated() {
            try store.run(step)
            // After each statement, after some, or after none.
            if looks == 3 || looks > 0 && number % 3 == looks - 1 { try Tracking.refresh(store.path) }
        }
        let last = try Tracking.refresh(store.path)
        #expect(last.unfit.isEmpty)
        try store.run("DELETE FROM t; INSERT INTO t (id, a) VALUES (77, 'kept'); DELETE FROM t WHERE id = 77")
        let transactions = try store.transactions()
        let changes = transactions.flatMap(\.changes).suffix(2)
        #expect(changes.map(\.operation) == [.insert, .delete])
        #expect(changes.last?.tombstone?.values.map(\.value) == [.text("kept")])
        #expect(transactions.contains { $0.recreated.contains { SQLText.areSame($0, "t") } })
        #expect(try Tracking.refresh(store.path).isEmpty)
    }

    @Test("A wanted table that is gone is named until it is untracked", arguments: [false, true])
    func missing(isListed: Bool) throws {
        let store = try Store("\(Self.table); CREATE TABLE u (id INTEGER PRIMARY KEY)")
        try Tracking.track(store.path, ["t": nil, "u": nil])
        if !isListed { try store.run("DELETE FROM historyd_store WHERE key = 'wanted'") }
        try store.run("DROP TABLE t")
        let dropped = try Tracking.refresh(store.path)
        #expect(dropped.dropped == ["t"])
        #expect(dropped.recreated == ["t"])
        for _ in 0..<2 {
            let outcome = try Tracking.refresh(store.path)
            #expect(outcome.isEmpty)
            #expect(Array(outcome.unfit.keys) == ["t"])
            #expect(outcome.unfit["t"]?.contains("`historyctl untrack STORE t`") == true)
        }
        #expect(try Tracking.untrack(store.path, ["T"]) == ["t"])
        #expect(try Tracking.refresh(store.path).unfit.isEmpty)
        try store.run(Self.table)
        #expect(try Tracking.refresh(store.path) == Tracking.Outcome())
    }

    @Test("A table that was renamed is not missed; its first name is when it goes")
    func renamed() throws {
        let store = try Store(Self.table)
        try Tracking.track(store.path, ["t": ["a"]])
        try store.run("ALTER TABLE t RENAME TO u")
        #expect(try Tracking.refresh(store.path).unfit.isEmpty)
        try store.run("ALTER TABLE u RENAME TO v")
        #expect(try Tracking.refresh(store.path).unfit.isEmpty)
        try store.run("DROP TABLE v")
        #expect(try Array(Tracking.refresh(store.path).unfit.keys) == ["t"])
        try store.run(Self.table)
        let outcome = try Tracking.refresh(store.path)
        #expect(outcome.added == ["t"])
        #expect(outcome.unfit.isEmpty)
    }

    @Test("A table that has its own name back is not announced")
    func renamedBack() throws {
        let store = try Store("\(Self.table); INSERT INTO t VALUES (1, 'x', 'y')")
        try Tracking.track(store.path, ["t": nil])
        for name in ["u", "v", "t"] {
            let before = try store.keeping()?.first.map { $0.renamedTo?.text ?? $0.name.text }
            try store.run("ALTER TABLE \(before ?? "") RENAME TO \(name)")
            let outcome = try Tracking.refresh(store.path)
            #expect(outcome.updated == [name])
            #expect(outcome.recreated.isEmpty)
        }
        #expect(try store.keeping()?.map(\.renamedTo) == [nil])
    }

    @Test("Whoever has the renamed table untracked does not want the first name either")
    func untrackedAfterItsRename() throws {
        let store = try Store(Self.table)
        try Tracking.track(store.path, ["t": nil])
        try store.run("ALTER TABLE t RENAME TO u")
        try Tracking.refresh(store.path)
        #expect(try Tracking.untrack(store.path, ["u"]) == ["u"])
        try store.run("DROP TABLE u; \(Self.table)")
        #expect(try Tracking.refresh(store.path) == Tracking.Outcome())
    }

    @Test("Where the configuration asks for every table, one that is gone is not missed")
    func everyTable() throws {
        let store = try Store("\(Self.table); CREATE TABLE u (id INTEGER PRIMARY KEY)")
        func look() throws -> Tracking.Outcome {
            try Tracking.bringUpToDate(
                store.path, [:], all: true, leavesOutUnfit: true, timeout: .seconds(5)
            ).outcome
        }
        #expect(try look().added == ["t", "u"])
        #expect(try store.keeping() == [])
        try store.run("DROP TABLE t")
        #expect(try look().unfit.isEmpty)
        #expect(try look().isEmpty)
        try store.run(Self.table)
        #expect(try look().recreated == ["t"])
    }

    @Test("After a migration a new table stands for the wanted one")
    func migration() throws {
        let store = try Store(Self.table)
        try Tracking.track(store.path, ["t": ["a"]])
        let migration = try Migration(store.path)
        try store.run(
            "CREATE TABLE n (id INTEGER PRIMARY KEY, a, b); DROP TABLE t; ALTER TABLE n RENAME TO u")
        let outcome = try migration.end()
        #expect(outcome.added == ["u"])
        #expect(outcome.unfit.isEmpty)
        #expect(try Tracking.refresh(store.path) == Tracking.Outcome())
    }

    @Test("What is wanted outlives the history")
    func brokenHistory() throws {
        let store = try Store("\(Self.table); CREATE TABLE u (id INTEGER PRIMARY KEY)")
        try Tracking.track(store.path, ["t": ["a"], "u": nil])
        try store.run("DROP TABLE t")
        try Tracking.refresh(store.path)
        try store.run("DROP TABLE historyd_change; \(Self.table); DROP TABLE u")
        let outcome = try Tracking.refresh(store.path)
        #expect(outcome.beganAgain)
        #expect(outcome.recreated == ["t"])
        #expect(Array(outcome.unfit.keys) == ["u"])
        #expect(try store.keeping()?.map(\.preserved) == [["a"], []])
    }

    @Test("A name that passes between two tracked tables is announced, however often the schema is looked at")
    func passedOn() throws {
        let steps = ["ALTER TABLE t RENAME TO x", "ALTER TABLE u RENAME TO t", "ALTER TABLE x RENAME TO u"]
        for looks in 0..<8 {
            let store = try Store("\(Self.table); CREATE TABLE u (id INTEGER PRIMARY KEY, c)")
            try Tracking.track(store.path, [:], all: true)
            for (number, step) in steps.enumerated() {
                try store.run(step)
                if looks >> number & 1 == 1 { try Tracking.refresh(store.path) }
            }
            #expect(try Tracking.refresh(store.path).unfit.isEmpty)
            let told: [String] = try store.transactions().flatMap(\.recreated)
            #expect(Set(told).isSuperset(of: ["t", "u"]), "looks \(looks)")
            try store.run("INSERT INTO t (id, c) VALUES (1, 1); INSERT INTO u (id, a) VALUES (1, 1)")
            let changes: [HistoryChange] = try store.transactions().flatMap(\.changes)
            #expect(changes.map(\.entity.name) == ["t", "u"])
        }
    }

    @Test("What the store keeps is checked", arguments: ["x", "{}", "[{\"name\": 1}]"])
    func damaged(text: String) throws {
        let store = try Store(Self.table)
        try Tracking.track(store.path, ["t": nil])
        try store.run("UPDATE historyd_store SET value = '\(text)' WHERE key = 'wanted'")
        let error = try #require(throws: HistoryError.self) { try Tracking.refresh(store.path) }
        #expect(error.code == .storeCorrupt)
        try store.run("DROP TABLE historyd_change")
        #expect(try Tracking.refresh(store.path).added == ["t"])
    }
}
