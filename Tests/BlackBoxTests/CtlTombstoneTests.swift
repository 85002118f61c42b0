import Foundation
import TestSupport
import Testing

/// What is kept of a deleted row, in the form in which programs read it: whole lines.
@Suite(.timeLimit(.minutes(60))) struct CtlTombstoneTests {
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
        // A Julian day would be a day of 1970.
        ("DATETIME", "2461047.9375", "2461047.9375", "2461047.9375"),
        ("", "5", "5", "5"),
        ("", "5.0", "5.0", "5.0"),
    ]

    /// One table for each. What no author is declared for may be one transaction with what comes next.
    @Test func valuesInBothForms() async throws {
        let tables = Self.values.indices.map { "t\($0)" }
        let named = Array(zip(tables, Self.values))
        let store = try await CtlStore(
            named.map { "CREATE TABLE \($0) (id INTEGER PRIMARY KEY, v \($1.type), w);" }.joined(),
            tracking: tables + tables.flatMap { ["--preserve", "\($0).v"] })
        try await store.sql(
            named.map { "INSERT INTO \($0) VALUES (1, \($1.sql), 'not kept'); DELETE FROM \($0);" }.joined())
        let start =
            #/
            \{"token":"STORE:\d+","author":null,"context":null,"processID":null,
            "timestamp":"TIME","changes":\[
            /#
        var changes: [Substring] = []
        for line in try await store.historyText(["--operation", "delete"]).split(separator: "\n") {
            let beginning = try #require(line.prefixMatch(of: start), "\(line)")
            #expect(line.hasSuffix("]}"))
            changes.append(line[beginning.range.upperBound...].dropLast(2))
        }
        let text = changes.joined(separator: ",")
        let expected = named.map { table, example in
            let attributes = example.attribute.map { #""v":"\#($0)""# } ?? ""
            return
                #"{"entityName":"\#(table)","operation":"delete","objectID":{"id":1},"objectIDURL":"x-history://STORE/\#(table)/p1","tombstone":{"attributes":{\#(attributes)},"values":{"v":\#(example.value)},"deletedDate":"TIME"}}"#
        }
        for change in expected { #expect(text.contains(change)) }
        #expect(text == expected.joined(separator: ","))
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

    /// Each value in a column of each declared type, as the store holds it, put into words in Python.
    @Test(.enabled(if: Python.isThere, "needs Python"), arguments: ["UTF-8", "UTF-16be"])
    func everyValueInEveryType(encoding: String) async throws {
        let types =
            "TEXT|VARCHAR(20)|INTEGER|INT|BIGINT|REAL|DOUBLE|NUMERIC|DECIMAL(5, 2)|BLOB||BOOLEAN|BOOL|UUID|uuid|URL|DATE|DATETIME|datetime|TIMESTAMP|TIMESTAMP WITH TIME ZONE"
        let store = try await CtlStore("PRAGMA encoding = '\(encoding)';", tracking: nil)
        try await store.succeed(python: Self.insertion(types))
        let columns = Int(
            try await store.sql("SELECT count(*) - 1 FROM pragma_table_info('t');")
                .trimmingCharacters(in: .newlines))
        try await store.succeed("track", (0..<(columns ?? 0)).flatMap { ["--preserve", "t.c\($0)"] } + ["t"])
        let expected = try await store.succeed(python: Self.conversion)
        let text = try await store.historyText()
        let tombstone = try #require(text.firstMatch(of: /"tombstone":(.*),"deletedDate":"TIME"\}\}\]\}\n$/))
        #expect(tombstone.1 + "}\n" == expected)
    }

    private static func insertion(_ types: String) -> String {
        #"""
        types = "\#(types)".split("|")
        values = [None, 0, 1, -1, 42, 2**53 + 1, 2**63 - 1, -2**63, 1767781800, 0.1, 3.0, -0.25, 1767781800.5, 1e300,
            5e-324, "", "John", "a\"b\\\n\té\U0001f600", "a\0b", "1.50", "true", "https://example.com/é?a=b#c",
            "123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "2025-01-07",
            "2025-01-07 10:30", "2025-01-07T10:30:00Z", "2025-01-07 10:30:00.25+02:00", "2025-01-07 10:30:00.000",
            "1969-12-31T23:59:59-14:00", "2025-13-01", "10:30", "now", b"", b"\0", bytes(range(16)), bytes(range(17))]
        cells = [(type, value) for type in types for value in values]
        c = plain()
        c.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, " + ", ".join(f"c{i} {t}" for i, (t, _) in enumerate(cells)) + ")")
        c.execute("INSERT INTO t VALUES (1" + ", ?" * len(cells) + ")", [value for _, value in cells])
        """#
    }

    /// Prints what must be kept of the row, and deletes it.
    private static let conversion = #"""
        import base64, datetime, json, re, uuid
        utc = datetime.timezone.utc
        epoch = datetime.datetime(1970, 1, 1, tzinfo=utc)

        def iso(seconds, fraction):
            fraction = fraction.rstrip("0")
            try: moment = epoch + datetime.timedelta(seconds=seconds)
            except OverflowError: return None
            return moment.strftime("%Y-%m-%dT%H:%M:%S") + ("." + fraction.ljust(3, "0") if fraction else "") + "Z"

        def date(value):
            if isinstance(value, int): return iso(value, "")
            if isinstance(value, float):
                whole = value // 1
                return iso(int(whole), repr(value - whole)[2:]) if abs(value) < 1e12 and "e" not in repr(value) else iso(0, "") if abs(value) < 1 else None
            if isinstance(value, str):
                match = re.fullmatch(
                    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?)?", value)
                if not match: return None
                day, time, second, fraction, zone = match.groups()
                try: moment = datetime.datetime.fromisoformat(f"{day}T{time or '00:00'}{second or ':00'}{(zone or 'Z').replace('Z', '+00:00')}")
                except ValueError: return None
                return iso((moment - epoch) // datetime.timedelta(seconds=1), fraction or "")

        def attribute(type, value):
            word = re.match(r"\w*", type)[0].upper()
            if word == "UUID" and isinstance(value, str) and re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
                return value.upper()
            if word == "UUID" and isinstance(value, bytes) and len(value) == 16: return str(uuid.UUID(bytes=value)).upper()
            if word in ("BOOLEAN", "BOOL") and value in (0, 1) and isinstance(value, int): return ["false", "true"][value]
            if word in ("DATE", "DATETIME", "TIMESTAMP"):
                text = date(value)
                if text: return text
            return base64.b64encode(value).decode() if isinstance(value, bytes) else value if isinstance(value, str) else repr(value)

        c = plain()
        types = {row[1]: row[2] for row in c.execute("PRAGMA table_info(t)")}
        row = c.execute("SELECT * FROM t").fetchone()
        kept = list(zip(list(types)[1:], row[1:]))
        c.execute("DELETE FROM t")
        print(json.dumps({
            "attributes": {name: attribute(types[name], value) for name, value in kept if value is not None},
            "values": {name: {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value for name, value in kept},
        }, ensure_ascii=False, separators=(",", ":")))
        """#
}

/// An update names the columns whose value changed, however many there are.
@Suite(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"), .timeLimit(.minutes(60)))
struct CtlChangedPropertiesTests {
    @Test(arguments: [1, 61, 62, 63, 64, 65, 200, 1000])
    func columnsThatChanged(columns: Int) async throws {
        let store = try await CtlStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, \((1...columns).map { "c\($0) \(["TEXT", "", "REAL"][$0 % 3])" }.joined(separator: ", ")));"
        )
        let seed = UInt64.random(in: 0...999)
        let expected = try await store.succeed(
            python: """
                random.seed(\(seed))
                c = loaded("App")
                names = [f"c{i}" for i in range(1, \(columns) + 1)]
                c.execute("INSERT INTO t (id) VALUES (1)")
                row = dict.fromkeys(names)
                for n in range(40):
                    # The first and the last of them, a few, or all; some to what they are already.
                    chosen = random.choice([names[:1], names[-1:], names, random.sample(names, random.randint(1, len(names)))])
                    new = {name: random.choice([row[name], None, str(random.random()), random.random()]) for name in chosen}
                    c.execute("UPDATE t SET " + ", ".join(f"{name} = ?" for name in new), list(new.values()))
                    after = dict(zip(names, c.execute("SELECT * FROM t").fetchone()[1:]))
                    changed = [name for name in names if (type(row[name]), row[name]) != (type(after[name]), after[name])]
                    row = after
                    if changed: print(",".join(changed))
                """)
        let found = try await store.history(["--operation", "update"]).flatMap(\.changes).map {
            ($0.changedProperties ?? []).joined(separator: ",") + "\n"
        }
        #expect(found.joined() == expected, "seed \(seed)")
    }
}
