import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// Tables and triggers of the recording that others have removed in part: the recording is repaired, consumers are
/// told, and `untrack` takes away whatever is left.
@Suite(.timeLimit(.minutes(60))) struct RecordingRepairTests {
    /// Some tables of the history, by their bits, and whether the triggers are gone as well.
    private static func damage(_ tables: Int, keepingTriggers: Bool, _ store: GatekeeperStore) throws -> Set<
        String
    > {
        let names = RecordingFormat.tables.enumerated().filter { tables >> $0.offset & 1 == 1 }.map(\.element)
        let triggers = try GatekeeperStore.read(store.path) { db in
            try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
        }
        let drops =
            names.map { "DROP TABLE \($0)" } + (keepingTriggers ? [] : triggers.map { "DROP TRIGGER \($0)" })
        try store.write(nil, drops.joined(separator: ";"))
        return Set(names)
    }

    private func ours(_ store: GatekeeperStore) throws -> [String] {
        try GatekeeperStore.read(store.path) { db in
            try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE name LIKE 'historyd%'")
        }
    }

    /// A program that only knows an older format refuses what a newer one has written.
    @Test func formats() throws {
        let store = try GatekeeperStore()
        try Tracking.track(store.path, ["t": []])
        func set(_ format: Int64) throws {
            try store.write(nil, "UPDATE historyd_store SET value = \(format) WHERE key = 'format'")
        }
        func format() throws -> Int64? {
            try GatekeeperStore.read(store.path) { db in
                try Int64.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'format'")
            }
        }
        try set(RecordingFormat.version - 1)
        try Tracking.refresh(store.path)
        #expect(try format() == RecordingFormat.version - 1, "nothing had to be written")
        try Tracking.track(store.path, ["t": ["n"]])
        #expect(try format() == RecordingFormat.version)
        try set(RecordingFormat.version + 1)
        #expect {
            try Tracking.track(store.path, ["u": []])
        } throws: { error in
            (error as? HistoryError)?.code == .formatTooNew
        }
        #expect(try format() == RecordingFormat.version + 1)
    }

    @Test("Whatever is missing, tracking repairs it", arguments: 0..<16, [true, false])
    func repair(_ tables: Int, keepingTriggers: Bool) async throws {
        let store = try GatekeeperStore()
        try Tracking.track(store.path, ["t": ["n"], "u": []])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
        let id = try HistoryReader(path: store.path).storeID
        let missing = try Self.damage(tables, keepingTriggers: keepingTriggers, store)
        // The names that are wanted lie apart from the entities.
        let knowsNames = !missing.isSuperset(of: ["historyd_entity", "historyd_store"])
        let knowsEntities = keepingTriggers || knowsNames
        guard knowsEntities else {
            #expect(throws: HistoryError.self) { try Tracking.refresh(store.path) }
            try Tracking.track(store.path, ["t": ["n"], "u": []])
            // Where nothing is left, nothing is known to have been recorded before.
            return try await expectRecording(store, isNew: tables == 15)
        }
        let outcome = try Tracking.refresh(store.path)
        let isGone = !missing.subtracting(["historyd_conflict"]).isEmpty
        #expect(outcome.beganAgain == isGone)
        #expect((try HistoryReader(path: store.path).storeID != id) == isGone)
        #expect(outcome.recreated == (isGone || !keepingTriggers ? ["t", "u"] : []))
        #expect(try Tracking.refresh(store.path).isEmpty)
        let preserved = try StoreDescription(path: store.path).entities.map(\.preserved)
        #expect(preserved == [knowsNames ? ["n"] : [], []])
        if isGone { return try await expectRecording(store) }
        let listener = Listener()
        try await store.serve(store.served(["Main"]), [listener.observer()])
        #expect(listener.all() == ["insert t 1"] + (keepingTriggers ? [] : ["recreated 1 > 2 t u"]))
    }

    /// Consumers of the new history are told of everything, and then of what is recorded.
    private func expectRecording(_ store: GatekeeperStore, isNew: Bool = false) async throws {
        try store.write("A", "INSERT OR REPLACE INTO t VALUES (1, 2)")
        let listener = Listener()
        try await store.serve(store.served(["Main"]), [listener.observer()])
        #expect(listener.all() == (isNew ? [] : ["recreated 0 > 1 t u"]) + ["delete t 1", "insert t 1"])
    }

    @Test("Whatever is missing, untracking leaves nothing", arguments: 0..<16, [true, false])
    func untrack(_ tables: Int, keepingTriggers: Bool) throws {
        let store = try GatekeeperStore()
        _ = try Self.damage(tables, keepingTriggers: keepingTriggers, store)
        if tables == 15, !keepingTriggers {
            #expect(throws: HistoryError.self) { try Tracking.untrack(store.path) }
        } else {
            try Tracking.untrack(store.path)
        }
        #expect(try ours(store) == [])
        try store.write("A", "INSERT INTO t VALUES (1, 1)")
    }

    @Test("A table of known rows that is missing is made again")
    func knownRows() throws {
        let store = try GatekeeperStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n); CREATE UNIQUE INDEX i ON t (abs(n))")
        try store.write(nil, "DROP TABLE historyd_1_rows")
        #expect(throws: DatabaseError.self) { try store.write(nil, "INSERT INTO t VALUES (1, 1)") }
        #expect(try Tracking.refresh(store.path).updated == ["t"])
        try store.write("A", "INSERT INTO t VALUES (1, 1); REPLACE INTO t VALUES (2, -1)")
        let reader = try HistoryReader(path: store.path)
        #expect(
            try reader.batch(after: 0).transactions.flatMap(\.changes).map(\.operation) == [
                .insert, .delete, .insert,
            ])
        try reader.close()
    }

    @Test("Tables of these names that the application made are not touched")
    func foreign() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let queue = try DatabaseQueue(path: path)
        try queue.write { try $0.execute(sql: "CREATE TABLE historyd_change (a); CREATE TABLE t (a)") }
        try queue.close()
        #expect { try Tracking.track(path, ["t": nil]) } throws: { ($0 as? HistoryError)?.code == .notAnEntity }
    }

    @Test("A table under another name that is tracked already has one recording")
    func oneRecording() throws {
        let store = try GatekeeperStore()
        try store.write(
            nil, "CREATE TABLE tmp (id INTEGER PRIMARY KEY, n INTEGER)")
        try Tracking.track(store.path, ["tmp": nil])
        try store.write(nil, "INSERT INTO tmp SELECT * FROM t; DROP TABLE t; ALTER TABLE tmp RENAME TO t")
        let outcome = try Tracking.refresh(store.path)
        #expect(outcome.recreated == ["t", "tmp"])
        let position = try HistoryReader(path: store.path).newestToken().number
        try store.write("A", "INSERT INTO t VALUES (7, 7)")
        let reader = try HistoryReader(path: store.path)
        #expect(try reader.batch(after: position).transactions.flatMap(\.changes).map(\.entity.name) == ["t"])
        try reader.close()
    }
}
