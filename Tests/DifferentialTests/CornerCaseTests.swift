import Testing

/// Schemas and statements that recording once got wrong: history, replica, and the application's statements.
@Suite struct CornerCaseTests {
    /// SQLite converts a key, in the row that triggers see, as the column does that refers to it.
    @Test(
        arguments: [
            "id TEXT PRIMARY KEY", "id TEXT PRIMARY KEY NOT NULL", "id BLOB PRIMARY KEY", "n, id TEXT UNIQUE",
            "id TEXT PRIMARY KEY) WITHOUT ROWID --", "id PRIMARY KEY NOT NULL) WITHOUT ROWID --",
        ], ["INTEGER", "REAL", "TEXT"])
    func aForeignKeyOfAnotherAffinity(parent: String, child: String) throws {
        let values = ["'4'", "'007'", "'7'", "'a'", "4"]
        try expectNoFailure(
            [
                "CREATE TABLE p (\(parent)\n, x)".replacing("--\n, x)", with: ""),
                "CREATE TABLE c (p \(child) REFERENCES p (id) ON UPDATE CASCADE)", "CREATE INDEX i ON c (p)",
            ],
            steps(
                values.map { "INSERT OR IGNORE INTO p (id) VALUES (\($0))" } + [
                    "INSERT INTO c VALUES ('4')", "DELETE FROM p WHERE id = '007'",
                    "UPDATE p SET id = '07' WHERE id = '7'", "UPDATE p SET id = '04' WHERE id = '4'",
                    "INSERT OR REPLACE INTO p (id) VALUES ('07')", "DELETE FROM c", "DELETE FROM p",
                ]))
    }

