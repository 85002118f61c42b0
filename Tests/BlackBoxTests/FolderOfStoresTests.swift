import Foundation
import TestSupport
import Testing

/// One entry for a folder: each file in it is a store, from a moment after it is there until it is gone.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct FolderOfStoresTests {
    private static let table = "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)"

    private func configure(_ bench: Workbench, name: String = "tenant-{name}", _ more: String = "") throws {
        try bench.folder.write(
            "historyd.json",
            #"""
            {"version": 1, "plugins": ["plugins.json"], "stores": [{
              "name": "\#(name)", "folder": "tenants", "pattern": "*.sqlite", "entities": {"person": {}},
              "authors": [{"name": "App"}]\#(more)}]}
            """#)
        let plugin = PluginSetup(hooks: [#"{"name": "all", "kind": "observer", "store": "tenant-*"}"#])
        try bench.folder.write(
            "plugins.json", #"{"version": 1, "plugins": [\#(plugin.json(folder: bench.folder.path))]}"#)
        try FileManager.default.createDirectory(
            atPath: bench.path("tenants"), withIntermediateDirectories: true)
    }

    private func run(_ bench: Workbench, _ arguments: String...) async throws {
        try await bench.start(arguments, "run-\(UUID().uuidString)").succeed()
    }

    /// Waits until stores are served, and no others.
    private func served(_ names: String..., by bench: Workbench) async throws {
        try await eventually("\(names) are served") {
            let stores = try await bench.report("status")["stores"].list
            let open = stores.filter { $0["state"].text == "open" }.map { $0["name"].text ?? "" }
            return open.sorted() == names.sorted()
        }
    }

    private func insert(_ id: Int, into bench: Workbench, _ store: String) async throws {
        try await bench.write(
            "INSERT INTO person (id) VALUES (\(id))", to: bench.path("tenants/\(store).sqlite"))
    }

    private func calls(_ count: Int, _ bench: Workbench, _ daemon: DaemonUnderTest) async throws -> [String] {
        try await bench.calls(count, of: daemon).map {
            "\($0.params.store) \($0.params.contexts.map(\.key).joined())"
        }
    }

    @Test("Stores come by sqlite3, cp, mv, rsync and tar, go, and keep their places under other names")
    func comingAndGoing() async throws {
        try await withWorkbench { bench in
            try configure(bench)
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/one.sqlite"), Self.table)
            let daemon = try await bench.startDaemon()
            try await served("tenant-one", by: bench)
            try await insert(1, into: bench, "one")
            #expect(try await calls(1, bench, daemon) == ["tenant-one p1"])

            // Made beside it, and moved or copied there as one.
            try await run(bench, "/usr/bin/sqlite3", bench.path("made.sqlite"), Self.table)
            try await run(bench, "/bin/cp", bench.path("made.sqlite"), bench.path("tenants/two.sqlite"))
            try await run(bench, "/bin/mv", bench.path("made.sqlite"), bench.path("tenants/three.sqlite"))
            try await served("tenant-one", "tenant-two", "tenant-three", by: bench)
            try await insert(2, into: bench, "two")
            #expect(try await calls(2, bench, daemon).last == "tenant-two p2")
            try await insert(3, into: bench, "three")
            #expect(try await calls(3, bench, daemon).last == "tenant-three p3")

            // What was committed before it was moved, and under neither name, is delivered under the new one.
            try await run(bench, "/bin/mv", bench.path("tenants/two.sqlite"), bench.path("away"))
            try await served("tenant-one", "tenant-three", by: bench)
            try await bench.write("INSERT INTO person (id) VALUES (4)", to: bench.path("away"))
            try await run(bench, "/bin/mv", bench.path("away"), bench.path("tenants/four.sqlite"))
            #expect(try await calls(4, bench, daemon).last == "tenant-four p4")

            try await run(bench, "/bin/rm", bench.path("tenants/one.sqlite"))
            try await served("tenant-three", "tenant-four", by: bench)

            if FileManager.default.isExecutableFile(atPath: "/usr/bin/rsync") {
                try await run(bench, "/usr/bin/sqlite3", bench.path("source/five.sqlite"), Self.table)
                try await run(bench, "/usr/bin/rsync", "-a", bench.path("source/"), bench.path("tenants/"))
                try await served("tenant-three", "tenant-four", "tenant-five", by: bench)
                try await insert(5, into: bench, "five")
                #expect(try await calls(5, bench, daemon).last == "tenant-five p5")
                try await run(bench, "/bin/rm", bench.path("tenants/five.sqlite"))
            }
            // The whole folder goes away, and comes back.
            try await run(bench, "/bin/mv", bench.path("tenants"), bench.path("elsewhere"))
            try await served(by: bench)
            try await bench.write("INSERT INTO person (id) VALUES (6)", to: bench.path("elsewhere/four.sqlite"))
            try await run(bench, "/bin/tar", "-C", bench.path("elsewhere"), "-cf", bench.path("all.tar"), ".")
            try await run(bench, "/bin/rm", "-r", bench.path("elsewhere"))
            try await run(bench, "/bin/mkdir", bench.path("tenants"))
            try await run(bench, "/bin/tar", "-C", bench.path("tenants"), "-xf", bench.path("all.tar"))
            try await served("tenant-three", "tenant-four", by: bench)
            try await eventually("the commit that was made elsewhere") {
                try bench.calls().contains { $0.params.contexts.map(\.key) == ["p6"] }
            }
            try await daemon.stop()
        }
    }

    @Test(
        "The application's first transactions never find a lock, though it waits for none",
        arguments: Journal.allCases)
    func firstTransactions(_ journal: Journal) async throws {
        try await withWorkbench { bench in
            try configure(bench)
            let daemon = try await bench.startDaemon()
            try await bench.startPython(
                """
                import os, random, time
                for number in range(40):
                    connection = sqlite3.connect(f'{bench}/tenants/t{number}.sqlite', isolation_level=None, timeout=0)
                    connection.execute('PRAGMA journal_mode = \(journal.rawValue)')
                    time.sleep(random.random() / 20)
                    connection.execute('BEGIN')
                    connection.execute('CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)')
                    time.sleep(random.random() / 20)
                    connection.execute('CREATE TABLE other (id INTEGER PRIMARY KEY)')
                    connection.execute('COMMIT')
                    # From here on it is read, and in a rollback journal's modes a reader may stand in a commit's way.
                    if '\(journal.rawValue)' != 'wal': connection.execute('PRAGMA busy_timeout = 10000')
                    for id in range(5):
                        connection.execute('INSERT INTO person VALUES (?, NULL)', (id,))
                        time.sleep(random.random() / 20)
                    connection.close()
                """
            ).succeed()
            try await eventually("all stores", within: .seconds(60)) {
                try await bench.report("status")["stores"].list.filter { $0["state"].text == "open" }.count
                    == 40
            }
            #expect(daemon.problems(bench) == [])
            try await daemon.stop()
        }
    }

    @Test("Whatever else is put in the folder is named once, and nobody gains by it")
    func hostility() async throws {
        try await withWorkbench { bench in
            try configure(bench, #", "maximumStores": 30"#)
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/good.sqlite"), Self.table)
            try await run(bench, "/usr/bin/sqlite3", bench.path("secret.sqlite"), Self.table)
            let daemon = try await bench.startDaemon()
            try await served("tenant-good", by: bench)
            try await bench.startPython(
                """
                import os
                os.chdir(bench + '/tenants')
                os.symlink('../secret.sqlite', 'link.sqlite')
                os.symlink('good.sqlite', 'inner.sqlite')
                os.link('../secret.sqlite', 'hard.sqlite')
                os.mkfifo('fifo.sqlite')
                os.mkdir('folder.sqlite')
                open('text.sqlite', 'w').write('x' * 5000)
                open('empty.sqlite', 'w')
                for name in ['new\\nline', '\\x1b[2J', ' ', '{name}', '-rf', 'a"b', 'ä', 'x' * 200]:
                    open(name + '.sqlite', 'w').write('x')
                # What is served is exchanged for a link.
                connection = sqlite3.connect('bad.sqlite')
                connection.execute('\(Self.table)')
                connection.close()
                """
            ).succeed()
            try await served("tenant-good", "tenant-bad", by: bench)
            try await run(bench, "/bin/ln", "-sfn", "../secret.sqlite", bench.path("tenants/bad.sqlite"))
            try await served("tenant-good", by: bench)
            for name in ["link", "inner", "hard", "fifo", "text", "bad"] {
                try await daemon.logged("tenants/\(name).sqlite\" is no store")
            }
            try await daemon.logged("new\\u{a}line.sqlite\" is no store")
            try await insert(1, into: bench, "good")
            #expect(try await calls(1, bench, daemon) == ["tenant-good p1"])
            // Nothing was recorded, nor any file made, where the links lead.
            #expect(
                try await bench.sql("SELECT count(*) FROM sqlite_schema", of: bench.path("secret.sqlite"))
                    .wholeLines == ["1"])
            let refusals = daemon.log.filter { $0.contains("event=fileRefused") }
            #expect(Set(refusals).count == refusals.count)

            // Too many: those that were there are served, and health says what is the matter.
            try await run(
                bench, "/bin/sh", "-c",
                "cd '\(bench.path("tenants"))' && for i in $(seq 2000); do : > e$i.sqlite; done")
            try await daemon.logged("event=folderCrowded")
            let health = try await bench.ctl("health", "--format", "json")
            #expect(try health.json()["reasons"].list.contains { $0["cause"].text == "folderCrowded" })
            try await insert(2, into: bench, "good")
            #expect(try await calls(2, bench, daemon).last == "tenant-good p2")
            // And when they are gone, what is new is served again.
            try await run(bench, "/bin/sh", "-c", "cd '\(bench.path("tenants"))' && rm e*.sqlite")
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/late.sqlite"), Self.table)
            try await served("tenant-good", "tenant-late", by: bench)
            try await daemon.stop()
        }
    }

    @Test(
        "A store that is no database when the daemon begins is not left out: health names it until it is put right",
        arguments: ["no database at all", ""])
    func spoiled(content: String) async throws {
        try await withWorkbench { bench in
            try configure(bench)
            let (path, copy) = (bench.path("tenants/one.sqlite"), bench.path("copy"))
            try await run(bench, "/usr/bin/sqlite3", path, Self.table)
            var daemon = try await bench.startDaemon()
            try await served("tenant-one", by: bench)
            try await daemon.stop()
            try await insert(1, into: bench, "one")
            try await run(bench, "/usr/bin/sqlite3", path, "VACUUM INTO '\(copy)'")
            // A file that is no store's is left alone beside it.
            for name in ["tenants/one.sqlite", "tenants/stray.sqlite"] { try bench.folder.write(name, content) }
            daemon = try await bench.startDaemon()
            func verdict() async throws -> [String] {
                let health = try await bench.ctl("health", "--format", "json").json()
                let stores = health["reasons"].list.compactMap { $0["store"].text }
                return [health["verdict"].text ?? ""] + stores
            }
            try await eventually("a store that is no database") {
                try await verdict().dropFirst() == ["tenant-one"]
            }
            #expect(try await verdict().first != "healthy")
            try await run(bench, "/bin/cp", copy, path)
            #expect(try await calls(1, bench, daemon) == ["tenant-one p1"])
            try await eventually("a store that is there again") { try await verdict() == ["healthy"] }
            try await daemon.stop()
        }
    }

    @Test(
        "A twin: however stores are made, moved and removed, and the daemon killed, each commit comes with its store's name"
    )
    func twin() async throws {
        try await withWorkbench { bench in
            try configure(bench)
            var daemon = try await bench.startDaemon()
            // Each row's name says in which store, by its name, it was written.
            let writer = try await bench.startPython(
                """
                import os, random, shutil, time
                random.seed(\(Int.random(in: 0..<1_000_000)))
                os.chdir(bench + '/tenants')
                stores, made, row = {}, 0, 0
                def execute(name, *statements):
                    connection = sqlite3.connect(name + '.sqlite', isolation_level=None, timeout=30)
                    for statement in statements: connection.execute(*statement)
                    connection.close()
                def tracked(name):
                    connection = sqlite3.connect(name + '.sqlite', timeout=30)
                    try: return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'historyd_change'").fetchone()
                    finally: connection.close()
                expected = open(bench + '/expected', 'w')
                end = time.time() + 12
                while time.time() < end:
                    choice = random.random()
                    if choice < 0.2 and len(stores) < 30:
                        name = f's{made}'; made += 1
                        if random.random() < 0.5:
                            execute(name, ('PRAGMA journal_mode = wal',), ('\(Self.table)',))
                        else:
                            connection = sqlite3.connect(f'../{name}.tmp'); connection.execute('\(Self.table)'); connection.close()
                            if random.random() < 0.5: os.rename(f'../{name}.tmp', f'{name}.sqlite')
                            else: shutil.copy(f'../{name}.tmp', f'{name}.sqlite')
                        stores[name] = False
                    elif choice < 0.9 and stores:
                        name = random.choice(list(stores))
                        stores[name] = stores[name] or bool(tracked(name))
                        if stores[name]:
                            row += 1
                            execute(name, ('INSERT INTO person VALUES (?, ?)', (row, name)))
                            expected.write(f'{name} {row}\\n'); expected.flush()
                    elif stores:
                        name = random.choice(list(stores))
                        new = f's{made}'; made += 1
                        if not os.path.exists(name + '.sqlite-wal'):
                            os.rename(name + '.sqlite', new + '.sqlite')
                            stores[new] = stores.pop(name)
                    time.sleep(random.random() / 50)
                print('done', flush=True)
                """)
            for _ in 0..<4 {
                try await observe(for: .seconds(Double.random(in: 1...3)))
                try await daemon.kill()
                daemon = try bench.launchDaemon()
            }
            try await writer.succeed()
            let expected = try String(contentsOfFile: bench.path("expected"), encoding: .utf8)
                .split(separator: "\n").map { String($0.split(separator: " ")[1]) }
            #expect(expected.count > 20)
            try await eventually(
                "\(expected.count) rows", within: .seconds(120),
                state: { "\n" + daemon.log.suffix(30).joined(separator: "\n") }
            ) {
                let rows = Set(
                    try bench.calls().flatMap { $0.params.contexts.map { String($0.key.dropFirst()) } })
                return Set(expected).isSubset(of: rows)
            }
            // What is repeated after a kill has the same delivery.
            let calls = try bench.calls()
            var deliveries: [String: Set<String>] = [:]
            for call in calls {
                for context in call.params.contexts {
                    deliveries[context.key, default: []].insert(call.params.delivery)
                }
            }
            let stores = try FileManager.default.contentsOfDirectory(atPath: bench.path("tenants"))
                .filter { $0.hasSuffix(".sqlite") }.map { "tenant-\($0.dropLast(".sqlite".count))" }
            #expect(Set(calls.map(\.params.store)).count >= 1)
            for (key, ids) in deliveries { #expect(ids.count == 1, "\(key)") }
            // All are served under the names that they have now.
            try await eventually("all stores") {
                let open = try await bench.report("status")["stores"].list.filter { $0["state"].text == "open" }
                return Set(open.map { $0["name"].text ?? "" }) == Set(stores)
            }
            try await daemon.stop()
        }
    }

    @Test("A folder that is out of this user's reach is not called empty") func unreachable() async throws {
        guard geteuid() == 0, FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv") else {
            return  // Only root can be somebody else.
        }
        try await withWorkbench { bench in
            try configure(bench)
            try bench.folder.write(
                "plugins.json",
                #"{"version": 1, "plugins": [{"name": "p", "command": ["/bin/true"], "hooks": [{"name": "all", "kind": "observer", "store": "tenant-*"}]}]}"#
            )
            let nobody = ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            for (folder, mode) in [("tenants", 0o700), ("tenants", 0o711)] {
                try FileManager.default.setAttributes(
                    [.posixPermissions: 0o755], ofItemAtPath: bench.folder.path)
                try FileManager.default.setAttributes(
                    [.posixPermissions: mode], ofItemAtPath: bench.path(folder))
                let check = try bench.launchDaemon(["--check-config"], name: "check", under: nobody)
                #expect(try await check.program.end() == .exited(0))
                #expect(
                    check.log.contains { $0.contains(#"The stores of "tenant-{name}" would wait"#) },
                    "\(check.log)")
                #expect(!check.log.contains { $0.contains("has 0 stores now") }, "\(check.log)")
            }
            // What bars the way is opened too, not the folder alone.
            try await run(
                bench, "/bin/sh", "-ec",
                "cd '\(bench.folder.path)'; mkdir -m 700 closed; mkdir closed/tenants; sed -i s:\"tenants\":\"closed/tenants\": historyd.json"
            )
            let check = try bench.launchDaemon(["--check-config"], name: "check", under: nobody)
            #expect(try await check.program.end() == .exited(0))
            for folder in [":x \(bench.path("closed"))", ":rwx \(bench.path("closed/tenants"))"] {
                #expect(check.log.contains { $0.contains(folder) }, "\(check.log)")
            }
        }
    }

    @Test(
        "Of two files with one name the first is served; a reload leaves the others alone; the state is kept for a time"
    )
    func namesAndStates() async throws {
        try await withWorkbench { bench in
            try configure(bench, #", "recursive": true, "keepState": "2s""#)
            try await run(bench, "/bin/mkdir", bench.path("tenants/eu"))
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/a.sqlite"), Self.table)
            let check = try bench.launchDaemon(["--check-config"], name: "check")
            #expect(try await check.program.end() == .exited(0))
            #expect(
                check.program.output.contains("stores 0, folders 1, consumers 0"), "\(check.program.output)")
            #expect(check.log.contains { $0.contains("has 1 store now") }, "\(check.log)")
            let daemon = try await bench.startDaemon()
            try await served("tenant-a", by: bench)
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/eu/a.sqlite"), Self.table)
            let refusal = try await daemon.logged("event=fileRefused")
            #expect(refusal.contains("tenants/a.sqlite") && refusal.contains("tenants/eu/a.sqlite"))
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/eu/b.sqlite"), Self.table)
            try await served("tenant-a", "tenant-b", by: bench)
            let reload = try await bench.report("reload")
            #expect(reload["stores"]["unchanged"].texts.sorted() == ["tenant-a", "tenant-b"])

            // With the folder, what is in it goes; and what waited for a name comes.
            try await run(bench, "/bin/rm", bench.path("tenants/a.sqlite"))
            try await eventually("the other one") {
                try await bench.report("status")["stores"].list.contains {
                    ($0["path"].text ?? "").hasSuffix("eu/a.sqlite")
                }
            }
            try await insert(7, into: bench, "eu/a")
            #expect(try await calls(1, bench, daemon) == ["tenant-a p7"])
            try await run(bench, "/bin/rm", "-r", bench.path("tenants/eu"))
            try await served(by: bench)
            try await daemon.logged("event=stateRemoved", times: 3)
            let states = try FileManager.default.contentsOfDirectory(atPath: bench.path("state"))
            #expect(!states.contains { $0.hasSuffix(".store") })
            try await daemon.stop()
            #expect(try await bench.runDaemon("--once").status == .exited(0))
        }
    }

    @Test(
        "A folder is one line, with the names of those in trouble alone; a pattern selects, and metrics are bounded"
    )
    func readable() async throws {
        try await withWorkbench { bench in
            try configure(bench)
            for number in 0..<12 {
                try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/t\(number).sqlite"), Self.table)
            }
            let daemon = try await bench.startDaemon()
            try await bench.startPython(
                "import shutil; shutil.copy(bench + '/tenants/t3.sqlite', bench + '/tenants/copy.sqlite')"
            )
            .succeed()
            try await eventually("a copy") {
                try await bench.report("status")["stores"].list.contains { $0["state"].text == "waiting" }
            }
            let status = try await bench.steer("status")
            #expect(!status.contains("tenant-t1 ") && status.contains("tenant-copy"), "\(status)")
            let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("tenant-{name}") })
            #expect(
                line.split(separator: " ").map(String.init)
                    == ["tenant-{name}", "13", "12", "0", "1", "0", "0", "1", "0", "0"])
            let consumers = try await bench.steer("consumers")
            #expect(!consumers.contains("tenant-t1 ") && consumers.contains("tenant-copy"), "\(consumers)")
            #expect(consumers.contains("12 consumers of tenant-{name} without a problem"))
            let selected = try await bench.report("consumers", "--store", "tenant-t1*")["consumers"].list
            #expect(selected.map { $0["store"].text } == ["tenant-t1", "tenant-t10", "tenant-t11"])
            let metrics = try await bench.steer("metrics")
            #expect(!metrics.contains("store=\"tenant-"))
            #expect(metrics.contains("historyd_template_stores{template=\"tenant-{name}\",state=\"open\"} 12"))
            // The journal says of all together that they came.
            #expect(!daemon.log.contains { $0.contains("\"tenant-t5\" is open") })
            #expect(daemon.log.contains { $0.contains("12 stores more") })
            try await bench.steer("pause", "tenant-t1*")
            let paused = try await bench.report("status")["stores"].list.filter { $0["state"].text == "paused" }
            #expect(paused.count == 3)
            // One of the consumers, in all that fit.
            let copy = try await bench.report("consumers", "--store", "tenant-copy")["consumers"][0]
            #expect(copy["problem"].text?.contains("copy") == true, "\(copy)")
            let author = try #require(selected.first?["consumer"].text)
            let alone = try await bench.report("pause", "tenant-t2*", "--consumer", author)["stores"].list
            #expect(
                alone.map { $0["name"].text } == ["tenant-t2"]
                    && alone.allSatisfy { $0["consumer"].text == author })
            let nobody = try await bench.ctl("pause", "tenant-*", "--consumer", "Nobody")
            #expect(
                nobody.status != .exited(0) && nobody.errors.contains("no consumer \"Nobody\""), "\(nobody)")
            let doctor = try await bench.ctl("doctor")
            #expect(doctor.output.contains("max_user_watches"), "\(doctor.output)")
            #expect(!doctor.output.contains("tenant-t5"), "\(doctor.output)")

            // With more than one entry, and each store's metrics where they are asked for.
            try configure(bench, #", "metricsPerStore": true"#)
            try await bench.steer("reload")
            #expect(try await bench.steer("metrics").contains("historyd_store_open{store=\"tenant-t5\"} 1"))
            try await daemon.stop()
        }
    }

    @Test(
        "A store at rest has nothing open, wakes for nothing, and loses no commit", arguments: Journal.allCases)
    func resting(_ journal: Journal) async throws {
        try await withWorkbench { bench in
            try configure(bench, #", "rest": "300ms""#)
            for name in ["a", "b"] {
                try await run(
                    bench, "/usr/bin/sqlite3", bench.path("tenants/\(name).sqlite"),
                    "PRAGMA journal_mode = \(journal.rawValue); \(Self.table)")
            }
            let daemon = try await bench.startDaemon()
            func rest() async throws {
                try await eventually("rest") {
                    let states = try await bench.report("status")["stores"].list.map { $0["state"].text }
                    return states == ["resting", "resting"]
                }
            }
            try await rest()
            try await eventually("nothing open") {
                let folder = "/proc/\(daemon.processID)/fd"
                let open = try FileManager.default.contentsOfDirectory(atPath: folder).compactMap {
                    try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")
                }
                return !open.contains { $0.contains("/tenants/") }
            }
            try await daemon.quiet()
            #expect(try await bench.ctl("health").status == .exited(0))
            // Reports leave it alone, and say where it is.
            let consumers = try await bench.report("consumers", "--store", "tenant-*")["consumers"].list
            #expect(consumers.map { $0["state"].text } == ["level", "level"])
            try await rest()

            // Commits just as it comes to rest, and while it rests.
            try await bench.startPython(
                """
                import random, time
                random.seed(\(Int.random(in: 0..<1_000_000)))
                for row in range(120):
                    connection = sqlite3.connect(f"{bench}/tenants/{random.choice('ab')}.sqlite", isolation_level=None, timeout=30)
                    connection.execute('INSERT INTO person VALUES (?, NULL)', (row,))
                    if random.random() < 0.5: connection.close()
                    time.sleep(random.choice((0, 0.01, 0.3, 0.45, 0.7)) * random.random() * 1.5)
                """
            ).succeed()
            // Commits of one millisecond may be one transaction.
            func delivered() throws -> [String] { try bench.calls().flatMap(\.params.contexts).map(\.key) }
            try await eventually("120 rows") { try delivered().count >= 120 }
            #expect(try Set(delivered()) == Set((0..<120).map { "p\($0)" }) && delivered().count == 120)
            try await rest()
            // What asks for the store itself opens it.
            #expect(try await bench.ctl("run", "tenant-a").status == .exited(0))
            try await rest()
            try await bench.sql(
                "ALTER TABLE person ADD COLUMN age; CREATE TABLE other (x)", of: bench.path("tenants/b.sqlite"))
            try await bench.sql(
                "INSERT INTO person (id, age) VALUES (1000, 1)", of: bench.path("tenants/b.sqlite"))
            try await eventually("what was committed after a change of the schema") {
                try delivered().contains("p1000")
            }
            try await rest()
            // The last commits stay in the log, as long as somebody has the store open. Who moves that first does not
            // wake the store, which would be opened without them.
            let reader = try await bench.startPython(
                """
                import os, time
                connection = sqlite3.connect(f"{bench}/tenants/b.sqlite", isolation_level=None)
                connection.execute('PRAGMA wal_autocheckpoint = 0')
                connection.execute('INSERT INTO person (id) VALUES (1001)')
                while not os.path.exists(f"{bench}/moved"): time.sleep(0.02)
                """)
            try await eventually("what is in the log") { try delivered().contains("p1001") }
            try await rest()
            for part in ["-wal", "-shm", ""] {
                try await run(
                    bench, "/bin/sh", "-ec",
                    "cd '\(bench.path("tenants"))'; [ ! -e b.sqlite\(part) ] || mv b.sqlite\(part) c.sqlite\(part)"
                )
                if part != "" { try await daemon.quiet() }
            }
            try await eventually("the renamed one") {
                try await bench.report("status")["stores"].list.map { $0["name"].text } == [
                    "tenant-a", "tenant-c",
                ]
            }
            try bench.folder.write("moved", "")
            try await reader.succeed()
            try await bench.sql("INSERT INTO person (id) VALUES (1002)", of: bench.path("tenants/c.sqlite"))
            try await eventually("what was committed under another name") { try delivered().contains("p1002") }
            #expect(try bench.calls().last?.params.store == "tenant-c")
            #expect(daemon.problems(bench) == [])
            try await daemon.stop()
        }
    }

    @Test(
        "A folder that does not exist is said, whether it comes or goes, and its stores are served when it is there"
    )
    func missing() async throws {
        try await withWorkbench { bench in
            try configure(bench)
            func causes() async throws -> [String] {
                let health = try await bench.ctl("health", "--format", "json")
                return try health.json()["reasons"].list.compactMap { $0["cause"].text }
            }
            let (folder, away) = (bench.path("tenants"), bench.path("away"))
            try FileManager.default.removeItem(atPath: folder)
            let daemon = try await bench.startDaemon()
            try await daemon.logged("does not exist. Its stores are served as soon as it does.")
            #expect(try await causes() == ["folderMissing"])
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/one.sqlite"), Self.table)
            try await served("tenant-one", by: bench)
            #expect(try await causes() == [])
            try FileManager.default.moveItem(atPath: folder, toPath: away)
            try await eventually("a folder that is gone") { try await causes() == ["folderMissing"] }
            try FileManager.default.moveItem(atPath: away, toPath: folder)
            try await served("tenant-one", by: bench)
            #expect(try await causes() == [])
            try await daemon.stop()
        }
    }

    @Test(
        "A folder that may not be read, or is behind one that may not, is said, and watched as soon as it may",
        .enabled(if: Users.obstacle == nil),
        arguments: [
            ("chmod 300 tenants", "chmod 755 tenants"),
            (
                "mkdir -m 700 private; mv tenants private; ln -s private/tenants tenants",
                "chmod 755 private"
            ),
        ])
    func unreadable(obstacle: String, remedy: String) async throws {
        try await withWorkbench { bench in
            try configure(bench)
            try await run(bench, "/usr/bin/sqlite3", bench.path("tenants/one.sqlite"), Self.table)
            try await run(
                bench, "/bin/sh", "-ec",
                "cd '\(bench.folder.path)'; mkdir state; chown -R \(Users.daemon):\(Users.daemon) .; chmod 755 .; \(obstacle)"
            )
            let daemon = try bench.launchDaemon(under: Users.run(as: Users.daemon))
            try await daemon.ready()
            try await daemon.logged("event=folderUnwatched")
            let health = try await bench.ctl("health", "--format", "json")
            #expect(try health.json()["reasons"].list.map { $0["cause"].text } == ["folderNotWatched"])
            #expect(!daemon.log.contains { $0.contains("does not exist") }, "\(daemon.log)")
            try await daemon.sparing()
            try await run(bench, "/bin/sh", "-ec", "cd '\(bench.folder.path)'; \(remedy)")
            try await served("tenant-one", by: bench)
            #expect(try await bench.ctl("health").status == .exited(0))
            try await daemon.stop()
        }
    }
}
