import GRDB
import GRDBSQLite
import TestSupport
import Testing

@testable import PersistentHistory

/// What an application's connection must allow to use a tracked store.
@Suite(.timeLimit(.minutes(60))) struct ConnectionLimitsTests {
    private static let columns = (0..<20).map { "c\($0)" }.joined(separator: ", ")
    private static let tables = [
        "t (id INTEGER PRIMARY KEY, a, b)", "t (a, b)", "t (id INTEGER PRIMARY KEY, \(columns))",
        "t (id INTEGER PRIMARY KEY, a UNIQUE, b UNIQUE, c UNIQUE, d UNIQUE, e UNIQUE, f UNIQUE, g UNIQUE)",
        "t (a, b, c, d, x, PRIMARY KEY (a, b, c, d)) WITHOUT ROWID", "t (k TEXT PRIMARY KEY, a)",
        "t (id INTEGER PRIMARY KEY, p REFERENCES t ON DELETE CASCADE, a UNIQUE, b UNIQUE)",
        """
        t (id INTEGER PRIMARY KEY, a UNIQUE, b UNIQUE, c UNIQUE, d UNIQUE);
        CREATE UNIQUE INDEX i ON t (json_extract(a, '$.x')) WHERE json_valid(a)
        """,
        """
        t (k TEXT NOT NULL, l TEXT NOT NULL, a UNIQUE, b UNIQUE, c UNIQUE, PRIMARY KEY (k, l)) WITHOUT ROWID;
        CREATE UNIQUE INDEX i ON t (json_extract(a, '$.x')) WHERE json_valid(a)
        """,
    ]

    private func works(_ path: String, _ limits: [(Int32, Int32)]) throws -> Bool {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            for (limit, value) in limits { sqlite3_limit(db.sqliteConnection, limit, value) }
        }
        do {
            let store = try DatabaseQueue(path: path, configuration: configuration)
            try store.writeWithoutTransaction { db in
                let names = try db.columns(in: "t").map(\.name)
                let list = names.joined(separator: ", ")
                let values = names.map { _ in "'1'" }.joined(separator: ", ")
                let same = names.map { "\($0) = \($0)" }.joined(separator: ", ")
                let hasRowid = try Bool.fetchOne(db, sql: "SELECT NOT wr FROM pragma_table_list('t')") ?? false
                try db.inTransaction {
                    try db.execute(sql: "INSERT INTO t (\(list)) VALUES (\(values)); UPDATE t SET \(same)")
                    try db.execute(sql: "REPLACE INTO t (\(list)) SELECT \(list) FROM t")
                    if hasRowid { try db.execute(sql: "UPDATE t SET rowid = rowid") }
                    try db.execute(sql: "DELETE FROM t")
                    return .rollback
                }
            }
            return true
        } catch let error as DatabaseError where [.SQLITE_ERROR, .SQLITE_CORRUPT].contains(error.resultCode) {
            return false
        }
    }

    @Test("What is said to be needed is enough, and less is not", arguments: tables)
    func needed(table: String) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let store = try DatabaseQueue(path: path)
        try store.write { try $0.execute(sql: "CREATE TABLE \(table)") }
        try Tracking.track(path, ["t": nil])
        let needed = try ConnectionLimits(neededBy: path)
        let depth = needed.expressionDepth
        #expect(
            try works(
                path, [(SQLITE_LIMIT_EXPR_DEPTH, depth), (SQLITE_LIMIT_COMPOUND_SELECT, needed.compoundTerms)]))
        if depth > ConnectionLimits.recommended.expressionDepth {
            #expect(try !works(path, [(SQLITE_LIMIT_EXPR_DEPTH, depth - 1)]))
            #expect(needed.note?.contains("SQLITE_LIMIT_EXPR_DEPTH \(depth)") == true)
        }
        // More unique indexes need no more terms than SQLite recommends, and so do its other limits.
        #expect(needed.compoundTerms == 3)
        #expect(
            try works(
                path,
                [
                    (SQLITE_LIMIT_COMPOUND_SELECT, 3), (SQLITE_LIMIT_LENGTH, 1_000_000),
                    (SQLITE_LIMIT_SQL_LENGTH, 100_000), (SQLITE_LIMIT_COLUMN, 100),
                    (SQLITE_LIMIT_VDBE_OP, 25_000),
                    (SQLITE_LIMIT_FUNCTION_ARG, 8), (SQLITE_LIMIT_ATTACHED, 0),
                    (SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50), (SQLITE_LIMIT_VARIABLE_NUMBER, 10),
                    (SQLITE_LIMIT_TRIGGER_DEPTH, 10),
                ]))
    }

    @Test("The widest table that SQLite allows needs no deeper expressions than others")
    func wide() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let columns = (0..<1990).map { "c\($0)" }.joined(separator: ", ")
        let store = try DatabaseQueue(path: path)
        try store.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, \(columns))") }
        try Tracking.track(path, ["t": nil])
        #expect(try ConnectionLimits(neededBy: path).expressionDepth <= 30)
    }

    @Test(
        "Several preserved values need twice their size, a single one its own", arguments: [["a"], ["a", "b"]])
    func length(preserved: [String]) throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let size = 100_000
        let store = try DatabaseQueue(path: path)
        try store.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)") }
        try Tracking.track(path, ["t": preserved])
        let isDoubled = preserved.count > 1
        #expect(try ConnectionLimits(neededBy: path).note?.contains("SQLITE_LIMIT_LENGTH") == isDoubled)
        for (a, b) in [("printf('%.*c', \(size), 'x')", "zeroblob(\(size))"), ("zeroblob(\(size))", "'x'")] {
            try store.write { try $0.execute(sql: "INSERT INTO t (a, b) VALUES (\(a), \(b))") }
        }
        func delete(_ id: Int, length: Int) throws {
            try store.inDatabase { db in
                sqlite3_limit(db.sqliteConnection, SQLITE_LIMIT_LENGTH, Int32(length))
                try db.execute(sql: "DELETE FROM t WHERE id = ?", arguments: [id])
            }
        }
        if isDoubled {
            #expect(throws: DatabaseError.self) { try delete(1, length: 4 * size - 100) }
            #expect(throws: DatabaseError.self) { try delete(2, length: 2 * size - 100) }
        }
        // The row itself must fit as well.
        try delete(1, length: (isDoubled ? 4 : 2) * size + 100)
        try delete(2, length: (isDoubled ? 2 : 1) * size + 100)
    }

    @Test("A table that this SQLite cannot compute is left out by the daemon, and named otherwise")
    func expressionOfANewerSQLite() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let store = try DatabaseQueue(path: path)
        try store.writeWithoutTransaction { db in
            // What a newer SQLite reads as JSON stands for what no SQLite does: the row came before the index was unique.
            try db.execute(
                sql: """
                    CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (id INTEGER PRIMARY KEY);
                    CREATE UNIQUE INDEX i ON t (json_extract(a, '$.x'));
                    INSERT INTO t VALUES (1, '{"x": 1}');
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_schema SET sql = 'CREATE UNIQUE INDEX i ON t (json_extract(a, ''x''))' WHERE name = 'i';
                    PRAGMA writable_schema = RESET
                    """)
        }
        let error = try #require(throws: HistoryError.self) { try Tracking.track(path, ["t": nil, "u": nil]) }
        #expect(error.code == .notAnEntity)
        #expect("\(error)".contains("SQLite \(SuspectedDamage.version(SuspectedDamage.own))"))
        let outcome = try Tracking.bringUpToDate(
            path, ["t": nil, "u": nil], leavesOutUnfit: true, timeout: .seconds(5)
        ).outcome
        #expect(outcome.added == ["u"])
        #expect(Array(outcome.unfit.keys) == ["t"])
        #expect(try Tracking.refresh(path).isEmpty)
    }

    @Test("A table without a name is none of the entities")
    func namelessTable() throws {
        let folder = try TemporaryFolder()
        let path = folder.file("s.sqlite")
        let store = try DatabaseQueue(path: path)
        try store.write {
            try $0.execute(sql: "CREATE TABLE \"\" (id INTEGER PRIMARY KEY); CREATE TABLE t (a)")
        }
        #expect(throws: HistoryError.self) { try Tracking.track(path, ["": nil]) }
        #expect(try Tracking.track(path, [:], all: true).added == ["t"])
        #expect(try Array(Tracking.track(path, [:], all: true).unfit.keys) == [""])
    }
}
