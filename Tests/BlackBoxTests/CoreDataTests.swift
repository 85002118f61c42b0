import CoreDataStores
import Foundation
import TestSupport
import Testing

/// The daemon and the tools on stores that Core Data writes.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct CoreDataTests {
    private static let model = StoreModel([
        .init("Note", attributes: [.init("text", .string, isPreserved: true), .init("at", .date)]),
        .init("Tag", attributes: [.init("title", .string)]),
    ])

    private func store(_ bench: Workbench, uuid: String = "0F0E0D0C-0B0A-4908-8706-050403020100") throws
        -> GeneratedStore
    {
        try FileManager.default.removeItem(atPath: bench.store)
        return try GeneratedStore(bench.store, Self.model, uuid: uuid, random: SystemRandomNumberGenerator())
    }

    private static func setup(_ authors: String = #"[{"name": "MainApp"}]"#, more: String = "") -> StoreSetup {
        StoreSetup(entities: nil, authors: authors, more: #""source": "coreData""# + more)
    }

    /// Waits until the consumer has had a transaction.
    private func reached(_ number: Int, _ bench: Workbench, _ daemon: DaemonUnderTest) async throws {
        let state = bench.path("state/0F0E0D0C-0B0A-4908-8706-050403020100.sqlite")
        try await eventually("the cursor at \(number)", state: { daemon.log.joined(separator: "\n") }) {
            try await bench.sql("SELECT position FROM cursor", of: state) == "\(number)\n"
        }
    }

    private static let widget = GeneratedStore.Origin(author: "Widget")

    @Test("A live store is followed: hooks, purges, a migration, a restart")
    func followed() async throws {
        try await withWorkbench { bench in
            let store = try store(bench)
            try bench.configure(Self.setup())
            try store.commit(Self.widget, [.init("Note", 1, .insert)])
            var daemon = try await bench.startDaemon()
            try await reached(1, bench, daemon)
            try store.commit(Self.widget, [.init("Note", 1, .update(["text"])), .init("Tag", 1, .insert)])
            // Of its own it gets nothing, nor of one without changes.
            try store.commit(.init(author: "MainApp"), [.init("Tag", 2, .insert)])
            try store.commit(Self.widget, [])
            try await reached(4, bench, daemon)
            try store.purge(through: 2)
            var model = store.model
            model.entities.append(.init("AAA"))
            try store.migrate(to: model)
            try store.commit(.init(), [.init("Tag", 3, .delete([:]))])
            try await reached(6, bench, daemon)
            try await daemon.stop()
            #expect(
                try bench.calls().map(\.summary) == [
                    "audit/all MainApp 1 Widget Note insert p1", "audit/all MainApp 2 Widget Note update p1",
                    "audit/all MainApp 2 Widget Tag insert p1", "audit/all MainApp 6 - Tag delete p3",
                ])
            let call = try bench.calls()[1].text
            #expect(call.contains(#""processID":"app","bundleID":"org.example.app""#))
            #expect(call.contains(#""changedProperties":["text"]"#))
            #expect(
                call.contains(
                    #""objectID":{"Z_PK":1},"objectIDURL":"x-coredata://0F0E0D0C-0B0A-4908-8706-050403020100/Note/p1""#
                ))
            // What comes while it is down is delivered at the start; what is purged meanwhile is told.
            try store.commit(Self.widget, [.init("Note", 7, .insert)])
            daemon = try await bench.startDaemon()
            try await reached(7, bench, daemon)
            try await daemon.stop()
            #expect(try bench.calls().last?.summary == "audit/all MainApp 7 Widget Note insert p7")
            try store.commit(Self.widget, [.init("Note", 8, .insert)])
            try store.purge(through: 8)
            daemon = try await bench.startDaemon()
            try await daemon.logged("event=tokenExpired")
            try await daemon.stop()
            store.close()
        }
    }

    @Test("A store at rest is left as it is, and its later life is followed")
    func fromRest() async throws {
        try await withWorkbench { bench in
            let first = try store(bench)
            try first.commit(Self.widget, [.init("Note", 1, .insert)])
            first.close()
            let before = try Data(contentsOf: URL(fileURLWithPath: bench.store))
            try bench.configure(Self.setup())
            let daemon = try await bench.startDaemon()
            try await reached(1, bench, daemon)
            #expect(try Data(contentsOf: URL(fileURLWithPath: bench.store)) == before)
            let names = try FileManager.default.contentsOfDirectory(atPath: bench.folder.path)
            #expect(names.filter { $0.hasPrefix("contacts.sqlite") } == ["contacts.sqlite"])
            // The app is started.
            try await bench.sql(
                """
                BEGIN; INSERT INTO ATRANSACTION (Z_PK, ZTIMESTAMP) VALUES (2, 7e8);
                INSERT INTO ACHANGE (ZCHANGETYPE, ZENTITY, ZENTITYPK, ZTRANSACTIONID)
                    SELECT 0, ZENTITY, 9, 2 FROM ACHANGE LIMIT 1; COMMIT
                """
            )
            try await reached(2, bench, daemon)
            #expect(try bench.calls().last?.summary == "audit/all MainApp 2 - Note insert p9")
            try await daemon.stop()
        }
    }

    @Test("Mirroring authors are delivered where that is asked for", arguments: [false, true])
    func mirroring(_ isIncluded: Bool) async throws {
        try await withWorkbench { bench in
            let store = try store(bench)
            try store.commit(.init(author: "NSCloudKitMirroringDelegate.import"), [.init("Note", 1, .insert)])
            try store.commit(Self.widget, [.init("Note", 2, .insert)])
            // Values are for stores in which historyd records.
            try bench.configure(
                Self.setup(more: isIncluded ? #", "includingMirroring": true"# : ""),
                plugins: [PluginSetup(hooks: [#"{"name": "all", "kind": "observer", "values": true}"#])])
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            let expected = ["audit/all MainApp 2 Widget Note insert p2"]
            let imported = ["audit/all MainApp 1 NSCloudKitMirroringDelegate.import Note insert p1"]
            #expect(try bench.calls().map(\.summary) == (isIncluded ? imported : []) + expected)
            store.close()
        }
    }

    @Test(
        "What the consumer's own processes and apps wrote is left out", arguments: ["app", "org.example.app"])
    func ownProcesses(_ name: String) async throws {
        try await withWorkbench { bench in
            let store = try store(bench)
            try bench.configure(
                Self.setup(#"[{"name": "MainApp", "ownProcesses": ["Other", "\#(name)"]}, {"name": "Second"}]"#)
            )
            try store.commit(.init(), [.init("Note", 1, .insert)])
            try store.commit(
                .init(process: "importer", bundleID: "org.example.importer"), [.init("Note", 2, .insert)])
            try store.commit(.init(), [.init("Note", 3, .insert)])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=ready")
            try await bench.steer("run")
            try await daemon.stop()
            #expect(
                try bench.calls().map(\.summary).sorted() == [
                    "audit/all MainApp 2 - Note insert p2", "audit/all Second 1 - Note insert p1",
                    "audit/all Second 2 - Note insert p2", "audit/all Second 3 - Note insert p3",
                ])
            store.close()
        }
    }

    @Test("A feed tells the changes")
    func feed() async throws {
        try await withWorkbench { bench in
            let store = try store(bench)
            try bench.configure(Self.setup(StoreSetup.feeding("live")))
            let daemon = try await bench.startDaemon()
            let listener = try bench.listen()
            try await eventually("the feed", state: { (try? listener.lines.joined(separator: "\n")) ?? "" }) {
                try listener.lines.first?.hasPrefix("begins") == true
            }
            try store.commit(Self.widget, [.init("Note", 1, .insert), .init("Tag", 4, .delete([:]))])
            try await eventually("the change", state: { (try? listener.lines.joined(separator: "\n")) ?? "" }) {
                try listener.lines.contains("1 Widget +p1 -p4")
            }
            // What the app deletes of its history is its own affair.
            let status = try await bench.steer("status")
            #expect(status.contains("open") && !status.contains("never cleaned"))
            try await daemon.stop()
            store.close()
        }
    }

    @Test("Another UUID is another store")
    func replaced() async throws {
        try await withWorkbench { bench in
            let old = try store(bench)
            try old.commit(Self.widget, [.init("Note", 1, .insert)])
            let token = "\(old.uuid):1"
            old.close()
            try bench.configure(Self.setup())
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            let new = try store(bench, uuid: "FFFFFFFF-0B0A-4908-8706-050403020100")
            try new.commit(Self.widget, [.init("Note", 5, .insert)])
            new.close()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            #expect(try bench.calls().last?.summary == "audit/all MainApp 1 Widget Note insert p5")
            let outcome = try await Command(Products.historyctl, ["history", bench.store, "--after", token])
                .run()
            #expect(outcome.errors.contains("belongs to another store"))
        }
    }

    @Test("The wrong kind of source says so")
    func wrongKind() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            try bench.configure(Self.setup())
            let recorded = try await bench.runDaemon("--once")
            #expect(recorded.status != .exited(0))
            #expect(recorded.log.contains { $0.contains("is one in which historyd records") })
            try store(bench).close()
            let before = try Data(contentsOf: URL(fileURLWithPath: bench.store))
            try bench.configure(StoreSetup(entities: #"{"ZNOTE": {}}"#))
            let written = try await bench.runDaemon("--once")
            #expect(written.status != .exited(0))
            #expect(
                written.log.contains {
                    $0.contains("\"source\": \"coreData\"") || $0.contains(#"\"source\": \"coreData\""#)
                })
            let tracked = try await Command(Products.historyctl, ["track", bench.store, "--all"]).run()
            #expect(tracked.status != .exited(0) && tracked.errors.contains("only read"))
            #expect(try Data(contentsOf: URL(fileURLWithPath: bench.store)) == before)
        }
    }

    // MARK: The tools

    @Test("Filters select what they say")
    func filters() async throws {
        try await withWorkbench { bench in
            let store = try store(bench)
            try store.commit(Self.widget, [.init("Note", 1, .insert)])
            try store.commit(.init(), [.init("Note", 1, .update(["text"])), .init("Tag", 1, .insert)])
            try store.commit(Self.widget, [])
            try store.commit(Self.widget, [.init("Note", 1, .delete(["text": .text("a\"b,c")]))])
            store.close()
            func numbers(_ options: String...) async throws -> [String] {
                let output = try await Command(
                    Products.historyctl, ["history", bench.store, "--format", "json"] + options
                ).succeed()
                return output.split(separator: "\n").map { line in
                    String(line.split(separator: "\"")[3].split(separator: ":")[1])
                }
            }
            #expect(try await numbers() == ["1", "2", "3", "4"])
            #expect(try await numbers("--author", "Widget") == ["1", "3", "4"])
            #expect(try await numbers("--no-author") == ["2"])
            #expect(try await numbers("--exclude-author", "Widget") == ["2"])
            #expect(try await numbers("--entity", "note") == ["1", "2", "4"])
            #expect(try await numbers("--operation", "delete", "--operation", "update") == ["2", "4"])
            #expect(try await numbers("--object", "x-coredata://\(store.uuid)/Note/p1") == ["1", "2", "4"])
            #expect(try await numbers("--after", "\(store.uuid):2") == ["3", "4"])
            #expect(try await numbers("--before", "\(store.uuid):2") == ["1"])
            #expect(try await numbers("--reverse", "--limit", "2") == ["4", "3"])
            #expect(try await numbers("--since", "2023-03-08T20:26:43Z") == ["3", "4"])
            #expect(try await numbers("--until", "2023-03-08T20:26:41.5Z") == ["1"])
            let csv = try await Command(Products.historyctl, ["history", bench.store, "--format", "csv"])
                .succeed()
            // Titles, four changes, and a transaction without any.
            #expect(csv.split(separator: "\n").count == 6)
            #expect(csv.contains(#""{""Z_PK"":1}",x-coredata://"#))
            #expect(csv.contains("text,false,"))
            #expect(csv.contains(#"""values"":{""text"":""a\""b,c""}"#))
            let table = try await Command(Products.historyctl, ["history", bench.store]).succeed()
            #expect(
                table.contains("BUNDLE") && table.contains("org.example.app  update     Note    p1      text"))
            let description = try await Command(
                Products.historyctl, ["describe", bench.store, "--format", "json"]
            ).succeed()
            #expect(
                description.contains(#""source":"coreData","storeID":"\#(store.uuid)","frameworkVersion":1251"#)
            )
        }
    }

    @Test("A recorded store has its changes as CSV, too")
    func recordedAsCSV() async throws {
        try await withWorkbench { bench in
            try await Command(Products.historyctl, ["track", bench.store, "person"]).succeed()
            try await bench.sql(
                "INSERT INTO person (id, name) VALUES (1, 'x'); UPDATE person SET name = 'y', age = 3")
            let csv = try await Command(Products.historyctl, ["history", bench.store, "--format", "csv"])
                .succeed()
            let lines = csv.split(separator: "\n")
            #expect(lines.count == 3)
            #expect(lines[2].hasSuffix("/person/p1,name age,false,"))
        }
    }

    private static let samples = Sources.path("../shared/coredata")

    @Test(
        "Read-only media are read with all that the log holds",
        .enabled(if: FileManager.default.fileExists(atPath: samples), "The samples are not beside the project.")
    )
    func readOnlyMedia() async throws {
        let folder = try TemporaryFolder()
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(
                atPath: Self.samples + "/Photos-13.5.1-compare-1.sqlite" + suffix,
                toPath: folder.file("Photos.sqlite" + suffix))
        }
        let script = """
            mount --bind '\(folder.path)' '\(folder.path)' && mount -o remount,bind,ro '\(folder.path)' &&
            ! touch '\(folder.path)/x' 2>/dev/null &&
            '\(Products.historyctl)' history '\(folder.path)/Photos.sqlite' --format json
            """
        let outcome = try await Command("unshare", ["-m", "--propagation", "private", "sh", "-c", script]).run()
        guard outcome.status == .exited(0) else {
            #expect(outcome.errors.contains("unshare") || outcome.errors.contains("mount"), "\(outcome)")
            return
        }
        #expect(outcome.lines.count == 19)
    }

    @Test(
        "A timeline of a Photos library, and what a process deleted",
        .enabled(if: FileManager.default.fileExists(atPath: samples), "The samples are not beside the project.")
    )
    func questions() async throws {
        let photos = Self.samples + "/Photos-13.5.1-compare-2.sqlite"
        let csv = try await Command(Products.historyctl, ["history", photos, "--format", "csv"]).succeed()
        // A line for each change below the titles; the samples have no line breaks in their values.
        #expect(csv.split(separator: "\n").count == 265)
        let screenTime = Self.samples + "/RMAdminStore-Local.sqlite"
        let query =
            #"'\#(Products.historyctl)' history '\#(screenTime)' --operation delete --format json | jq -r 'select(.processID == "ScreenTimeAgent") | .timestamp as $at | .changes[] | select(.entityName == "InstalledApp") | "\($at) \(.tombstone.attributes.bundleIdentifier)"' | head -3"#
        let deleted = try await Command("sh", ["-c", query]).succeed()
        #expect(deleted.split(separator: "\n").count == 3)
        #expect(deleted.contains("Z com.apple."))
    }

    // MARK: PostgreSQL

    private static let postgres = (try? FileManager.default.contentsOfDirectory(atPath: "/usr/lib/postgresql"))?
        .sorted().last.map { "/usr/lib/postgresql/\($0)/bin" }

    @Test(
        "The page's hook copies new rows to PostgreSQL",
        .enabled(if: postgres != nil, "PostgreSQL is not installed."))
    func copiedToPostgres() async throws {
        let programs = try #require(Self.postgres)
        let cluster = try TemporaryFolder()
        // The server refuses to run as root.
        let other = getuid() == 0 ? "setpriv --reuid postgres --regid postgres --clear-groups" : ""
        if getuid() == 0 { try await Command("chown", ["postgres", cluster.path]).succeed() }
        func server(_ arguments: String) async throws {
            try await Command(
                "sh", ["-c", "cd '\(cluster.path)' && \(other) '\(programs)'/\(arguments) >/dev/null 2>&1"]
            ).succeed()
        }
        let data = cluster.file("data")
        try await server("initdb -D '\(data)' -U notes --auth=trust --no-sync")
        try await server("pg_ctl -D '\(data)' -o \"-k '\(cluster.path)' -c listen_addresses=\" -w -t 60 start")
        let result: Result<Void, any Error>
        do {
            result = .success(try await copyNotes(host: cluster.path))
        } catch {
            result = .failure(error)
        }
        try await server("pg_ctl -D '\(data)' -m immediate -w stop")
        try result.get()
    }

    private func copyNotes(host: String) async throws {
        let environment = ["PGHOST": host, "PGUSER": "notes", "PGDATABASE": "postgres"]
        func psql(_ sql: String) async throws -> String {
            try await Command("psql", ["-Atqc", sql], environment: environment).succeed()
        }
        _ = try await psql("CREATE TABLE note (id bigint PRIMARY KEY, text text)")
        try await withWorkbench { bench in
            try FileManager.default.removeItem(atPath: bench.store)
            let page = try Sources.text("Sources/PersistentHistory/PersistentHistory.docc/CoreDataStores.md")
            let script = try #require(
                page.components(separatedBy: "```python\n").last?.components(separatedBy: "```").first)
            let file = try bench.folder.write(
                "copy-notes.py", script.replacing("file:Notes.store", with: "file:" + bench.store))
            let maker = Sources.path("Tests/Tools/Documentation/sample-coredata")
            try await Command(Products.python, [maker, bench.store, "3"]).succeed()
            try bench.configure(
                Self.setup(),
                plugins: [
                    PluginSetup(
                        command: [Products.python, file], mode: "oneshot", environment: environment,
                        hooks: [#"{"name": "notes", "kind": "observer", "entity": "Note"}"#])
                ])
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            #expect(
                try await psql("SELECT string_agg(id || ' ' || text, ',' ORDER BY id) FROM note")
                    == "1 Edited,2 Note 2\n")
            try await Command(Products.python, [maker, bench.store, "1"]).succeed()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
            #expect(try await psql("SELECT max(id) FROM note") == "3\n")
        }
    }
}
