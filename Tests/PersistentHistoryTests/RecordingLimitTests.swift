import GRDB
import PersistentHistory
import TestSupport
import Testing

/// Where SQLite itself keeps recording from being exact: what the README says of it, and no more.
@Suite struct RecordingLimitTests {
    private func store(_ schema: String, _ folder: TemporaryFolder, foreignKeys: Bool = false) throws
        -> DatabaseQueue
    {
        var configuration = Configuration()
        configuration.foreignKeysEnabled = foreignKeys
        let store = try DatabaseQueue(path: folder.file("s.sqlite"), configuration: configuration)
        try store.write { try $0.execute(sql: schema) }
        return store
    }

    private func changes(_ store: DatabaseQueue) throws -> [String] {
        let reader = try HistoryReader(path: store.path)
        defer { #expect(throws: Never.self) { try reader.close() } }
        var changes: [String] = []
        var batch = try reader.batch(after: 0)
        while true {
            changes += batch.transactions.flatMap(\.changes).map {
                "\($0.operation.rawValue) \($0.objectID.values[0])"
            }
            // A notice of unrecorded changes ends a batch.
            if batch.isLast { return changes }
            batch = try reader.batch(after: batch.end)
        }
    }

    /// SQLite computes it of the columns that triggers name which run before: ours name none that others need.
    @Test(arguments: [false, true])
    func aGeneratedColumnBeforeAnUpdate(isTracked: Bool) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store(
            """
            CREATE TABLE log (x);
            CREATE TABLE t (a PRIMARY KEY, sum AS (b + 1) STORED, b UNIQUE);
            CREATE TRIGGER own BEFORE UPDATE OF a ON t BEGIN INSERT INTO log VALUES (NEW.sum); END;
            """, folder)
        if isTracked { try Tracking.track(store.path, ["t": nil]) }
        let seen = try store.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1, 1); UPDATE t SET a = 2")
            return try Int64?.fetchOne(db, sql: "SELECT x FROM log") ?? nil
        }
        #expect(seen == nil)
    }

    /// In the row that triggers see, SQLite converts the key as the column does that refers to it: the history
    /// has it as it was stored.
    @Test func aForeignKeyOfAnotherAffinity() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store(
            """
            CREATE TABLE parent (id TEXT PRIMARY KEY NOT NULL);
            CREATE TABLE child (parent NUMERIC PRIMARY KEY REFERENCES parent (id)) WITHOUT ROWID;
            """, folder, foreignKeys: true)
        try Tracking.track(store.path, ["parent": nil])
        try store.write { try $0.execute(sql: "INSERT INTO parent VALUES ('1'), ('a'); DELETE FROM parent") }
        #expect(
            try changes(store) == [
                "insert text(\"1\")", "insert text(\"a\")", "delete text(\"1\")", "delete text(\"a\")",
            ])
    }

    /// Stored as an integer in a column that converts nothing, where triggers see a real.
    @Test func aVirtualRealInAColumnThatConvertsNothing() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store("CREATE TABLE t (id INTEGER PRIMARY KEY, a, r REAL AS (abs(id)) VIRTUAL)", folder)
        try Tracking.track(store.path, ["t": nil])
        try store.write { db in
            try db.execute(sql: "INSERT INTO t (id, a) VALUES (1, 1.0); UPDATE t SET a = r")
            #expect(try String.fetchOne(db, sql: "SELECT typeof(a) FROM t") == "integer")
        }
        #expect(try changes(store) == ["insert integer(1)"])
    }

    /// In one that converts, the key is recorded as it is stored.
    @Test(arguments: ["", "WITHOUT ROWID"])
    func aVirtualRealInAKey(options: String) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store(
            "CREATE TABLE t (id NUMERIC PRIMARY KEY NOT NULL, r REAL AS (abs(id) + 1) VIRTUAL) \(options)",
            folder)
        try Tracking.track(store.path, ["t": nil])
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1); UPDATE t SET id = r") }
        #expect(try changes(store) == ["insert integer(1)", "delete integer(1)", "insert integer(2)"])
    }

    /// So with what another REAL column of such a table gives to an UPSERT.
    @Test func aRealBesideAVirtualColumnInAKey() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store(
            "CREATE TABLE t (a, v AS (1) VIRTUAL, r REAL, PRIMARY KEY (a, r)) WITHOUT ROWID", folder)
        try Tracking.track(store.path, ["t": nil])
        try store.write { db in
            try db.execute(
                sql: """
                    INSERT INTO t (a, r) VALUES (1, 1.0);
                    INSERT INTO t (a, r) VALUES (1.0, 1.0) ON CONFLICT DO UPDATE SET a = excluded.r
                    """)
            #expect(try String.fetchOne(db, sql: "SELECT typeof(a) FROM t") == "integer")
        }
        #expect(try changes(store) == ["insert integer(1)", "delete integer(1)", "insert integer(1)"])
    }

    /// For SQLite's own actions all rows of a table named so refer to each other.
    @Test(arguments: ["old", "t"])
    func aTableNamedOld(name: String) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store(
            "CREATE TABLE \(name) (id INTEGER PRIMARY KEY, up REFERENCES \(name) (id) ON DELETE CASCADE)",
            folder,
            foreignKeys: true)
        try Tracking.track(store.path, [BinaryText(name): nil])
        try store.write { db in
            try db.execute(
                sql: "INSERT INTO \(name) VALUES (1, NULL), (2, 2); DELETE FROM \(name) WHERE id = 1")
        }
        let gone = try changes(store).filter { $0.hasPrefix("delete") }
        #expect(
            gone.sorted()
                == (name == "old" ? ["delete integer(1)", "delete integer(2)"] : ["delete integer(1)"]))
    }

    /// All three names of the rowid are columns: the key is its only name.
    @Test func aRowidThatColumnsHide() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store("CREATE TABLE t (id INTEGER PRIMARY KEY, rowid, _rowid_, oid)", folder)
        try Tracking.track(store.path, ["t": nil])
        try store.write { db in
            try db.execute(
                sql:
                    "INSERT INTO t (id) VALUES (1), (2); REPLACE INTO t (id) VALUES (2); UPDATE OR REPLACE t SET id = 2 WHERE id = 1"
            )
        }
        #expect(
            try changes(store) == [
                "insert integer(1)", "insert integer(2)", "delete integer(2)", "insert integer(2)",
                "delete integer(2)",
                "delete integer(1)", "insert integer(2)",
            ])
    }
    /// Before 3.54 SQLite replaces by the rowid before it asks a key that has it do nothing: a row is gone,
    /// or missing from the indexes, and no trigger runs.
    @Test(arguments: [false, true], ["IGNORE", "FAIL"])
    func aRowIsReplacedByNothing(foreignKeys: Bool, rule: String) throws {
        var left: [[String]] = []
        for isTracked in [false, true] {
            let folder = try TemporaryFolder(inMemory: true)
            let store = try store(
                """
                CREATE TABLE t (id INTEGER PRIMARY KEY ON CONFLICT REPLACE, a UNIQUE ON CONFLICT \(rule), b UNIQUE);
                CREATE TABLE c (parent REFERENCES t);
                """, folder, foreignKeys: foreignKeys)
            if isTracked { try Tracking.track(store.path, ["t": nil]) }
            left.append(
                try store.writeWithoutTransaction { db in
                    try db.execute(sql: "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
                    do {
                        try db.execute(
                            sql: "INSERT INTO t VALUES (1, 2, 3) ON CONFLICT (b) DO UPDATE SET b = 9")
                        #expect(db.changesCount == 0)
                    } catch let error as DatabaseError {
                        #expect(rule == "FAIL" && error.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE)
                    }
                    let rows = try String.fetchAll(db, sql: "SELECT id FROM t NOT INDEXED ORDER BY id")
                    return try rows + String.fetchAll(db, sql: "PRAGMA integrity_check").sorted()
                })
            if isTracked { #expect(try changes(store) == ["insert integer(1)", "insert integer(2)"]) }
            let hasFault = try store.read {
                try Bool.fetchOne($0, sql: "SELECT sqlite_version() < '3.54'") ?? false
            }
            let isRight = left[0] == ["1", "2", "ok"]
            #expect(isRight != hasFault)
            if hasFault { #expect((left[0] == ["2", "ok"]) == foreignKeys) }
        }
        #expect(left[0] == left[1])
    }

    /// It hides the name by which triggers know a table's rows, until they are brought up to date.
    @Test func aColumnIsAddedByTheNameOfTheRowid() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store("CREATE TABLE t (a)", folder)
        try Tracking.track(store.path, ["t": nil])
        try store.write { db in
            try db.execute(sql: "ALTER TABLE t ADD COLUMN _rowid_; INSERT INTO t (a, _rowid_) VALUES (1, 7)")
        }
        try Tracking.refresh(store.path)
        try store.write { try $0.execute(sql: "INSERT INTO t (a, _rowid_) VALUES (2, 7)") }
        #expect(try changes(store) == ["insert integer(7)", "insert integer(2)"])
    }
    /// Before 3.54 SQLite asks once more, where triggers heard of the rows that REPLACE removed, whether a row
    /// is in the way, and finds the row itself.
    @Test(arguments: [nil, "historyd", "own"])
    func anUpdatedRowIsInItsOwnWay(triggers: String?) throws {
        let folder = try TemporaryFolder(inMemory: true)
        let store = try store(
            "CREATE TABLE t (b UNIQUE ON CONFLICT IGNORE, a); CREATE UNIQUE INDEX i ON t (a)", folder)
        if triggers == "historyd" { try Tracking.track(store.path, ["t": nil]) }
        try store.writeWithoutTransaction { db in
            if triggers == "own" {
                try db.execute(sql: "CREATE TRIGGER own AFTER DELETE ON t BEGIN SELECT 1; END")
            }
            try db.execute(sql: "PRAGMA recursive_triggers = ON; INSERT INTO t VALUES (0, 2), (1, 3)")
            let hasFault = try Bool.fetchOne(db, sql: "SELECT sqlite_version() < '3.54'") ?? false
            let update = "UPDATE OR REPLACE t SET a = 2, b = 1 WHERE rowid = 1"
            if hasFault, triggers != nil {
                #expect(throws: DatabaseError.self) { try db.execute(sql: update) }
            } else {
                try db.execute(sql: update)
            }
        }
    }

    /// SQLite reads all triggers again at each change of the schema, some of it in quadratic time.
    @Test func theTextOfTriggersGrowsAsTheKeyDoes() throws {
        let folder = try TemporaryFolder(inMemory: true)
        func length(columns: Int) throws -> Int {
            let store = try DatabaseQueue(path: folder.file("\(columns).sqlite"))
            let names = (0..<columns).map { "c\($0)" }
            let list = names.joined(separator: ", ")
            try store.write {
                try $0.execute(
                    sql: """
                        CREATE TABLE t (\(list), sum AS (c0 + 1), PRIMARY KEY (\(list)),
                            UNIQUE (sum, \(names.reversed().joined(separator: ", ")))) WITHOUT ROWID
                        """)
            }
            try Tracking.track(store.path, ["t": nil])
            return try store.read {
                try Int.fetchOne($0, sql: "SELECT sum(length(sql)) FROM sqlite_schema WHERE type = 'trigger'")
                    ?? 0
            }
        }
        let (short, long) = (try length(columns: 30), try length(columns: 120))
        #expect(short > 1000 && long < short * 6, "\(short) and \(long) characters")
    }
}
