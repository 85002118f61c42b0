import TestSupport
import Testing

/// What is kept of a deleted row, in the form in which programs read it: whole lines.
@Suite(.timeLimit(.minutes(5))) struct CtlTombstoneTests {
    /// A column's type, a value in SQL, and the two forms in the tombstone; no text for a null.
    static let values: [(type: String, sql: String, attribute: String?, value: String)] = [
        ("TEXT", "'plain'", "plain", #""plain""#),
        ("TEXT", "''", "", #""""#),
        ("TEXT", "'a\"b' || char(10) || 'é'", #"a\"b\né"#, #""a\"b\né""#),
        ("TEXT", "NULL", nil, "null"),
        ("INTEGER", "42", "42", "42"),
        ("INTEGER", "-9223372036854775808", "-9223372036854775808", "-9223372036854775808"),
        ("REAL", "3", "3.0", "3.0"),
        ("REAL", "0.1", "0.1", "0.1"),
        ("REAL", "1e300", "1e+300", "1e+300"),
        ("BLOB", "x'00ff41'", "AP9B", #"{"base64":"AP9B"}"#),
        ("BLOB", "x''", "", #"{"base64":""}"#),
        ("BOOLEAN", "1", "true", "1"),
        ("BOOLEAN", "0", "false", "0"),
        ("BOOLEAN", "2", "2", "2"),
        (
            "UUID", "x'6e1c9b0a00112233445566778899aabb'", "6E1C9B0A-0011-2233-4455-66778899AABB",
            #"{"base64":"bhybCgARIjNEVWZ3iJmquw=="}"#
        ),
        (
            "UUID", "'6e1c9b0a-0011-2233-4455-66778899aabb'", "6E1C9B0A-0011-2233-4455-66778899AABB",
            #""6e1c9b0a-0011-2233-4455-66778899aabb""#
        ),
        ("UUID", "'no uuid'", "no uuid", #""no uuid""#),
        ("URL", "'https://example.org/a?b=c'", "https://example.org/a?b=c", #""https://example.org/a?b=c""#),
        ("DATE", "'2026-01-07'", "2026-01-07T00:00:00Z", #""2026-01-07""#),
        ("DATETIME", "'2026-01-07 10:30:00.25'", "2026-01-07T10:30:00.250Z", #""2026-01-07 10:30:00.25""#),
        ("DATETIME", "'2026-01-07T10:30+01:00'", "2026-01-07T09:30:00Z", #""2026-01-07T10:30+01:00""#),
        ("TIMESTAMP", "1767781800", "2026-01-07T10:30:00Z", "1767781800"),
        ("TIMESTAMP", "1767781800.5", "2026-01-07T10:30:00.500Z", "1767781800.5"),
        ("TIMESTAMP", "'whenever'", "whenever", #""whenever""#),
        ("", "5", "5", "5"),
        ("", "5.0", "5.0", "5.0"),
    ]

    @Test(arguments: values.indices)
    func aValueInBothForms(index: Int) async throws {
        let (type, sql, attribute, value) = Self.values[index]
        let store = try await CtlStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, v \(type), w);", tracking: ["t", "--preserve", "t.v"])
        try await store.sql("INSERT INTO t VALUES (1, \(sql), 'not kept'); DELETE FROM t;")
        let attributes = attribute.map { #""v":"\#($0)""# } ?? ""
        let line =
            #"{"entityName":"t","operation":"delete","objectID":{"id":1},"objectIDURL":"x-history://STORE/t/p1","tombstone":{"attributes":{\#(attributes)},"values":{"v":\#(value)},"deletedDate":"TIME"}}"#
        let text = try await store.historyText(["--operation", "delete"])
        #expect(
            text.replacing(/STORE:\d+/, with: "STORE:N")
                == #"{"token":"STORE:N","author":null,"context":null,"processID":null,"timestamp":"TIME","changes":[\#(line)]}"#
                + "\n",
            "\(type) \(sql)")
    }

    /// Columns come in table order, and only those that are preserved; a replaced row leaves a tombstone too.
    @Test func severalColumnsAndReplacedRows() async throws {
        let store = try await CtlStore(
            "CREATE TABLE t (a TEXT UNIQUE, id INTEGER PRIMARY KEY, b, c DATE);",
            tracking: ["t", "--preserve", "t.c", "--preserve", "t.a"])
        try await store.declaredSQL(
            """
            SELECT history_author('App');
            INSERT INTO t VALUES ('x', 1, 1, '2026-01-07');
            REPLACE INTO t VALUES ('x', 2, 2, NULL);
            """)
        #expect(
            try await store.historyText(["--operation", "delete"])
                == #"{"token":"STORE:3","author":"App","context":null,"processID":PROCESS,"timestamp":"TIME","changes":[{"entityName":"t","operation":"delete","objectID":{"id":1},"objectIDURL":"x-history://STORE/t/p1","tombstone":{"attributes":{"a":"x","c":"2026-01-07T00:00:00Z"},"values":{"a":"x","c":"2026-01-07"},"deletedDate":"TIME"}}]}"#
                + "\n")
    }

    /// An entity that preserves nothing has no tombstone.
    @Test func nothingPreservedNoTombstone() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY, v);")
        try await store.sql("INSERT INTO t VALUES (1, 2); DELETE FROM t;")
        #expect(try await !store.historyText().contains("tombstone"))
    }
}
