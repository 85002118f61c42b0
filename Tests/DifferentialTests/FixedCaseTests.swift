import TestSupport
import Testing

/// Cases that random ones led to, or that they would seldom make: each must hold under all settings.
@Suite struct FixedCaseTests {
    /// What an INSERT noted of rows in its way, and left there, when it came to nothing or became an update.
    @Test(arguments: [
        "INSERT INTO t VALUES (1, 7, 2, 0) ON CONFLICT (b) DO NOTHING",
        "INSERT INTO t VALUES (1, 7, 2, 0) ON CONFLICT (b) DO UPDATE SET c = 9",
        "INSERT INTO t VALUES (1, 7, 2, 0) ON CONFLICT (b) DO UPDATE SET c = 9 WHERE 0",
        "INSERT INTO t VALUES (1, 2, 3, 0) ON CONFLICT (b) DO UPDATE SET b = 7, id = 8",
        "INSERT INTO t VALUES (1, 7, 2, 0) ON CONFLICT (b) DO UPDATE SET id = 1",
        "INSERT INTO t VALUES (9, 1, 2, 0) ON CONFLICT (id) DO NOTHING ON CONFLICT (b) DO UPDATE SET id = 8",
        "INSERT INTO t VALUES (1, 7, 2, 0), (2, 3, 8, 0), (4, 4, 3, 0) ON CONFLICT (b) DO UPDATE SET c = id",
        "INSERT INTO t VALUES (1, 7, 7, 0), (3, 2, 1, 0), (1, 3, 9, 0) ON CONFLICT (b) DO UPDATE SET b = -b",
        "INSERT OR IGNORE INTO t VALUES (1, 2, 3, 0), (1, 2, 9, 0)",
        "INSERT OR REPLACE INTO t VALUES (1, 2, 3, 0) ON CONFLICT (b) DO UPDATE SET a = 7",
        "INSERT OR FAIL INTO t VALUES (7, 7, 7, 0), (1, 2, 3, 0)",
        "UPDATE OR REPLACE t SET id = 4 - id",
        "UPDATE OR REPLACE t SET a = 4 - a, b = b % 3 + 1",
        "UPDATE OR IGNORE t SET id = 2, a = 3",
        "UPDATE OR REPLACE t SET id = id + 1, a = 2 WHERE b < 3",
    ])
    func rowsInTheWay(statement: String) throws {
        let rows = "INSERT INTO t VALUES (1, 1, 1, 0), (2, 2, 2, 0), (3, 3, 3, 0)"
        for key in ["id INTEGER PRIMARY KEY", "id INT PRIMARY KEY NOT NULL", "id TEXT PRIMARY KEY"] {
            for rule in ["", " ON CONFLICT REPLACE"] {
                for options in key.contains("INT PRIMARY") ? ["", " WITHOUT ROWID"] : [""] {
                    // Each statement twice, with what makes all notes that are left be looked at.
                    try expectNoFailure(
                        [
                            key.contains("INT PRIMARY") && options.isEmpty
                                ? "CREATE TABLE c (p REFERENCES t ON DELETE CASCADE ON UPDATE SET NULL)"
                                : "CREATE TABLE c (p REFERENCES t)",
                            "CREATE TABLE t (\(key)\(rule), a UNIQUE\(rule), b UNIQUE, c)\(options)",
                        ],
                        steps([
                            rows, "INSERT INTO c SELECT id FROM t WHERE id > 1", statement,
                            "INSERT OR REPLACE INTO t VALUES (5, 2, 2, 0)", statement,
                            "UPDATE OR REPLACE t SET id = 5, a = 1 WHERE id = 1", "DELETE FROM t WHERE a > 1",
                            rows.replacing("INSERT", with: "INSERT OR IGNORE"), statement,
                        ]))
                }
            }
        }
    }

    /// What an INSERT noted that came to nothing is of a row, wherever that one has moved to since.
    @Test(arguments: ["TEXT PRIMARY KEY NOT NULL", "INT UNIQUE NOT NULL"])
    func aNotedRowMoves(key: String) throws {
        try expectNoFailure(
            ["CREATE TABLE t (id \(key), p REFERENCES t (id) ON DELETE CASCADE)"],
            steps([
                "INSERT INTO t VALUES (1, 1), (2, 1)", "INSERT INTO t VALUES (1, 2) ON CONFLICT DO NOTHING",
                "INSERT OR IGNORE INTO t VALUES (2, 2)", "UPDATE t SET rowid = rowid + 7",
                "REPLACE INTO t VALUES (3, 3)", "UPDATE OR REPLACE t SET rowid = rowid + 1",
                "REPLACE INTO t VALUES (4, 3), (3, 4)",
            ]))
    }