    /// What a condition or an expression compares has the column's affinity, and NEW has none.
    @Test(
        arguments: [
            "k) WHERE deleted = '0'", "k) WHERE st = 1", "k, (deleted = '0'))",
            "k) WHERE deleted IN ('0', '2')",
            "(st = 1), k) WHERE st", "k) WHERE deleted = 0 -- none\n", "[k] /* ) */ DESC) WHERE `deleted`=0",
        ])
    func anIndexOfAnotherAffinity(index: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, k, deleted INTEGER, st TEXT)",
                "CREATE UNIQUE INDEX i ON t (\(index)",
            ],
            steps([
                "INSERT INTO t VALUES (1, 'a', 0, '1'), (2, 'b', 0, '1'), (3, 'c', 1, '0')",
                "INSERT OR REPLACE INTO t VALUES (4, 'a', 0, '1')", "REPLACE INTO t VALUES (5, 'a', '0', 1)",
                "UPDATE OR REPLACE t SET k = 'a' WHERE id = 2",
                "UPDATE OR REPLACE t SET deleted = 0, st = 1, k = 'a' WHERE id = 3", "DELETE FROM t",
            ]))
    }

    /// What is computed for recording is computed only where SQLite computes it.
    @Test(
        arguments: [
            "CREATE UNIQUE INDEX i ON t (json_extract(data, '$.a')) WHERE json_valid(data)",
            "CREATE UNIQUE INDEX i ON t (json_extract(data, '$.a'))",
            "CREATE UNIQUE INDEX i ON t (data ->> '$.a')",
            "CREATE UNIQUE INDEX i ON t (abs(n))", "CREATE UNIQUE INDEX i ON t (n) WHERE abs(n) > 1",
            "CREATE TRIGGER i BEFORE INSERT ON t WHEN NEW.n < 0 BEGIN SELECT RAISE(IGNORE); END",
        ])
    func anExpressionThatFails(index: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, data NOT NULL, n INTEGER CHECK (n <> 3), g AS (abs(n)))",
                index,
                "CREATE TRIGGER own BEFORE INSERT ON t WHEN NEW.id = 9 BEGIN SELECT RAISE(IGNORE); END",
            ],
            steps([
                "INSERT INTO t (data, n) VALUES ('{\"a\":1}', 1), ('{\"a\":2}', 2)",
                "INSERT INTO t (data, n) VALUES ('{', 4)",
                "INSERT OR IGNORE INTO t (data, n) VALUES ('{', 3), (NULL, 5)",
                "INSERT OR IGNORE INTO t (data, n) VALUES (NULL, -9223372036854775808)",
                "INSERT INTO t (id, data, n) VALUES (9, '{', 6)",
                "INSERT OR REPLACE INTO t (data, n) VALUES ('{\"a\":1}', -1)",
                "UPDATE OR REPLACE t SET data = '{\"a\":2}', n = -2 WHERE id = 3", "DELETE FROM t",
            ]))
    }

    @Test(
        arguments: [
            "DEFAULT (/* one */ 1)", "DEFAULT (1 -- one\n)", "DEFAULT [a b]", "DEFAULT `a`", "DEFAULT \"it's\"",
            "DEFAULT a", "DEFAULT x'61'", "DEFAULT (- /* ) */ 1)", "DEFAULT 'it''s' /* ' */",
            "DEFAULT (lower('A'))",
        ],
        ["lower(b) /* , ) */", "b || ',' -- )\n", "b /* DESC */ DESC", "[b]", "`b` COLLATE NOCASE DESC /**/"])
    func oddText(value: String, term: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (a NOT NULL ON CONFLICT REPLACE \(value) UNIQUE, b) -- the end",
                "CREATE UNIQUE INDEX i ON t (\(term)\n) -- the end",
            ],
            steps([
                "INSERT INTO t VALUES (NULL, 1)", "INSERT OR REPLACE INTO t VALUES (NULL, 2)",
                "INSERT OR REPLACE INTO t VALUES (7, 2)", "UPDATE OR REPLACE t SET a = NULL", "DELETE FROM t",
            ]))
    }

    /// What is replaced is written, or known, only while the statement runs.
    @Test(
        arguments: [
            [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b)",
                "CREATE TRIGGER own INSERT ON t WHEN NEW.b = 1 BEGIN INSERT OR IGNORE INTO t VALUES (NEW.id, 'x', 2), (NULL, NEW.a, 3); END",
            ],
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, a AS (id % 3) UNIQUE, b)"],
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, a DEFAULT 5, b NOT NULL DEFAULT (length('abc')) UNIQUE)"],
        ])
    func whatIsKnownTooLate(schema: [String]) throws {
        try expectNoFailure(
            schema,
            steps([
                "REPLACE INTO t (b) VALUES (7)", "REPLACE INTO t (b) VALUES (8)",
                "REPLACE INTO t (b) VALUES (9)",
                "REPLACE INTO t (b) VALUES (10)", "REPLACE INTO t (id, b) VALUES (8, 1)",
                "REPLACE INTO t (id, b) VALUES (8, 1)", "REPLACE INTO t (id, b) VALUES (20, NULL), (21, NULL)",
                "UPDATE OR REPLACE t SET id = id + 1", "UPDATE OR REPLACE t SET b = NULL WHERE id > 3",
                "DELETE FROM t WHERE id > 4",
            ]))
    }

    /// Keys are bytes.
    @Test(arguments: ["PRIMARY KEY", "PRIMARY KEY NOT NULL", "UNIQUE"], ["", ", y"])
    func textThatIsNoUTF8(key: String, more: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (x TEXT \(key)\(more))",
                "CREATE TABLE two (a, b, PRIMARY KEY (a, b)) WITHOUT ROWID",
            ],
            steps([
                "INSERT INTO t (x) VALUES (CAST(x'e9' AS TEXT)), (CAST(x'ff' AS TEXT)), ('é'), ('�')",
                "INSERT INTO two VALUES (1, CAST(x'e9' AS TEXT)), (1, CAST(x'e8' AS TEXT))",
                "UPDATE t SET x = CAST(x'e8' AS TEXT) WHERE x = CAST(x'e9' AS TEXT)",
                "REPLACE INTO t (x) VALUES (CAST(x'ff' AS TEXT))",
                "DELETE FROM t WHERE x = CAST(x'ff' AS TEXT)",
                "DELETE FROM two WHERE b = CAST(x'e9' AS TEXT)",
            ]))
    }

    @Test func zerosAndExtremes() throws {
        try expectNoFailure(
            ["CREATE TABLE t (x UNIQUE, y)", "CREATE TABLE k (x PRIMARY KEY) WITHOUT ROWID"],
            steps([
                "INSERT INTO k VALUES (0.0)", "REPLACE INTO k VALUES (-0.0)", "UPDATE k SET x = 0.0",
                "DELETE FROM k",
                "INSERT INTO t VALUES (-0.0, -9223372036854775808), (9223372036854775807, 9e999)",
                "REPLACE INTO t VALUES (0, 1), (9.2233720368547758e18, 2)", "UPDATE t SET y = -y",
            ]))
    }

    /// An integer and a real that are equal are two keys, also where a trigger may bring the old one back.
    @Test(arguments: [("ANY", "STRICT"), ("", ""), ("", "WITHOUT ROWID")])
    func aKeyOfAnotherStorageClass(type: String, options: String) throws {
        try expectNoFailure(
            [
                """
                CREATE TABLE t (a \(type) PRIMARY KEY, b \(type) REFERENCES t (a) ON UPDATE CASCADE, c \(type)) \(options)
                """,
                "CREATE TRIGGER early AFTER DELETE ON t BEGIN INSERT OR IGNORE INTO t VALUES (OLD.c, NULL, 0); END",
            ],
            steps([
                "INSERT INTO t VALUES (-9223372036854775808, NULL, 7), (1, NULL, 2)",
                "UPDATE OR REPLACE t SET a = a - 1", "UPDATE t SET a = a * 1.0",
                "UPDATE OR REPLACE t SET a = CAST(a AS INTEGER)", "DELETE FROM t WHERE a = 0",
            ]))
    }

    /// A REAL column stores an integer default as a real, which may be another number.
    @Test(arguments: ["", "WITHOUT ROWID"])
    func aGreatIntegerAsTheDefaultOfAReal(options: String) throws {
        try expectNoFailure(
            ["CREATE TABLE t (a REAL NOT NULL PRIMARY KEY DEFAULT (-9223372036854775807), b) \(options)"],
            steps([
                "INSERT OR REPLACE INTO t (b) VALUES (1)", "REPLACE INTO t VALUES (NULL, 2)",
                "UPDATE OR REPLACE t SET a = NULL, b = 3", "DELETE FROM t",
            ]))
    }

    /// A unique index on the key's own columns may still compare otherwise.
    @Test func aUniqueIndexOnTheKeyWithAnotherCollation() throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (s TEXT NOT NULL PRIMARY KEY) WITHOUT ROWID",
                "CREATE UNIQUE INDEX i ON t (CAST(s AS TEXT))", "CREATE UNIQUE INDEX j ON t (s COLLATE NOCASE)",
            ], steps(["INSERT OR REPLACE INTO t VALUES ('a'), ('A')", "UPDATE OR REPLACE t SET s = lower(s)"]))
    }

    /// An expression of an index may tell values that SQL calls equal.
    @Test(arguments: ["lower(a)) --", "a) WHERE typeof(a) = 'integer' --"])
    func aKeyThatIsEqualAndAnother(index: String) throws {
        try expectNoFailure(
            ["CREATE TABLE t (a, b)", "CREATE UNIQUE INDEX i ON t (\(index)"],
            steps([
                "INSERT INTO t VALUES (9007199254740993, 1.0), (1.0, 1.0)", "UPDATE OR REPLACE t SET a = 1",
                "INSERT INTO t VALUES (2.0, 0)", "UPDATE OR REPLACE t SET a = CAST(a AS INTEGER)",
            ]))
    }

    /// What a foreign key makes of an update, and what triggers make of that, comes before the update is recorded.
    @Test(arguments: ["CASCADE", "SET NULL"])
    func aRowThatRefersToItself(action: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (a NUMERIC UNIQUE, p NUMERIC REFERENCES t (a) ON DELETE CASCADE ON UPDATE \(action) DEFERRABLE INITIALLY DEFERRED)",
                "CREATE TRIGGER early AFTER UPDATE ON t BEGIN DELETE FROM t WHERE p = NEW.a; END",
            ],
            steps([
                "BEGIN", "INSERT INTO t VALUES (0, CAST(x'61ff' AS TEXT))", "UPDATE t SET a = x'61', p = 0",
                "COMMIT",
            ]))
        try expectNoFailure(
            [
                "CREATE TABLE t (r INTEGER UNIQUE, d VARCHAR(10), k BLOB UNIQUE, PRIMARY KEY (k, r), FOREIGN KEY (k, d) REFERENCES t (k, r) ON UPDATE \(action))"
            ],
            steps([
                "INSERT INTO t VALUES (2, '01', x'62')",
                "INSERT INTO t VALUES (3, '01', x'62') ON CONFLICT (k) DO UPDATE SET r = t.k, d = t.d + 1",
            ]))
        try expectNoFailure(
            [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, p VARCHAR(10), c, FOREIGN KEY (p) REFERENCES t (id) ON UPDATE \(action))",
                "CREATE UNIQUE INDEX i ON t (id || ',')",
            ],
            steps([
                "INSERT INTO t VALUES (2, NULL, 5), (1, NULL, 2)", "UPDATE t SET p = '1'",
                "UPDATE OR REPLACE t SET id = id + 1",
            ]))
    }
}
