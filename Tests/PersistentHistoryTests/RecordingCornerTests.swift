import GRDB
import GRDBSQLite
import TestSupport
import Testing

@testable import PersistentHistory

/// What a twin cannot be compared with: values by chance, other connections' functions, many tables.
@Suite struct RecordingCornerTests {
    private func store(_ schema: String, _ folder: TemporaryFolder, function: DatabaseFunction? = nil) throws
        -> DatabaseQueue
    {
        var configuration = Configuration()
        configuration.prepareDatabase { db in if let function { db.add(function: function) } }
        let store = try DatabaseQueue(path: folder.file("s.sqlite"), configuration: configuration)
        try store.write { try $0.execute(sql: schema) }
        return store
    }

    private func changes(_ store: DatabaseQueue) throws -> [HistoryChange] {
        let reader = try HistoryReader(path: store.path)
        defer { #expect(throws: Never.self) { try reader.close() } }
        var changes: [HistoryChange] = []
        var batch = try reader.batch(after: 0)
        while true {
            changes += batch.transactions.flatMap(\.changes)
            if batch.isLast { return changes }
            batch = try reader.batch(after: batch.end)
        }
    }

    /// The keys that there are, by the history.
    private func present(_ store: DatabaseQueue) throws -> Set<HistoryValue> {
        var present: Set<HistoryValue> = []
        for change in try changes(store) {
            if change.operation == .delete {
                #expect(present.remove(change.objectID.values[0]) != nil)
            } else {
                present.insert(change.objectID.values[0])
            }
        }
        return present
    }

    @Test func aDefaultByChance() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER NOT NULL DEFAULT (random() % 3) UNIQUE)", folder)
        try Tracking.track(store.path, ["t": nil])
        for _ in 0..<30 { try store.write { try $0.execute(sql: "REPLACE INTO t (x) VALUES (NULL)") } }
        let rows = try store.read { try Int64.fetchAll($0, sql: "SELECT id FROM t") }
        #expect(try present(store) == Set(rows.map { .integer($0) }))
    }

    /// VACUUM gives the rows of a table without an index new numbers: the application's index may go at any time.
    @Test func aDroppedIndexKeepsNoRowids() throws {
        let folder = try TemporaryFolder()
        let store = try store("CREATE TABLE t (a); CREATE INDEX i ON t (a)", folder)
        try Tracking.track(store.path, ["t": nil])
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1), (2), (3); DELETE FROM t WHERE a = 1") }
        try store.writeWithoutTransaction { try $0.execute(sql: "DROP INDEX i; VACUUM") }
        let rowids = try store.read { try Int64.fetchAll($0, sql: "SELECT rowid FROM t") }
        #expect(rowids == [2, 3])
        #expect(try present(store) == [.integer(2), .integer(3)])
    }

    /// An index that only the application can compute: it is said, and a replica ends equal all the same.
    @Test func aFunctionOfTheApplications() async throws {
        let folder = try TemporaryFolder(inMemory: true)
        let half = DatabaseFunction("half", argumentCount: 1, pure: true) { values in
            (Int64.fromDatabaseValue(values[0]) ?? 0) / 2
        }
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); CREATE UNIQUE INDEX i ON t (half(n))"
        let store = try store(schema, folder, function: half)
        let outcome = try Tracking.track(store.path, ["t": nil])
        #expect(outcome.doubts.keys.sorted() == ["t"])
        #expect(outcome.doubts["t"]?.first?.contains("half()") == true)
        #expect(try Tracking.refresh(store.path).doubts == outcome.doubts)
        let merger = ReplicaMerger(
            ReplicaContext(name: "copy", path: folder.file("copy.sqlite"), entities: nil), storePath: store.path
        )
        _ = try await merger.checkpoint()
        try await store.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1, 1), (2, 2); INSERT OR REPLACE INTO t VALUES (3, 0)")
        }
        let reader = try HistoryReader(path: store.path)
        let batch = try reader.batch(after: 0)
        try reader.close()
        // What if the history did not say it.
        let said = batch.transactions.map { transaction in
            HistoryTransaction(
                token: transaction.token, author: nil, context: nil, processID: nil,
                timestamp: transaction.timestamp,
                changes: transaction.changes.filter { $0.operation == .insert })
        }
        try await merger.merge(said, through: HistoryToken(store: reader.storeID, number: batch.end))
        let copy = try DatabaseQueue(path: folder.file("copy.sqlite"))
        let rows = try await copy.read { try Int64.fetchAll($0, sql: "SELECT id FROM t ORDER BY id") }
        #expect(rows == [2, 3])
        await merger.close()
    }

    /// Text keys that are no UTF-8 are told apart, in JSON and in URLs.
    @Test func keysAreBytes() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store("CREATE TABLE file (name TEXT PRIMARY KEY NOT NULL)", folder)
        try Tracking.track(store.path, ["file": ["name"]])
        try store.write { db in
            try db.execute(
                sql:
                    "INSERT INTO file VALUES (CAST(x'63e9' AS TEXT)), (CAST(x'63e8' AS TEXT)), ('é'); DELETE FROM file"
            )
        }
        let changes = try changes(store)
        #expect(
            changes.prefix(3).map { $0.objectID.values[0] }
                == [.invalidText([0x63, 0xe9]), .invalidText([0x63, 0xe8]), .text("é")])
        let url = HistoryJSON.objectIDURL(of: changes[0].objectID, in: changes[0].entity, store: .sample())
        #expect(url == "x-history://\(StoreID.sample())/file/tc%E9")
        #expect(ObjectIDURL(url)?.objectID(in: changes[0].entity) == changes[0].objectID)
        var json = JSONBytes()
        HistoryJSON.write(changes[0].objectID, to: &json)
        #expect(String(decoding: json.bytes.array, as: UTF8.self) == #"{"name":{"base64Text":"Y+k="}}"#)
        let deleted = changes.last { $0.objectID == changes[0].objectID }
        #expect(deleted?.tombstone?.attributes == ["name": "c\u{FFFD}"])
    }

    /// Renamed away, made again and filled, all in one transaction: what has the entity's name is the entity.
    @Test(arguments: [
        "ALTER TABLE t RENAME TO old_t; CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); INSERT INTO t SELECT id, a, 1 FROM old_t; DROP TABLE old_t",
        "ALTER TABLE t RENAME TO old_t; CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); INSERT INTO t SELECT id, a, 1 FROM old_t",
        "CREATE TABLE new_t (id INTEGER PRIMARY KEY, a, b); INSERT INTO new_t SELECT id, a, 1 FROM t; DROP TABLE t; ALTER TABLE new_t RENAME TO t",
        "ALTER TABLE t RENAME TO u; ALTER TABLE u ADD COLUMN b; ALTER TABLE u RENAME TO t",
    ])
    func aTableIsRenamedAndRebuilt(script: String) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store("CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE)", folder)
        try Tracking.track(store.path, ["t": ["a"]])
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1, 'x'); \(script)") }
        #expect(try Tracking.refresh(store.path).updated == ["t"])
        try store.write { try $0.execute(sql: "UPDATE t SET b = 2; DELETE FROM t") }
        let changes = try changes(store)
        #expect(changes.map(\.operation) == [.insert, .update, .delete])
        #expect(changes.last?.tombstone?.values.map(\.value) == [.text("x")])
        #expect(changes.allSatisfy { $0.entity.name == "t" })
    }

    /// Reading a schema takes so many steps for each table, however many there are.
    @Test func aSchemaIsReadInSteps() throws {
        let folder = try TemporaryFolder(inMemory: true)
        func steps(_ tables: Int) throws -> Int {
            let store = try DatabaseQueue(path: folder.file("\(tables).sqlite"))
            try store.write { db in
                for number in 0..<tables {
                    try db.execute(
                        sql: """
                            CREATE TABLE t\(number) (id INTEGER PRIMARY KEY, a UNIQUE, b REFERENCES t\(max(0, number - 1)) (id));
                            CREATE INDEX i\(number) ON t\(number) (b);
                            """)
                }
            }
            try Tracking.track(store.path, [:], all: true)
            return try store.read { db in
                var count = 0
                try withUnsafeMutablePointer(to: &count) { count in
                    sqlite3_progress_handler(
                        db.sqliteConnection, 10,
                        { count in
                            count?.assumingMemoryBound(to: Int.self).pointee += 1
                            return 0
                        }, count)
                    defer { sqlite3_progress_handler(db.sqliteConnection, 0, nil, nil) }
                    let plan = try TrackingPlan(db, entities: [:], all: true)
                    #expect(plan.isEmpty)
                }
                return count
            }
        }
        let (few, many) = (try steps(20), try steps(160))
        #expect(many < few * 12, "\(few) became \(many)")
    }
}