    /// The least integer and the real of its value are equal, and two keys to who compares bytes.
    @Test(arguments: ["DATE", "INT"], ["", "WITHOUT ROWID"])
    func theLeastKeyBecomesReal(type: String, options: String) throws {
        try expectNoFailure(
            ["CREATE TABLE t (id \(type) PRIMARY KEY, n REAL) \(options)"],
            [
                .sql(.plain, SQL("BEGIN")), .sql(.plain, SQL("INSERT INTO t VALUES (-1, 2.5)")),
                .sql(.second, SQL("DELETE FROM t")),
                .sql(.plain, SQL("UPDATE t SET id = -9223372036854775808")),
                .sql(.plain, SQL("UPDATE t SET id = id - 1")), .sql(.plain, SQL("COMMIT")),
            ], followed: true, preservesEvery: 0)
    }

    /// The foreign key's action on the row that refers to itself is recorded before the row's new key.
    @Test(arguments: ["", "WITHOUT ROWID"], ["CASCADE", "SET NULL"])
    func theKeyOfARowThatRefersToItselfChanges(options: String, action: String) throws {
        try expectNoFailure(
            ["CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, up REFERENCES t ON UPDATE \(action)) \(options)"],
            steps([
                "INSERT INTO t VALUES ('a', 'a'), ('b', 'a')", "UPDATE t SET id = 'c' WHERE id = 'a'",
                "UPDATE t SET id = id || 'd', up = id || 'd'", "DELETE FROM t WHERE up = id", "DELETE FROM t",
            ]), followed: true)
    }

    /// A column takes a name of the rowid from it before tracking is brought up to date.
    @Test(arguments: ["", "id INTEGER PRIMARY KEY, ", "id TEXT PRIMARY KEY, "], ["rowid", "oid"])
    func aColumnHidesTheRowid(key: String, name: String) throws {
        let writes: [Case.Step] = steps([
            "INSERT INTO t (a, \(name)) VALUES (3, 2), (4, 1)", "UPDATE t SET \(name) = 7 WHERE a = 3",
            "UPDATE OR REPLACE t SET a = 4, \(name) = 1 WHERE a = 3", "DELETE FROM t WHERE \(name) = 1",
            "REPLACE INTO t (a, \(name)) VALUES (1, 2), (5, 5)",
        ])
        let added = Case.Step.alter(.addColumn(table: "t", column: name, definition: "DEFAULT 2"))
        let renamed = Case.Step.alter(.renameColumn(table: "t", from: "b", to: name))
        for alteration in [added, renamed] {
            try expectNoFailure(
                ["CREATE TABLE t (\(key)a UNIQUE, b)"],
                steps(["INSERT INTO t (a, b) VALUES (1, 1), (2, 2)"]) + [alteration] + writes + [.refresh]
                    + writes)
        }
    }

