import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// What is kept for a feed, and what it is told where it could not be.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct FeedKeepingTests {
    private func history(_ bench: Workbench) async throws -> [String] {
        try await bench.sql("SELECT id FROM historyd_change WHERE kind & 3 <> 3 ORDER BY id").wholeLines
    }

    @Test("A feed that is not connected holds back the cleanup, is named, and is not passed")
    func holdsBack() async throws {
        try await withWorkbench { bench in
            let clean = #""clean": {"strategy": "byNotification", "times": 1}"#
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live", "other"), more: clean))
            let daemon = try await bench.startDaemon()
            // Its consumer's own changes are nothing to be kept for it.
            try await bench.write("INSERT INTO person (id) VALUES (1), (2)", as: "MainApp")
            try await bench.insert(3...5)
            try await bench.waitUntilServed(5)
            let dryRun = try await bench.report("clean", "--dry-run")["stores"][0]
            #expect(dryRun["keptFor"].list.map { $0["consumer"].text } == ["MainApp", "MainApp"])
            #expect(dryRun["keptFor"].list.map { $0["context"].text } == ["live", "other"])
            #expect(dryRun["keptFor"].list.map { $0["changes"].int } == [3, 3])
            #expect(try await bench.steer("clean", "--dry-run").contains("MainApp/live (3), MainApp/other (3)"))
            let status = try await bench.steer("status")
            #expect(status.contains(#/contacts +MainApp/live +disconnected +3 /#), "\(status)")
            try await bench.steer("clean")
            #expect(try await history(bench) == ["3", "4", "5"])

            try await bench.acknowledge(5, of: "other")
            try await bench.acknowledge(4, of: "live")
            try await bench.steer("clean")
            #expect(try await history(bench) == ["5"])
            let feed = try bench.listen()
            #expect(try await feed.lines(2, of: daemon) == ["begins 4", "5 Widget +p5"])
            // The automatic cleanup waits for it as well.
            try await bench.insert(6...8)
            try await feed.lines(5, of: daemon)
            #expect(try await history(bench) == ["5", "6", "7", "8"])
            try await bench.acknowledge(8, of: "live")
            try await bench.acknowledge(8, of: "other")
            try await bench.insert(9...9)
            try await eventually("the cleanup") { try await history(bench) == ["9"] }
            try await daemon.stop()
        }
    }

    @Test("A feed that has stood still for too long is passed by; it is told, until it has begun again")
    func expires() async throws {
        try await withWorkbench { bench in
            let clean = #""clean": {"strategy": "byDuration", "seconds": "100ms", "maximumDuration": "400ms"}"#
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live"), more: clean), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.insert(1...3)
            try await bench.waitUntilServed(3)
            try await daemon.logged("event=consumerPassedBy")
            try await eventually("the cleanup") { try await history(bench).isEmpty }
            #expect(
                try await bench.report("consumers")["consumers"][0]["contexts"][0]["feed"]["state"].text
                    == "expired")
            // It keeps nothing any more.
            try await bench.insert(4...4)
            try await bench.waitUntilServed(4)
            try await eventually("the cleanup") { try await history(bench).isEmpty }
            // What comes after it was told is kept for it again.
            var daemonWithoutLimit = daemon
            try await daemon.stop()
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            daemonWithoutLimit = try await bench.startDaemon()
            var feed = try bench.listen()
            #expect(try await feed.lines(1, of: daemonWithoutLimit) == ["expired expired 0 > 4"])
            try await bench.insert(5...5)
            #expect(try await feed.lines(2, of: daemonWithoutLimit).last == "5 Widget +p5")
            try await bench.steer("clean")
            #expect(try await history(bench) == ["5"])
            try await feed.kill()
            feed = try bench.listen()
            #expect(
                try await feed.lines(2, of: daemonWithoutLimit) == ["expired expired 0 > 4", "5 Widget +p5"])
            try await bench.acknowledge(4)
            try await feed.kill()
            feed = try bench.listen()
            #expect(try await feed.lines(2, of: daemonWithoutLimit) == ["begins 4", "5 Widget +p5"])
            try await daemonWithoutLimit.stop()
        }
    }

    @Test("One that is connected and loses history by force is told so in its stream")
    func forced() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.feeding(#""name": "live", "window": 2"#)), plugins: [])
            let daemon = try await bench.startDaemon()
            let feed = try bench.listen()
            try await bench.insert(1...2)
            try await feed.lines(3, of: daemon)
            try await bench.insert(3...5)
            try await bench.waitUntilServed(5)
            let report = try await bench.report("clean", "--force")["stores"][0]
            #expect(report["passedBy"].texts == ["MainApp/live"])
            try await bench.insert(6...6)
            try await bench.waitUntilServed(6)
            try await bench.acknowledge(1)
            // What it had acknowledged, and the place of its consumer.
            #expect(
                try await feed.lines(4, of: daemon)
                    == ["begins 0", "1 Widget +p1", "2 Widget +p2", "expired expired 1 > 6"])
            try await bench.insert(7...7)
            #expect(try await feed.lines(5, of: daemon).last == "7 Widget +p7")
            try await bench.acknowledge(6)
            try await daemon.stop()
        }
    }

    @Test("A feed that comes late is told where it begins")
    func late() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp")), plugins: [])
            var daemon = try await bench.startDaemon()
            try await bench.insert(1...3)
            try await bench.waitUntilServed(3)
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("early")), plugins: [])
            try await bench.steer("reload")
            var early = try bench.listen(to: "early", "--acknowledge")
            #expect(
                try await early.lines(4, of: daemon)
                    == ["begins 0", "1 Widget +p1", "2 Widget +p2", "3 Widget +p3"])
            try await eventually("all acknowledged") {
                try await bench.report("clean")["stores"][0]["keptFor"].list.isEmpty
            }
            try await bench.insert(4...4)
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("early", "late")), plugins: [])
            try await bench.steer("reload")
            var late = try bench.listen(to: "late")
            #expect(try await late.lines(1, of: daemon) == ["expired late - > 4"])
            try await early.lines(5, of: daemon)
            // Where the state is lost, nobody guesses.
            try await daemon.stop()
            _ = try await (early.program.end(), late.program.end())
            try FileManager.default.removeItem(atPath: bench.path("state/\(try await bench.id()).sqlite"))
            daemon = try await bench.startDaemon()
            try await bench.waitUntilServed(4)
            early = try bench.listen(to: "early")
            late = try bench.listen(to: "late")
            #expect(try await early.lines(2, of: daemon) == ["expired late - > 3", "4 Widget +p4"])
            #expect(try await late.lines(2, of: daemon) == ["expired late - > 3", "4 Widget +p4"])
            // One that is configured no more is told so, and keeps nothing.
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("late")), plugins: [])
            try await bench.steer("reload")
            #expect(try await early.program.end() == .exited(66))
            #expect(early.program.errors.contains("has no feed \"early\""))
            try await daemon.logged("The feed \"early\" of \"MainApp\" is no longer configured")
            try await bench.insert(5...5)
            #expect(try await late.lines(3, of: daemon).last == "5 Widget +p5")
            try await daemon.stop()
        }
    }

    @Test("A store that is restored from a backup is told of; the stream goes on")
    func restored() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live", "away")), plugins: [])
            let daemon = try await bench.startDaemon()
            let feed = try bench.listen("--acknowledge")
            try await bench.insert(1...3)
            try await feed.lines(4, of: daemon)
            try await bench.shell("sqlite3 contacts.sqlite '.backup backup'")
            try await bench.insert(4...6)
            try await feed.lines(7, of: daemon)
            try await bench.acknowledge(1, of: "away")
            try await bench.shell("rm -f contacts.sqlite-*; mv backup contacts.sqlite")
            let lines = try await feed.lines(8, of: daemon)
            #expect(lines.last == "expired restored 6 > 3")
            try await bench.insert(7...8)
            #expect(try await feed.lines(10, of: daemon).suffix(2) == ["4 Widget +p7", "5 Widget +p8"])
            // Who is away finds out as well: it may have been given what is no longer there.
            let away = try bench.listen(to: "away")
            #expect(
                try await away.lines(3, of: daemon)
                    == ["expired restored 1 > 3", "4 Widget +p7", "5 Widget +p8"])
            try await daemon.stop()
        }
    }

    @Test("Where another store comes in its place, the stream ends, and the next one is that store's")
    func replaced() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            let daemon = try await bench.startDaemon()
            let feed = try bench.listen()
            try await bench.insert(1...2)
            try await feed.lines(3, of: daemon)
            try await bench.sql(Workbench.schema, of: bench.path("new"))
            try await bench.shell("rm -f contacts.sqlite-*; mv new contacts.sqlite")
            #expect(try await feed.program.end() == .exited(65))
            #expect(feed.program.errors.contains("was replaced"))
            try await bench.insert(1...1)
            let next = try bench.listen()
            #expect(try await next.lines(2, of: daemon) == ["begins 0", "1 Widget +p1"])
            try await daemon.stop()
        }
    }

    @Test("Where a store is served no more, its streams end")
    func ended() async throws {
        try await withWorkbench { bench in
            let authors = StoreSetup.feeding("live")
            try await bench.sql(Workbench.schema, of: bench.path("other.sqlite"))
            try bench.configure(
                StoreSetup(authors: authors), StoreSetup(name: "other", path: "other.sqlite", authors: authors),
                plugins: [])
            let daemon = try await bench.startDaemon()
            let feed = try bench.listen("--store", "other")
            let stays = try bench.listen("--store", "contacts")
            let other = try await bench.sql(
                "SELECT value FROM historyd_store WHERE key = 'id'", of: bench.path("other.sqlite"))
            let follow = try bench.startCtl(
                ["follow", "--store", "other", "--after", other.trimmingCharacters(in: .newlines) + ":0"])
            try await feed.lines(1, of: daemon)
            try await bench.write("INSERT INTO person (id) VALUES (1)", to: bench.path("other.sqlite"))
            try await eventually("who follows") { follow.output.wholeLines.count == 1 }
            // Which of several is meant has to be said.
            #expect(try await bench.ctl("feed", "MainApp", "live").status == .exited(64))
            try bench.configure(StoreSetup(authors: authors), plugins: [])
            try await bench.steer("reload")
            for program in [feed.program, follow] {
                #expect(try await program.end() == .exited(75))
                #expect(program.errors.contains("no longer served"))
            }
            try await bench.insert(1...1)
            #expect(try await stays.lines(2, of: daemon).last == "1 Widget +p1")
            try await daemon.stop()
        }
    }

    @Test("While the store is away the stream waits, and a pause holds it")
    func waits() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            let daemon = try await bench.startDaemon()
            let feed = try bench.listen()
            try await bench.insert(1...1)
            try await feed.lines(2, of: daemon)
            try await bench.steer("pause")
            try await bench.insert(2...2)
            // One that comes now is connected, and has to wait for what there is.
            try await feed.kill()
            let other = try bench.listen()
            try await other.lines(1, of: daemon)
            try await bench.acknowledge(1)
            #expect(try other.lines == ["begins 0"])
            try await bench.steer("resume")
            #expect(try await other.lines(2, of: daemon) == ["begins 0", "2 Widget +p2"])

            try await bench.shell("sqlite3 contacts.sqlite '.backup away'; rm contacts.sqlite*")
            try await daemon.logged("event=storeLost")
            #expect(try await bench.http("GET", "/v1/feed?consumer=MainApp&context=live").status == 409)
            try await bench.shell("mv away contacts.sqlite")
            try await bench.insert(3...3)
            #expect(try await other.lines(3, of: daemon).last == "3 Widget +p3")
            #expect(other.program.ended == nil)
            try await daemon.stop()
        }
    }

    @Test("Who is refused is told why")
    func refused() async throws {
        try await withWorkbench { bench in
            let authors = """
                [{"name": "MainApp", "contexts": [{"name": "live", "kind": "feed"},
                {"name": "view", "kind": "replica", "path": "replica.sqlite"}]}, {"name": "Batch", "batch": true}]
                """
            try bench.configure(StoreSetup(authors: authors), plugins: [])
            let daemon = try await bench.startDaemon()
            let store = try await bench.id()
            let feed = try bench.listen()
            try await feed.lines(1, of: daemon)
            let first = "/v1/feed?consumer=MainApp&context=live"
            let wrong: [(String, String, Int, String)] = [
                ("GET", first, 409, "feedInUse"), ("GET", "/v1/feed?consumer=MainApp", 400, "badRequest"),
                ("GET", "/v1/feed?consumer=MainApp&context=view", 404, "unknownContext"),
                ("GET", "/v1/feed?consumer=MainApp&context=nothing", 404, "unknownContext"),
                ("GET", "/v1/feed?consumer=Batch&context=live", 404, "unknownConsumer"),
                ("GET", first + "&store=nowhere", 404, "unknownStore"),
                ("POST", first, 405, "wrongMethod"),
                ("GET", "/v1/feed/acknowledge?consumer=MainApp&context=live&token=x:1", 405, "wrongMethod"),
                ("POST", "/v1/feed/acknowledge?consumer=MainApp&context=live", 400, "badRequest"),
                ("POST", "/v1/feed/acknowledge?consumer=MainApp&context=live&token=x", 400, "tokenInvalid"),
                (
                    "POST",
                    "/v1/feed/acknowledge?consumer=MainApp&context=live&token=5f0c7d0e-9a35-4c0f-8d5e-0b6a3c1f2e4d:0",
                    409, "tokenForeign"
                ),
                (
                    "POST", "/v1/feed/acknowledge?consumer=MainApp&context=live&token=\(store):9", 409,
                    "tokenAhead"
                ),
                ("POST", "/v1/resync?context=live", 400, "badRequest"),
            ]
            for (method, target, status, code) in wrong {
                let answer = try await bench.http(method, target)
                #expect(answer.status == status, "\(method) \(target): \(answer.body)")
                #expect(answer.body["error"]["code"].text == code, "\(method) \(target): \(answer.body)")
            }
            let inUse = try await bench.ctl("feed", "MainApp", "live")
            #expect(inUse.status == .exited(75))
            #expect(inUse.errors.contains("in use by process \(feed.program.processID)"))
            // Its own end frees it at once.
            try await feed.kill()
            try await bench.insert(1...1)
            #expect(try await bench.listen().lines(2, of: daemon) == ["begins 0", "1 Widget +p1"])
            let answer = try await bench.http(
                "POST", "/v1/feed/acknowledge?consumer=MainApp&context=live&token=\(store):1")
            #expect(answer.status == 200)
            #expect(answer.body.names == ["consumer", "context", "cursor", "store"])
            #expect(answer.body["cursor"].text == "\(store):1")
            try await daemon.stop()
        }
    }

    @Test(
        "As many programs of the group may be connected as there are feeds, and others come through as well",
        .enabled(
            if: geteuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv"),
            "needs root and setpriv, to be somebody else"))
    func many() async throws {
        try await withWorkbench { bench in
            let names = (1...80).map { #"{"name": "f\#($0)", "kind": "feed"}"# }.joined(separator: ",")
            try bench.configure(
                StoreSetup(authors: #"[{"name": "MainApp", "contexts": [\#(names)]}]"#), plugins: [])
            let daemon = try await bench.startDaemon()
            for folder in [bench.folder.path, bench.path("state")] {
                try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder)
            }
            let code = """
                import socket, sys
                def ask(request):
                    s = socket.socket(socket.AF_UNIX)
                    s.connect(sys.argv[1])
                    s.sendall(f'GET /v1/{request} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())
                    return s
                feeds = [ask(f'feed?consumer=MainApp&context=f{i}') for i in range(1, 81)]
                print(sum(f.recv(100).startswith(b'HTTP/1.1 200') for f in feeds), flush=True)
                print(ask('status').recv(100)[:12].decode(), flush=True)
                """
            let member = ["/usr/bin/setpriv", "--reuid=65534", "--regid=0", "--clear-groups"]
            let program = try bench.start(member + [Products.python, "-c", code, bench.controlSocket], "many")
            #expect(try await program.succeed() == "80\nHTTP/1.1 200\n")
            try await daemon.stop()
        }
    }
}
