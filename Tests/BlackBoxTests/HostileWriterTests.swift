import Foundation
import Glibc
import TestSupport
import Testing

/// A user who may write to one store, and to nothing else, attacks the daemon that serves it beside another.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(
        if: geteuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv"),
        "needs root and setpriv, to be somebody else"),
    .timeLimit(.minutes(60)))
struct HostileWriterTests {
    private static let nobody = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    /// A store that only nobody's folder holds, and a file that only root may read.
    private static func withTarget(_ body: (Workbench, _ evil: String, _ secret: String) async throws -> Void)
        async throws
    {
        try await withWorkbench { bench in
            let folder = bench.folder
            try FileManager.default.createDirectory(
                atPath: folder.file("evil"), withIntermediateDirectories: false)
            try FileManager.default.createDirectory(
                atPath: folder.file("private"), withIntermediateDirectories: false)
            let (evil, secret) = (folder.file("evil/evil.sqlite"), folder.file("private/secret.sqlite"))
            try await bench.sql(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY, n); CREATE INDEX t_n ON t (n)",
                of: evil)
            try await bench.sql("CREATE TABLE secret (text); INSERT INTO secret VALUES ('rosebud')", of: secret)
            #expect(chmod(folder.path, 0o711) == 0 && chmod(folder.file("private"), 0o700) == 0)
            #expect(chown(folder.file("evil"), 65534, 65534) == 0 && chown(evil, 65534, 65534) == 0)
            try bench.configure(
                StoreSetup(),
                StoreSetup(
                    name: "evil", path: "evil/evil.sqlite", entities: #"{"t": {}}"#,
                    authors:
                        #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "evil-view.sqlite"}]}]"#
                ))
            try await body(bench, evil, secret)
        }
    }

    private static func attack(_ bench: Workbench, _ store: String, _ sql: String) async throws {
        try await bench.start(
            nobody + [Products.shell, "-bail", store, ".timeout 60000", sql], "attack-\(UUID().uuidString)"
        ).succeed()
    }

    @Test(
        "Whatever it writes to its store's own tables, the other store is served, and its own again when it is mended"
    )
    func tables() async throws {
        try await Self.withTarget { bench, evil, secret in
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO t VALUES (1, 1)", as: "Widget", to: evil)
            try await bench.calls(1, of: daemon)
            let before = try FileManager.default.subpathsOfDirectory(atPath: bench.folder.path)
            let endless =
                "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 1 AS origin, 4 AS kind, id AS object, NULL AS detail FROM n"
            for (index, sql) in [
                "UPDATE historyd_store SET value = '../private/secret' WHERE key = 'id'",
                "UPDATE historyd_store SET value = x'00ff' WHERE key = 'id'",
                // At once: between the two the tracking follows, and reads this table no more.
                "BEGIN; ALTER TABLE t ADD COLUMN m; UPDATE historyd_entity SET tracked = 'x'; COMMIT",
                "INSERT INTO historyd_change VALUES (NULL, 1, 'x', 1, NULL)",
                "INSERT INTO historyd_change VALUES (9223372036854775807, 1, 4, 1, NULL)",
                "UPDATE historyd_store SET value = 9223372036854775807 WHERE key = 'floor'; INSERT INTO t VALUES (8, 8)",
                "DROP TABLE historyd_change; CREATE VIEW historyd_change AS \(endless)",
            ].enumerated() {
                let saved = bench.path("evil/saved.sqlite")
                try await bench.sql("VACUUM INTO '\(saved)'", of: evil)
                #expect(chown(saved, 65534, 65534) == 0)
                try await Self.attack(bench, evil, sql)
                try await daemon.logged("event=storeLost", times: index + 1)
                // The other store and the control socket do not notice.
                let token = try await bench.commit("INSERT INTO person (name) VALUES ('x')")
                try await bench.steer(
                    "wait", "--store", "contacts", "--consumer", "MainApp", "--token", token, "--timeout", "10s"
                )
                try await bench.steer("status")
                // Mended: its own user puts back what was there.
                try await bench.start(
                    Self.nobody + [
                        "/bin/sh", "-c",
                        "cd \(bench.path("evil")) && rm -f evil.sqlite-* && mv saved.sqlite evil.sqlite",
                    ],
                    "mend-\(index)"
                ).succeed()
                let own = try await bench.start(
                    [Products.historyctl, "exec", evil, "--author", "Widget", "INSERT INTO t (n) VALUES (1)"],
                    "own-\(index)"
                ).succeed().trimmingCharacters(in: .whitespacesAndNewlines)
                try await eventually("its own store, mended after \(sql)", within: .seconds(60)) {
                    try await bench.ctl(
                        "wait", "--store", "evil", "--consumer", "Mirror", "--token", own, "--timeout", "1s"
                    ).status == .exited(0)
                }
            }
            try await daemon.stop()
            let after = try FileManager.default.subpathsOfDirectory(atPath: bench.folder.path)
            let isOurs = { (name: String) in
                ["attack-", "mend-", "sql-", "exec-", "ctl-", "writer-", "own-"].contains { name.hasPrefix($0) }
                    || name.hasPrefix("evil/")
            }
            let more = Set(after).subtracting(before).filter {
                !isOurs($0) && !$0.hasPrefix("contacts.sqlite") && !$0.hasPrefix("calls")
                    && $0 != "state/counters.json"
            }
            #expect(more.isEmpty, "\(more)")
            #expect(
                try await bench.sql("SELECT text FROM secret; PRAGMA journal_mode", of: secret)
                    == "rosebud\ndelete\n")
        }
    }

    @Test("SQL that it puts behind its schema's definitions reads, changes and makes nothing")
    func schema() async throws {
        try await Self.withTarget { bench, evil, secret in
            let made = bench.path("private/made.sqlite")
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try await bench.start(["/bin/sh", "-c", "rm \(bench.path("evil-view.sqlite"))*"], "remove")
                .succeed()
            for name in ["t", "t_n"] {
                try await Self.attack(
                    bench, evil,
                    """
                    PRAGMA writable_schema = ON;
                    UPDATE sqlite_schema SET sql = sql || '; ATTACH ''\(secret)'' AS v; CREATE TABLE leak_\(name) AS SELECT * FROM v.secret; UPDATE v.secret SET text = ''gone''; ATTACH ''\(made)'' AS m; CREATE TABLE m.x (y)'
                    WHERE name = '\(name)';
                    """)
            }
            let daemon = try await bench.startDaemon()
            try await daemon.logged("is created without the table \"t\"")
            let token = try await bench.commit("INSERT INTO person (name) VALUES ('x')")
            try await bench.steer(
                "wait", "--store", "contacts", "--consumer", "MainApp", "--token", token, "--timeout", "10s")
            try await daemon.stop()
            #expect(try await bench.sql("SELECT text FROM secret", of: secret) == "rosebud\n")
            #expect(!FileManager.default.fileExists(atPath: made))
            #expect(
                try await bench.sql(
                    "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'leak%'",
                    of: bench.path("evil-view.sqlite"))
                    == "0\n")
        }
    }

    @Test("A link in its folder to another configured store stops nobody but its own")
    func linkToAnother() async throws {
        try await Self.withTarget { bench, evil, _ in
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.start(
                Self.nobody + [
                    "/bin/sh", "-c",
                    "cd \(bench.path("evil")) && rm -f evil.sqlite* && ln -s \(bench.store) evil.sqlite",
                ], "link"
            ).succeed()
            try await daemon.logged("leads to a file of user 0")
            try await bench.steer("reload")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(2, of: daemon)
            try await daemon.stop()
            let again = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.calls(3, of: again)
            let stores = try await bench.report("status")["stores"].list
            #expect(stores.map { $0["state"].text } == ["open", "waiting"])
            #expect(stores.last?["problem"].text?.contains("leads to a file of user 0") == true, "\(stores)")
            try await again.stop()
        }
    }

    @Test("A link in its folder leads the daemon to no file of somebody else")
    func links() async throws {
        try await Self.withTarget { bench, evil, secret in
            try await bench.start(
                Self.nobody + [
                    "/bin/sh", "-c",
                    "cd \(bench.path("evil")) && rm -f evil.sqlite* && ln -s \(secret) evil.sqlite",
                ], "link"
            ).succeed()
            let daemon = try await bench.startDaemon()
            try await daemon.logged("leads to a file of user 0")
            try await daemon.stop()
            #expect(
                try await bench.sql(
                    "SELECT group_concat(name) FROM sqlite_schema; PRAGMA journal_mode", of: secret)
                    == "secret\ndelete\n")
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: bench.path("private")) == ["secret.sqlite"])
        }
    }
}
