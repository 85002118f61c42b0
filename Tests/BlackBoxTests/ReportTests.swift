import CoreDataStores
import Foundation
import TestSupport
import Testing

/// `historyctl history --format html`: a page that shows itself, and in which what the store says stays text.
@Suite(.timeLimit(.minutes(60))) struct ReportTests {
    /// Names and values that would be tags, ends of scripts or comments, if they were a part of the page.
    private static let hostile = [
        "</script><script>window.taken = 1</script>", "<img src=x onerror='window.taken = 1'>", "<!-- <script>",
        "]]></SCRIPT\t>", "\" onmouseover=\"window.taken = 1", "javascript:window.taken = 1",
        "\u{2028}\u{0000}&lt;",
    ]

    private func hostileStore() async throws -> CtlStore {
        let table = Self.hostile[1].replacing("\"", with: "\"\"")
        let column = Self.hostile[0]
        let store = try await CtlStore(
            "CREATE TABLE \"\(table)\" (id TEXT PRIMARY KEY, \"\(column)\" TEXT);", tracking: nil)
        try await store.succeed("track", ["--all", "--preserve", "\(Self.hostile[1]).\(column)"])
        let quoted = Self.hostile.map { "'" + $0.replacing("\0", with: "").replacing("'", with: "''") + "'" }
        try await store.declaredSQL(
            """
            SELECT history_author(\(quoted[0]), \(quoted[2]));
            \(quoted.map { "INSERT INTO \"\(table)\" VALUES (\($0), \($0));" }.joined(separator: "\n"))
            DELETE FROM "\(table)";
            """)
        return store
    }

    /// The JSON of the scripts with an attribute, one for each.
    private func data(_ attribute: String, _ page: String) throws -> [Tree] {
        try page.components(separatedBy: "<script type=\"application/json\" \(attribute)>").dropFirst().map {
            try Tree(try #require($0.components(separatedBy: "</script>").first))
        }
    }

    /// The document that a browser makes of a page.
    private func document(of page: String, _ store: CtlStore) async throws -> String {
        let file = store.folder.file("page.html")
        try Data(page.utf8).write(to: URL(fileURLWithPath: file))
        return try await Command(
            "/usr/bin/chromium",
            [
                "--headless", "--no-sandbox", "--disable-gpu",
                "--user-data-dir=\(store.folder.file("profile"))",
                "--dump-dom", "file://\(file)",
            ]
        ).succeed()
    }

    @Test("The page has the transactions that JSON has, and their figures")
    func isWhole() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY, v);")
        // One of them is read in parts.
        try await store.declaredSQL(
            """
            SELECT history_author('App');
            INSERT INTO t VALUES (1, 9007199254740993);
            WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) INSERT INTO t SELECT i, i FROM n;
            UPDATE t SET v = 0 WHERE id < 10;
            DELETE FROM t WHERE id < 4;
            """)
        let page = try await store.succeed("history", ["--format", "html"])
        let items = try data("class=\"part\"", page).flatMap(\.list)
        let index = try data("class=\"index\"", page).flatMap(\.list)
        #expect(items.count == index.count && items.count > 4)
        let history = try await store.history()
        #expect(Set(items.map { $0["token"].text }) == Set(history.map(\.token)))
        let changes = items.flatMap { $0["changes"].list }
        #expect(changes.count == history.reduce(0) { $0 + $1.changes.count })
        #expect(changes.map { $0["objectIDURL"].text } == history.flatMap { $0.changes.map(\.objectIDURL) })
        let sums = (3..<6).map { place in index.compactMap { $0.list[place].int }.reduce(0, +) }
        #expect(sums == [30_000, 9, 3])
        let end = try #require(try data("id=\"end\"", page).first)
        #expect(end["transactions"].int == 4 && end["changes"].int == 30_012)
        #expect(end["problems"].list.isEmpty)
        let record = try #require(try data("id=\"record\"", page).first)
        let sum = try await Command("sha256sum", [store.path]).succeed().prefix(64)
        #expect(record["sha256"].text == String(sum))
        #expect(record["command"].text?.contains("--format html") == true)
        #expect(record["description"]["entities"].list.first?["name"].text == "t")
    }

    @Test("What a store says is no part of the page")
    func isText() async throws {
        let store = try await hostileStore()
        let page = try await store.succeed("history", ["--format", "html"])
        // Nothing but the page's own tags begins anywhere.
        let own = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY);").succeed(
            "history", ["--format", "html"])
        let names = { (page: String) in Set(page.matches(of: /<[!\/a-zA-Z][^ >]*/).map { String($0.output) }) }
        #expect(names(page) == names(own))
        #expect(page.contains("default-src 'none'"))
        #expect(try data("class=\"part\"", page).flatMap(\.list).count == Self.hostile.count + 1)
        for source in page.matches(of: /(?:src|href|url)\s*[=(]\s*["']?https?:/) {
            Issue.record("\(source.output)")
        }
    }

    @Test(
        "A browser shows it, and runs nothing of the store's",
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/chromium"), "chromium is not installed"))
    func inABrowser() async throws {
        let store = try await hostileStore()
        let page = try await store.succeed("history", ["--format", "html"])
        let nonce = try #require(page.firstMatch(of: /script-src 'nonce-([^']+)'/)?.1)
        let probe = """
            <script nonce="\(nonce)">for (const each of document.querySelectorAll(".opener")) each.click();
            document.body.append(`taken: ${window.taken}, ready: ${document.documentElement.dataset.ready}, rows: ${
              document.querySelectorAll("#transactions .changes tr").length}`)</script></body></html>
            """
        let shown = try await document(of: page.replacing("</body></html>", with: probe), store)
        // Each table of changes has a row of titles.
        let count = 2 * Self.hostile.count + Self.hostile.count + 1
        #expect(shown.contains("taken: undefined, ready: yes, rows: \(count)"), "\(shown.suffix(600))")
    }

    @Test(
        "The newest first is no clock that was set back",
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/chromium"), "chromium is not installed"),
        arguments: [false, true])
    func clockSteps(isReversed: Bool) async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY);")
        for id in 1...3 { try await store.sql("INSERT INTO t VALUES (\(id))") }
        // Of an undeclared writer, the origin is the time in milliseconds.
        try await store.sql("UPDATE historyd_change SET origin = origin + 5000 * id")
        let page = try await store.succeed("history", ["--format", "html"] + (isReversed ? ["--reverse"] : []))
        #expect(try data("id=\"end\"", page).first?["transactions"].int == 3)
        let shown = try await document(of: page, store)
        #expect(shown.contains("data-ready=\"yes\""))
        #expect(!shown.contains("<li>The clock was set back"), "\(shown.suffix(600))")
    }

    @Test("Where the history has a gap, the page has what comes before it, and says so")
    func gap() async throws {
        let store = try await CtlStore("CREATE TABLE t (id INTEGER PRIMARY KEY);")
        for id in 1...6 {
            try await store.declaredSQL("SELECT history_author('App'); INSERT INTO t VALUES (\(id))")
        }
        try await store.sql("DELETE FROM historyd_change WHERE id IN (3, 4)")
        let outcome = try await store.ctl("history", ["--format", "html"])
        #expect(outcome.status != .exited(0))
        let end = try #require(try data("id=\"end\"", outcome.output).first)
        #expect(end["problems"].list.count == 1 && end["transactions"].int == 2, "\(outcome.errors)")
    }

    @Test("What is left of a damaged store is a page as well, with marks where something is missing")
    func salvage() async throws {
        let folder = try TemporaryFolder()
        let path = folder.file("notes.sqlite")
        let model = StoreModel([.init("Note", attributes: [.init("text", .string, isPreserved: true)])])
        let generated = try GeneratedStore(path, model, random: SystemRandomNumberGenerator())
        for object in 1...7 {
            try generated.commit(.init(author: "Widget"), [.init("Note", Int64(object), .insert)])
        }
        generated.close()
        let store = try CtlStore(of: path)
        try await store.sql(
            """
            DELETE FROM ATRANSACTION WHERE Z_PK IN (3, 5, 6); DELETE FROM ACHANGE WHERE ZTRANSACTIONID IN (5, 6);
            """)
        let outcome = try await store.ctl("history", ["--salvage", "--format", "html"])
        #expect(outcome.status == .exited(65), "\(outcome.errors)")
        let kinds = try data("class=\"index\"", outcome.output).flatMap { $0.list }.compactMap {
            $0.list[6].int
        }
        #expect(kinds.sorted() == [0, 0, 0, 0, 1, 2] || kinds.sorted() == [0, 0, 0, 0, 1, 1, 2], "\(kinds)")
        let end = try #require(try data("id=\"end\"", outcome.output).first)
        #expect(end["problems"].list.count > 1)
    }
}
