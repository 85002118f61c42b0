import Foundation
import PersistentHistory
import TestSupport
import Testing

/// `historyctl history`: what is shown of a history, and in which form.
@Suite(.timeLimit(.minutes(60))) struct CtlHistoryTests {
    /// Five transactions: A, nobody, B in a context, A, nobody.
    private func store() async throws -> CtlStore {
        let store = try await CtlStore(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (k TEXT, n, PRIMARY KEY (k, n)) WITHOUT ROWID;"
        )
        try await store.declaredSQL(
            """
            SELECT history_author('A');
            BEGIN; INSERT INTO t VALUES (1, 1), (2, 2); INSERT INTO u VALUES ('ä,/', 1); COMMIT;
            SELECT history_author(NULL);
            UPDATE t SET a = 3 WHERE id = 1;
            SELECT history_author('B', 'view');
            BEGIN; UPDATE t SET a = 4; DELETE FROM u; COMMIT;
            SELECT history_author('A');
            DELETE FROM t WHERE id = 1;
            SELECT history_author(NULL);
            INSERT INTO u VALUES ('z', 2.5);
            """)
        return store
    }

    private static let all = [
        "A: insert t id=1; insert t id=2; insert u k='ä,/',n=1", "-: update t id=1 a",
        "B: update t id=1 a; update t id=2 a; delete u k='ä,/',n=1", "A: delete t id=1",
        "-: insert u k='z',n=2.5",
    ]

    /// Of names that have the same canonical form, a filter means the one whose bytes it has.
    @Test func filtersCompareBytes() async throws {
        let store = try await CtlStore("CREATE TABLE f (name TEXT PRIMARY KEY NOT NULL);")
        let names = ["caf\u{e9}", "cafe\u{301}"]
        for name in names {
            try await store.declaredSQL("SELECT history_author('\(name)'); INSERT INTO f VALUES ('\(name)');")
        }
        for name in names {
            let transactions = try await store.history(["--author", name])
            #expect(transactions.map { Array(($0.author ?? "").utf8) } == [Array(name.utf8)])
            let url = try #require(transactions.first?.changes.first?.objectIDURL)
            #expect(try await store.history(["--object", url]).count == 1)
            #expect(try await store.history(["--exclude-author", name]).count == 1)
        }
    }

    @Test func filtersChooseTransactionsAndChanges() async throws {
        let store = try await store()
        func expect(_ arguments: [String], _ wanted: [String], _ location: SourceLocation = #_sourceLocation)
            async throws
        {
            #expect(
                try await store.history(arguments).map(\.short) == wanted, "\(arguments)",
                sourceLocation: location)
            #expect(
                try await store.history(arguments + ["--reverse"]).map(\.short) == wanted.reversed(),
                "\(arguments) --reverse",
                sourceLocation: location)
        }
        let all = Self.all
        try await expect([], all)
        try await expect(["--author", "A"], [all[0], all[3]])
        try await expect(["--author", "A", "--author", "B"], [all[0], all[2], all[3]])
        try await expect(["--no-author"], [all[1], all[4]])
        try await expect(["--no-author", "--author", "B"], [all[1], all[2], all[4]])
        try await expect(["--exclude-author", "A"], [all[1], all[2], all[4]])
        try await expect(["--exclude-author", "A", "--exclude-author", "B"], [all[1], all[4]])
        try await expect(["--author", "A", "--exclude-author", "A"], [])
        try await expect(["--author", "a"], [])
        try await expect(["--entity", "U"], ["A: insert u k='ä,/',n=1", "B: delete u k='ä,/',n=1", all[4]])
        try await expect(["--entity", "u", "--entity", "t", "--operation", "insert"], [all[0], all[4]])
        try await expect(["--operation", "update", "--operation", "delete"], Array(all[1...3]))
        try await expect(["--author", "B", "--entity", "t"], ["B: update t id=1 a; update t id=2 a"])

        // A transaction's token is the same, whatever is shown of it.
        let tokens = try await store.history().map(\.token)
        #expect(try await store.history(["--entity", "t"]).map(\.token) == Array(tokens[0...3]))
        for (index, token) in tokens.enumerated() {
            try await expect(["--after", token], Array(all[(index + 1)...]))
            try await expect(["--before", token], Array(all[..<index]))
            try await expect(
                ["--after", token, "--author", "A"], all[(index + 1)...].filter { $0.hasPrefix("A") })
            try await expect(["--before", token, "--author", "A"], all[..<index].filter { $0.hasPrefix("A") })
            for (other, end) in tokens.enumerated() {
                try await expect(
                    ["--after", token, "--before", end],
                    other > index ? Array(all[(index + 1)..<other]) : [String]())
            }
        }
        for limit in 0...6 {
            #expect(try await store.history(["--limit", "\(limit)"]).map(\.short) == Array(all.prefix(limit)))
            #expect(
                try await store.history(["--limit", "\(limit)", "--reverse"]).map(\.short)
                    == Array(all.reversed().prefix(limit)))
            #expect(try await store.history(["--limit", "\(limit)", "--no-author"]).count == min(limit, 2))
        }
    }

    @Test func anObjectIsFoundByItsURL() async throws {
        let store = try await store()
        var byObject: [String: [String]] = [:]
        for transaction in try await store.history() {
            for change in transaction.changes { byObject[change.objectIDURL, default: []].append(change.short) }
        }
        #expect(byObject.count == 4)
        for (url, changes) in byObject {
            #expect(
                try await store.history(["--object", url]).flatMap { $0.changes.map(\.short) } == changes,
                "\(url)")
        }
        // The key's column had another name.
        try await store.sql("ALTER TABLE t RENAME COLUMN id TO number;")
        try await store.succeed("track")
        try await store.sql("DELETE FROM t;")
        let url = try #require(byObject.keys.first { $0.hasSuffix("/t/p2") })
        #expect(
            try await store.history(["--object", url]).flatMap { $0.changes.map(\.short) } == [
                "insert t id=2", "update t id=2 a", "delete t number=2",
            ])
        #expect(try await store.history(["--object", url, "--entity", "u"]) == [])

        let id = try #require(url.split(separator: "/").dropFirst().first)
        for (wrong, status) in [
            ("nonsense", 64), ("x-history://\(id)/t/q1", 64),
            ("x-history://5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d/t/p1", 65),
            ("x-history://\(id)/nobody/p1", 65),
            ("x-history://\(id)/t/p1,p2", 65),
        ] {
            #expect(
                try await store.ctl("history", ["--object", wrong]).status == .exited(Int32(status)), "\(wrong)"
            )
        }
    }

    /// The transactions of a filter are those whose printed time fits, whatever the form of the date.
    @Test(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"))
    func datesMeanWhatTheySay() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY);")
        let times = [
            "2026-01-06T23:59:59.999Z", "2026-01-07T00:00:00.000Z", "2026-01-07T10:30:00.000Z",
            "2026-01-07T10:30:00.250Z",
            "2026-01-07T10:30:01.000Z", "2026-01-07T23:59:59.999Z", "2026-01-08T00:00:00.000Z",
        ]
        // A binding that says what the time is can say any time.
        try await store.succeed(
            python: """
                import datetime
                app = Author(plain(), "App")
                for i, text in enumerate(\(times)):
                    ms = round(datetime.datetime.fromisoformat(text[:-1] + "+00:00").timestamp() * 1000)
                    time.time_ns = lambda: ms * 1_000_000
                    with app.transaction() as c: c.execute("INSERT INTO t VALUES (?)", [i])
                """)
        func shown(_ arguments: String...) async throws -> [String] {
            try await store.history(arguments).map(\.timestamp)
        }
        #expect(try await shown() == times)
        for (date, instant) in [
            ("2026-01-07", times[1]), ("2026-01-07T10:30", times[2]), ("2026-01-07 10:30:00", times[2]),
            ("2026-01-07T10:30:00Z", times[2]), ("2026-01-07T11:30:00+01:00", times[2]),
            ("2026-01-07T02:30:00-08:00", times[2]),
            ("2026-01-07T10:30:00.25", times[3]), ("2026-01-07T10:30:00.250Z", times[3]),
            ("2026-01-08", times[6]),
        ] {
            #expect(try await shown("--since", date) == times.filter { $0 >= instant }, "\(date)")
            if date.count > 10 {
                #expect(try await shown("--until", date) == times.filter { $0 <= instant }, "\(date)")
            }
        }
        // Finer than what is recorded.
        #expect(try await shown("--since", "2026-01-07T10:30:00.2501") == Array(times[4...]))
        #expect(try await shown("--until", "2026-01-07T10:30:00.2501") == Array(times[...3]))
        #expect(try await shown("--until", "2026-01-07T10:30:00.2499") == Array(times[...2]))
        #expect(try await shown("--until", "2026-01-07") == Array(times[...5]), "a day has an end")
        #expect(try await shown("--since", "2026-01-07", "--until", "2026-01-07") == Array(times[1...5]))
        for wrong in [
            "yesterday", "2026-02-30", "2026-13-01", "10:30", "2026-01-07T25:00", "2026-01-07T10:30:00 CET", "",
            "1767781800",
        ] {
            for option in ["--since", "--until"] {
                #expect(
                    try await store.ctl("history", [option, wrong]).status == .exited(64), "\(option) \(wrong)")
            }
        }
    }

    @Test func tokensThatDoNotWorkAreErrors() async throws {
        let store = try await store()
        let tokens = try await store.history().map(\.token)
        let id = try #require(tokens[0].split(separator: ":").first)
        let newest = try #require(tokens.last)
        func expect(
            _ status: Int32, _ message: String, _ arguments: String...,
            location: SourceLocation = #_sourceLocation
        ) async throws {
            let outcome = try await store.ctl("history", arguments)
            #expect(outcome.status == .exited(status), "\(arguments)", sourceLocation: location)
            #expect(outcome.output == "", sourceLocation: location)
            #expect(outcome.errors == "historyctl: \(message)\n", sourceLocation: location)
        }
        for option in ["--after", "--before"] {
            try await expect(
                65,
                "The token 5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1 belongs to another store; tokens of this store begin with \"\(id):\". Check which store the token was read from, and whether the store was replaced.",
                option, "5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:1")
            try await expect(
                65,
                "The token \(id):9999 is newer than the store's newest transaction, \(newest). Unless the token is wrong, the store was replaced or restored from a backup: start over from a copy of the data.",
                option, "\(id):9999")
            for text in ["", "nonsense", ":1", "\(id):", "\(id):-1", "\(id):1x"] {
                #expect(
                    try await store.ctl("history", [option, text]).status == .exited(64), "\(option) \(text)")
            }
        }
        #expect(try await store.history(["--after", "\(id):0"]).count == 5)

        // What everybody had is deleted.
        let second = try #require(HistoryToken(tokens[1]))
        _ = try await HistoryCleaner(path: store.path, rule: DeliveryRule(authors: [])).clean(
            through: second.number)
        let expired = { (token: String) in
            "The history after \(token) has been deleted; the oldest token that still works is \(second). Start over from a copy of the data and that token."
        }
        try await expect(69, expired(tokens[0]), "--after", tokens[0])
        try await expect(69, expired("\(id):0"), "--after", "\(id):0")
        #expect(try await store.history(["--after", tokens[1]]).map(\.short) == Array(Self.all[2...]))
        #expect(try await store.history().map(\.short) == Array(Self.all[2...]), "With no token, what is left.")
        #expect(try await store.history(["--before", tokens[0]]).map(\.short) == [])
        #expect(try await store.history(["--before", tokens[3]]).map(\.short) == [Self.all[2]])
    }

    @Test func whatIsNoFilterIsAnError() async throws {
        let store = try await store()
        let outcome = try await store.ctl("history", ["--entity", "nobody"])
        #expect(outcome.status == .exited(65))
        #expect(
            outcome.errors == "historyctl: The history has no entity \"nobody\". It has \"t\", \"u\".\n")
        for arguments in [
            ["--operation", "upsert"], ["--limit", "-1"], ["--limit", "x"], ["--format", "xml"], ["--nonsense"],
        ] {
            #expect(try await store.ctl("history", arguments).status == .exited(64), "\(arguments)")
        }
    }

    @Test func theTableHasALineForEachChange() async throws {
        let store = try await CtlStore("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL, a, b);")
        let key = String(repeating: "long ", count: 30)
        try await store.declaredSQL(
            """
            SELECT history_author('App', 'view'); INSERT INTO t VALUES ('\(key)', 1, 1), ('é' || char(27) || '[2J', 1, 1); UPDATE t SET a = 2, b = 2 WHERE id LIKE 'long%';
            """)
        let lines = try await store.succeed("history").split(separator: "\n").map(String.init)
        #expect(lines.count == 4)
        let columns = lines.map { $0.split(separator: /\ \ +/).map(String.init) }
        #expect(
            columns[0] == [
                "TOKEN", "TIME", "AUTHOR", "CONTEXT", "PROCESS", "OPERATION", "ENTITY", "OBJECT", "CHANGED",
            ])
        #expect(columns[1].dropFirst(2).prefix(2) == ["App", "view"])
        #expect(
            columns[1].dropFirst(5) == ["insert", "t", "id=\"\(key)\""], "Nothing is cut where no terminal is.")
        #expect(columns[2].last == #"id="é\u001b[2J""#, "A terminal is told nothing by data.")
        #expect(columns[3].suffix(4) == ["update", "t", "id=\"\(key)\"", "a, b"])
        let starts = lines.map { $0.range(of: "  t  ")?.lowerBound }.dropFirst().map {
            $0?.utf16Offset(in: lines[1])
        }
        #expect(Set(starts).count == 1, "Columns are aligned.")
        #expect(lines.allSatisfy { !$0.hasSuffix(" ") })
        #expect(try await store.succeed("history", ["--author", "nobody"]).hasPrefix("TOKEN"))
    }

    @Test(.enabled(if: Python.isThere, "needs \(Python.path) with sqlite3"))
    func longCellsAreCutOnATerminal() async throws {
        let store = try await CtlStore("CREATE TABLE t (id TEXT PRIMARY KEY NOT NULL);")
        try await store.sql("INSERT INTO t VALUES ('\(String(repeating: "x", count: 200))');")
        let output = try await store.succeed(
            python: """
                import pty
                pty.spawn(["\(BuiltProducts.historyctl)", "history", path])
                """)
        #expect(output.contains("id=\"xxx") && output.contains("x…\r\n"), "\(output)")
        #expect(output.split(separator: "\r\n").allSatisfy { $0.count <= 80 }, "\(output)")
        #expect(!output.contains("AUTHOR") && output.hasPrefix("TOKEN  TIME"), "Empty columns are left out.")
    }

    /// `head` has seen enough: no message, and no further work.
    @Test func aClosedPipeEndsItQuietly() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY, a);")
        try await store.sql(
            "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000) INSERT INTO t SELECT i, i FROM n;"
        )
        for format in ["table", "json"] {
            let outcome = try await Command(
                "bash",
                [
                    "-c",
                    #""$0" history "$1" --format $2 | head -c 10; status=${PIPESTATUS[0]}; echo; echo $status"#,
                    BuiltProducts.historyctl, store.path, format,
                ]
            ).run()
            #expect(outcome.errors == "")
            #expect(outcome.lines.last == "141", "\(outcome)")
        }
        let full = try await Command(
            "sh", ["-c", #""$0" history "$1" > /dev/full"#, BuiltProducts.historyctl, store.path]
        ).run()
        #expect(full.status == .exited(74))
        #expect(full.errors == "historyctl: Standard output cannot be written: No space left on device.\n")
    }
}