    /// A statement that another's lock keeps from being compiled leaves `changes()` as it was.
    @Test func aLockKeepsAStatementFromTheSchema() throws {
        try expectNoFailure(
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, a)"],
            [
                // It cannot be dropped, which has the schema forgotten.
                .sql(.plain, SQL("INSERT INTO t VALUES (1, 1)")),
                .alter(.dropColumn(table: "t", column: "id")), .sql(.second, SQL("BEGIN EXCLUSIVE")),
                .sql(.plain, SQL("UPDATE t SET a = 2")),
                .sql(.plain, SQL("BEGIN")), .sql(.plain, SQL("ROLLBACK")), .sql(.second, SQL("COMMIT")),
                .sql(.plain, SQL("UPDATE t SET a = 2")),
            ])
    }

    /// Without triggers an INSERT of one row overlooks a foreign key to it that refers to no key.
    @Test func aForeignKeyRefersToNoKey() throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (id INTEGER PRIMARY KEY)",
                "CREATE TABLE c (p REFERENCES t (id) ON DELETE CASCADE)",
            ],
            [.alter(.renameColumn(table: "t", from: "id", to: "key"))]
                + [.alter(.makeAnew(table: "t", create: "CREATE TABLE t (id INTEGER PRIMARY KEY)"))]
                + steps(["INSERT INTO t VALUES (4)"]))
        // Where the row's own foreign key is violated, that is what is reported without triggers.
        try expectNoFailure(
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, p REFERENCES t (id))", "CREATE TABLE c (p)"],
            [.alter(.renameColumn(table: "t", from: "id", to: "key"))]
                + [.alter(.makeAnew(table: "c", create: "CREATE TABLE c (p REFERENCES t (id))"))]
                + steps(["INSERT INTO t VALUES (4, 5)"]))
    }
    /// With any INSERT trigger SQLite reports the foreign key where a FAIL ends the statement.
    @Test func aForeignKeyGoesBeforeAFailure() throws {
        try expectNoFailure(
            [
                "CREATE TABLE c (b INTEGER PRIMARY KEY ON CONFLICT FAIL, r UNIQUE ON CONFLICT FAIL, FOREIGN KEY (r) REFERENCES c (b))",
                "CREATE TRIGGER e BEFORE INSERT ON c BEGIN INSERT OR IGNORE INTO c VALUES (NEW.b, NEW.r); END",
            ], steps(["INSERT INTO c VALUES (2, 3)"]))
    }
    /// An UPSERT overlooks that a row refers to no key of its own table. With triggers, the row that makes that key
    /// may then refer to none itself: SQLite counts the one against the other.
    @Test func aRowThatRefersToNoKeyIsReferredTo() throws {
        try expectNoFailure(
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, p INTEGER REFERENCES t (id) ON DELETE SET NULL)"],
            steps([
                "INSERT INTO t VALUES (2, 3) ON CONFLICT (id) DO UPDATE SET p = NULL",
                "INSERT INTO t VALUES (NULL, 5)",
            ]))
    }
    /// Without triggers an UPDATE of all rows may find them by an index, where that has all it asks for.
    @Test func anIndexGivesTheOrder() throws {
        try expectNoFailure(
            [
                """
                CREATE TABLE t (a NOT NULL UNIQUE ON CONFLICT REPLACE, b UNIQUE, c UNIQUE ON CONFLICT REPLACE,
                id TEXT PRIMARY KEY) WITHOUT ROWID
                """
            ],
            steps(["INSERT INTO t VALUES ('x', 1, 3, 'b'), (3, 2, 4, 'a')", "UPDATE OR IGNORE t SET c = a"]))
    }
    /// With recursive triggers SQLite may find an updated row in its own way, where a later one is an error.
    @Test func anUpdatedRowIsInItsOwnWay() throws {
        try expectNoFailure(
            ["CREATE TABLE t (b NOT NULL UNIQUE ON CONFLICT IGNORE, a, c)", "CREATE UNIQUE INDEX i ON t (a)"],
            steps([
                "INSERT INTO t VALUES ('', 2, 1), (4, 90, NULL), (1, 3, 2.5)",
                "UPDATE OR REPLACE t SET a = 2, b = c",
            ]))
        try expectNoFailure(
            ["CREATE TABLE t (a, b, c, g AS (a || 'x') STORED UNIQUE, PRIMARY KEY (c, b))"],
            steps([
                "INSERT INTO t (a, b, c) VALUES (0, 5, 7), (1, 6, 8)",
                "UPDATE OR REPLACE t SET a = a + 1, b = b WHERE a = 0",
            ]))
    }
    /// With recursive triggers and any DELETE trigger, SQLite refuses that a foreign key's action on a replaced row
    /// writes to the table while an UPDATE is in it.
    @Test(arguments: ["CASCADE", "SET NULL", "SET DEFAULT"])
    func aReplacedRowIsReferredTo(action: String) throws {
        try expectNoFailure(
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, p UNIQUE REFERENCES t (id) ON DELETE \(action))"],
            steps(["INSERT INTO t VALUES (1, 2), (2, 1)", "UPDATE OR REPLACE t SET p = id"]))
    }
    /// An updated row goes with the one that it was to replace: no trigger runs for its update.
    @Test(arguments: [
        "id INTEGER PRIMARY KEY", "id TEXT PRIMARY KEY NOT NULL", "id TEXT PRIMARY KEY, WITHOUT ROWID",
    ])
    func anUpdatedRowGoesWithTheReplacedOne(key: String) throws {
        let definition = key.replacing(", WITHOUT ROWID", with: "")
        let options = key == definition ? "" : " WITHOUT ROWID"
        for more in ["", ", g AS (abs(d)) UNIQUE"] {
            try expectNoFailure(
                [
                    "CREATE TABLE t (\(definition), d, p REFERENCES t (id) ON DELETE CASCADE\(more))\(options)",
                    "CREATE UNIQUE INDEX i ON t (abs(d))",
                ],
                steps([
                    "INSERT INTO t (id, d) VALUES ('1', 1), ('2', 2), ('3', 3), ('4', 4), ('5', 5)",
                    "UPDATE t SET p = '2' WHERE d = 1", "UPDATE t SET p = '1' WHERE d = 3",
                    "UPDATE OR REPLACE t SET d = -2 WHERE d = 3",
                    "UPDATE OR IGNORE t SET d = 4 WHERE d = 5", "UPDATE t SET p = '4' WHERE d = 5",
                    "UPDATE OR REPLACE t SET d = -4", "INSERT INTO t (id, d) VALUES ('6', 1), ('7', 2)",
                    "UPDATE OR REPLACE t SET id = '6'", "DELETE FROM t",
                ]))
        }
        try expectNoFailure(
            [
                "CREATE TABLE t (\(definition) ON CONFLICT REPLACE, p DEFAULT '1' REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE)\(options)"
                    .replacing(" NOT NULL ON", with: " ON"),
                "CREATE TRIGGER own BEFORE INSERT ON t WHEN NEW.p IS NOT 2 BEGIN INSERT OR REPLACE INTO t VALUES (0, NEW.p); END",
            ],
            steps([
                "INSERT INTO t (id) VALUES ('1')", "INSERT INTO t (id) VALUES ('5')", "UPDATE t SET id = '2'",
                "INSERT INTO t (id) VALUES ('2'), ('3')", "DELETE FROM t",
            ]))
    }
    /// The same by a trigger of the application on a table whose row goes with the replaced one.
    @Test(
        arguments: ["k", "abs(k)"],
        ["DELETE FROM t WHERE id = OLD.other", "REPLACE INTO [T] VALUES (OLD.other, 7)"])
    func aTriggerTakesTheUpdatedRow(term: String, action: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (id INTEGER PRIMARY KEY, k)", "CREATE UNIQUE INDEX i ON t (\(term))",
                "CREATE TABLE u (t REFERENCES t (id) ON DELETE CASCADE, other)",
                "CREATE TRIGGER own AFTER DELETE ON u BEGIN \(action); END",
            ],
            steps([
                "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO u VALUES (2, 1)",
                "UPDATE OR REPLACE t SET k = 2 WHERE id = 1", "DELETE FROM t",
            ]))
    }
    /// SQLite keeps a change, and runs no trigger for it, where RAISE(FAIL) ends what a foreign key does with it.
    @Test(
        arguments: ["BEFORE", "AFTER"],
        ["id INTEGER PRIMARY KEY", "id TEXT PRIMARY KEY NOT NULL", "id TEXT UNIQUE, d AS (abs(id)) UNIQUE"])
    func aForeignKeysActionFails(time: String, key: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (\(key), k UNIQUE)",
                "CREATE TABLE u (t REFERENCES t (id) ON DELETE CASCADE ON UPDATE CASCADE, n)",
                "CREATE TRIGGER x \(time) UPDATE ON u BEGIN SELECT RAISE(FAIL, 'no') WHERE OLD.n > 0; END",
                "CREATE TRIGGER y \(time) DELETE ON u BEGIN SELECT RAISE(FAIL, 'no') WHERE OLD.n > 1; END",
            ],
            steps([
                "INSERT INTO t (id, k) VALUES ('1', 1), ('2', 2), ('3', 3), ('4', 4)",
                "INSERT INTO u VALUES ('1', 1), ('2', 2), ('3', 0)",
                "UPDATE t SET id = '7' WHERE id = '3'", "UPDATE t SET id = '8' WHERE id = '1'",
                "DELETE FROM t WHERE id IN ('2', '4')", "UPDATE OR REPLACE t SET k = 1 WHERE k = 3",
                "INSERT OR REPLACE INTO t (id, k) VALUES ('9', 1), ('8', 7)",
            ]))
    }
    /// What a trigger does amid a foreign key's action is recorded before the change that led to the action.
    @Test(arguments: ["INTEGER PRIMARY KEY", "TEXT PRIMARY KEY NOT NULL"], ["t", "u"])
    func aDeletedRowReturns(key: String, child: String) throws {
        let trigger = SQL(
            "CREATE TRIGGER own AFTER UPDATE ON \(child) BEGIN INSERT OR IGNORE INTO t VALUES ('1', NULL); END")
        try expectNoFailure(
            [
                "CREATE TABLE t (id \(key), p REFERENCES t (id) ON DELETE SET NULL ON UPDATE SET NULL)",
                "CREATE TABLE u (id, p REFERENCES t (id) ON DELETE SET NULL ON UPDATE SET NULL)", trigger.text,
            ],
            steps([
                "INSERT INTO t VALUES ('1', NULL), ('2', '1')", "INSERT INTO u VALUES ('1', NULL), ('2', '1')",
                "DELETE FROM t WHERE id = '1'", "UPDATE \(child) SET p = '1' WHERE id = '2'",
                "UPDATE t SET id = '5' WHERE id = '1'", "DELETE FROM t WHERE id = '1'",
            ]))
    }
    /// A row that only gets another rowid is found at its old key again, and has not returned.
    @Test(arguments: ["PRIMARY KEY", "TEXT PRIMARY KEY", "UNIQUE, d"], ["", "id = id || '', "])
    func aRowGetsAnotherRowid(key: String, more: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (id \(key), p REFERENCES t (id) ON UPDATE SET NULL ON DELETE SET NULL)",
                "CREATE TRIGGER own AFTER UPDATE OF p ON t BEGIN INSERT OR IGNORE INTO t (p) VALUES (7); END",
            ],
            steps([
                "INSERT INTO t (id, p) VALUES (4, NULL)", "UPDATE t SET \(more)rowid = rowid + 10",
                "INSERT INTO t (id, p) VALUES ('5', '4'), (6, NULL)",
                "UPDATE OR REPLACE t SET \(more)rowid = rowid + 1",
                "UPDATE t SET id = id + 1, rowid = rowid - 20", "DELETE FROM t",
            ]))
    }
    /// A replica has no rowids beside keys: after one has changed, which is not recorded, another row may come to have it.
    @Test(arguments: [
        "a TEXT PRIMARY KEY NOT NULL", "a NOT NULL, b, PRIMARY KEY (a)", "a INT NOT NULL PRIMARY KEY DESC",
    ])
    func aRowidBesideAKeyChanges(key: String) throws {
        try expectNoFailure(
            ["CREATE TABLE t (\(key))"],
            steps([
                "INSERT INTO t (a) VALUES (1)", "UPDATE t SET rowid = rowid - 1",
                "INSERT INTO t (a) VALUES (2)",
            ]),
            followed: true)
    }
    /// Names and keys that have the same canonical form are different to SQLite.
    @Test func equivalentTextsAreDifferent() throws {
        for (one, two) in [("\u{e9}", "e\u{301}"), ("e\u{301}", "\u{e9}")] {
            let tables = [one, two].map {
                "CREATE TABLE \($0) (\(one) TEXT PRIMARY KEY NOT NULL, \(two) UNIQUE, x\(one) AS (x\(two)), x\(two))"
            }
            try expectNoFailure(
                tables,
                steps([
                    "INSERT INTO \(one) (\(one), \(two)) VALUES ('\(one)', 1), ('\(two)', 2)",
                    "INSERT INTO \(two) (\(one), \(two)) VALUES ('\(one)', 1), ('\(two)', 2)",
                    "UPDATE \(two) SET \(one) = '\(two)x' WHERE \(one) = '\(two)'",
                    "UPDATE OR REPLACE \(one) SET \(two) = '\(two)', x\(two) = 1",
                    "REPLACE INTO \(one) (\(one), \(two)) VALUES ('\(one)', '\(one)')",
                ]) + [.declare(.first, author: one, context: two)]
                    + steps(["BEGIN", "DELETE FROM \(one) WHERE \(one) = '\(one)'"])
                    + steps(["INSERT INTO \(one) (\(one)) VALUES ('\(two)')", "COMMIT"])
                    + [.declare(.first, author: two, context: one)]
                    + steps(["BEGIN", "INSERT INTO \(one) (\(one)) VALUES ('p'), ('q')"])
                    + steps(["INSERT INTO \(two) (\(one)) VALUES ('q'), ('p')", "COMMIT"])
                    + steps(["DELETE FROM \(two)"])
                    + [.alter(.renameColumn(table: one, from: two, to: "z")), .refresh]
                    + [.alter(.renameColumn(table: one, from: one, to: two)), .refresh]
                    + steps(["INSERT INTO \(one) (\(two), z) VALUES ('\(one)', 7)"]),
                followed: true)
        }
    }
    /// The changed columns of a wide table come first, and then whether there are any.
    @Test(arguments: ["", "INTEGER", "TEXT"], ["", "REFERENCES t ON UPDATE SET NULL"])
    func aWideTableChanges(type: String, reference: String) throws {
        let columns = (0..<130).map { "c\($0) \(type)" }.joined(separator: ", ")
        try expectNoFailure(
            ["CREATE TABLE t (id INTEGER PRIMARY KEY, up \(reference), \(columns))"],
            steps([
                "INSERT INTO t (id, up, c0, c59, c60, c61, c129) VALUES (1, NULL, 1, 'a', x'61', 2.5, 0)",
                "INSERT INTO t (id, up, c0) VALUES (2, 1, 1.0)",
                "UPDATE t SET c0 = c0, c129 = 0 WHERE id = 1",
                "UPDATE t SET c0 = 1.0", "UPDATE t SET c0 = 1",
                "UPDATE t SET c59 = 'A', c60 = 'a', c122 = NULL",
                "UPDATE t SET c60 = 'a', c61 = 2.5", "UPDATE t SET c123 = 9e999, c124 = -0.0, c129 = ''",
                "UPDATE t SET c123 = 9e999, c124 = 0, c129 = x''", "UPDATE t SET id = id + 10, c5 = 1",
            ]) + [.alter(.addColumn(table: "t", column: "late", definition: type))]
                + steps(["UPDATE t SET late = 1", "UPDATE t SET late = 1", "UPDATE t SET c7 = 1"]) + [.refresh]
                + steps(["UPDATE t SET late = 1.0, c129 = 3"])
                + [.alter(.renameColumn(table: "t", from: "c64", to: "other"))]
                + steps(["UPDATE t SET other = 1", "UPDATE t SET c129 = 4", "DELETE FROM t"]),
            followed: true)
    }

    /// The bytes of a blob are another text in UTF-16: 'a' and x'61' are the same to an index in UTF-8 alone.
    @Test(arguments: ["(lower(a))", "(lower(a)) WHERE a > '1'", "(g)"])
    func textOfBlobsInUTF16(index: String) throws {
        try expectNoFailure(
            [
                "CREATE TABLE t (a NUMERIC PRIMARY KEY, g AS (a || 'x') STORED)",
                "CREATE UNIQUE INDEX i ON t \(index)",
            ],
            steps([
                "INSERT INTO t (a) VALUES ('a')", "INSERT INTO t (a) VALUES (x'61')",
                "INSERT OR REPLACE INTO t (a) VALUES (x'62'), (x'6100'), ('b')",
                "UPDATE t SET a = x'6200' WHERE a = 'b'", "DELETE FROM t WHERE a = x'62'",
            ]), isUTF16: true)
    }
    /// Nobody can read a table with such a column.
    @Test func noColumnIsComputedOfItself() {
        let columns = ["a", "OID", "rowid"].map {
            TableModel.Column(name: $0, type: "", isGenerated: false, isPicky: false)
        }
        let table = TableModel(name: "t", columns: columns)
        for seed in 1...500 {
            var generator = AlterationGenerator(
                dice: Dice(UInt64(seed)), tables: [table], schema: [SQL("CREATE TABLE t (a, OID, rowid)")])
            for _ in 1...10 {
                guard case .addColumn(_, let name, let definition) = generator.next() else { continue }
                #expect(!definition.contains(SQL.quoted(name)), "\(seed)")
            }
        }
    }
}
