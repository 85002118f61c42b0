import Testing

@testable import PersistentHistory

/// SQL is taken apart as SQLite's tokenizer does it.
@Suite struct SQLTokensTests {
    @Test(
        arguments: [
            ("a--b\nc/*d*/e", ["a", "c", "e"]),
            ("'it''s' \"q\"\"t\" `b``t` [a'b]", ["'it''s'", "\"q\"\"t\"", "`b``t`", "[a'b]"]),
            ("x'0F'X'' xs 'x'", ["x'0F'", "X''", "xs", "'x'"]),
            ("1.5e-3+.5-0x1E+2", ["1.5e-3", "+", ".5", "-", "0x1E", "+", "2"]),
            ("a->>'$.b'->c||d<>e", ["a", "->>", "'$.b'", "->", "c", "||", "d", "<>", "e"]),
            ("?1 :name @x $y", ["?1", ":name", "@x", "$y"]),
            ("été$1(x)", ["été$1", "(", "x", ")"]),
            ("a /* never closed", ["a"]), ("'never closed", ["'never closed"]), ("", []), ("-- only", []),
        ] as [(String, [String])])
    func areRead(sql: String, texts: [String]) { #expect(SQLTokens.tokens(sql).map(\.text) == texts) }

    @Test func quotesAreTakenAway() {
        #expect(
            SQLTokens.tokens("'it''s' \"q\"\"t\" `b``t` [a b] c").map(\.unquoted) == [
                "it's", "q\"t", "b`t", "a b", "c",
            ])
    }

    @Test(
        arguments: [
            ("abc", "('abc')", true), ("\"it's\"", "('it''s')", true), ("[a b]", "('a b')", true),
            ("`x`", "('x')", true), ("NULL", "(NULL)", true), ("-1", "(- 1)", true),
            ("1 /* one */ + 2 -- three", "(1 + 2)", true), ("CURRENT_TIMESTAMP", "(CURRENT_TIMESTAMP)", true),
            ("random()", "(random ( ))", false), ("datetime('now')", "(datetime ( 'now' ))", false),
        ])
    func aDefaultIsRead(text: String, sql: String, isConstant: Bool) {
        let value = ColumnDefault(text)
        #expect(value.sql == sql)
        #expect(value.isConstant == isConstant)
    }

    @Test(
        arguments: [
            ("lower(a)", true), ("a || ','", true), ("n + 1", true), ("a IS NOT NULL", true), ("n = 0", true),
            ("a = 'x'", true), ("typeof(n) = 'text'", true), ("b = 1 OR b = 'x'", true), ("n <> 'where'", true),
            ("lower(a) COLLATE NOCASE", true), ("typeof(lower(a))", true), ("typeof(abs(n))", false),
            ("typeof(mine(a))", false), ("typeof(g)", false), ("typeof(a) = typeof(abs(n))", false),
            ("a IN ('x', 'y')", true),
            ("a = 1", false), ("n = '0'", false), ("a = n", false), ("b = n", false), ("abs(n)", false),
            ("json_extract(a, '$.x')", false), ("a ->> '$.x'", false), ("g = 1", false), ("mine(a)", false),
            ("length(a) = a", false), ("a LIKE 'x%'", false), ("CASE n WHEN '1' THEN 2 END", false),
        ])
    func anExpressionIsForeseeable(sql: String, expected: Bool) {
        let columns: [BinaryText: ColumnAffinity] = ["a": .text, "n": .integer, "b": .blob]
        #expect(ForeseeableExpression.isForeseeable(SQLTokens.tokens(sql), of: columns) == expected)
    }

    @Test(
        arguments: [
            ("CREATE TRIGGER x BEFORE INSERT ON t BEGIN INSERT INTO t VALUES (1); END", true),
            ("CREATE TRIGGER x INSERT ON t BEGIN SELECT 1; DELETE FROM u; END", true),
            (
                "CREATE TRIGGER x /* AFTER */ BEFORE UPDATE ON t BEGIN SELECT RAISE(ABORT, '; DELETE'); END",
                false
            ),
            ("CREATE TRIGGER before AFTER INSERT ON t BEGIN DELETE FROM t; END", false),
        ])
    func aTriggerWritesBefore(sql: String, expected: Bool) {
        #expect(TriggerDefinition(sql).writesBefore == expected)
    }

    @Test(
        arguments: [
            (
                "CREATE TRIGGER x DELETE ON t BEGIN DELETE FROM [U]; DELETE /**/ FROM \"a b\" WHERE 1; END",
                ["u", "a b"]
            ),
            ("CREATE TRIGGER x AFTER DELETE ON t BEGIN INSERT OR IGNORE INTO u VALUES (1); END", ["u"]),
            (
                "CREATE TRIGGER x AFTER DELETE ON t BEGIN UPDATE OR REPLACE u SET a = 1; UPDATE v SET a = 1; END",
                ["u"]
            ),
            ("CREATE TRIGGER x AFTER DELETE ON t BEGIN SELECT 'DELETE FROM u'; END", []),
        ])
    func aTriggerRemovesFrom(sql: String, expected: [String]) {
        #expect(TriggerDefinition(sql).removesFrom == Set(names: expected))
    }

    @Test(arguments: [
        ("", []), (" ;; -- x\n /* ; BEGIN */ ;", []), ("select 1", ["SELECT"]),
        ("SELECT 1; begin;Commit", ["SELECT", "BEGIN", "COMMIT"]),
        ("SELECT '; BEGIN', \"; BEGIN\", [; BEGIN], `; BEGIN`; END", ["SELECT", "END"]),
        ("SELECT 'it''s; BEGIN'; END", ["SELECT", "END"]),
        ("SELECT 1 -- ; BEGIN\n, 2; END", ["SELECT", "END"]), ("SELECT 'open; BEGIN", ["SELECT"]),
        ("SELECT 1 /* open; BEGIN", ["SELECT"]),
        ("'BEGIN'; BEGIN", ["BEGIN"]), ("é BEGIN; 1 BEGIN; END", ["é", "END"]),
        ("SELECT 1 - 1 / 2; END", ["SELECT", "END"]),
        ("BEGIN;", ["BEGIN"]), ("/**/BEGIN/**/IMMEDIATE", ["BEGIN"]), ("begin--x", ["BEGIN"]),
    ])
    func firstWords(sql: String, words: [String]) { #expect(SQLTokens.firstWords(sql) == words) }
}
