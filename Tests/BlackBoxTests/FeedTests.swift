import Foundation
import TestSupport
import Testing

/// What a program is sent by its feed, and what it is not.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct FeedTests {
    @Test(
        "Each transaction of others comes once, in order, with what it did to each object in the end",
        arguments: Journal.allCases)
    func objects(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            let daemon = try await bench.startDaemon()
            let feed = try bench.listen()
            try await feed.lines(1, of: daemon)
            let writer = try await bench.write(
                """
                INSERT INTO person (id) VALUES (1), (2);
                UPDATE person SET name = 'x' WHERE id = 1;
                INSERT INTO item VALUES ('a/b', 1.5)
                """,
                "UPDATE person SET name = 'y' WHERE id = 1; INSERT INTO person (id) VALUES (9); DELETE FROM person WHERE id = 9",
                "DELETE FROM person WHERE id = 2; INSERT INTO person (id, name) VALUES (2, 'again'); DELETE FROM person WHERE id = 1",
                as: "Widget", context: "sync")
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "MainApp")
            try await bench.write("INSERT INTO person (id) VALUES (4)")
            let lines = try await feed.lines(5, of: daemon)
            #expect(
                lines == [
                    "begins 0", "4 Widget +p1 +p2 +ta%2Fb", "7 Widget ~p1", "10 Widget ~p2 -p1",
                    "12 nobody +p4",
                ])
            let store = try await bench.id()
            var first = feed.program.output.wholeLines[1]
            first.replace(/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/, with: "TIME")
            #expect(
                first == """
                    {"token":"\(store):4","author":"Widget","context":"sync","processID":\(writer),"timestamp":"TIME",\
                    "insertedObjectIDs":[{"entityName":"person","objectID":{"id":1},"objectIDURL":"x-history://\(store)/person/p1"},\
                    {"entityName":"person","objectID":{"id":2},"objectIDURL":"x-history://\(store)/person/p2"},\
                    {"entityName":"item","objectID":{"code":"a/b"},"objectIDURL":"x-history://\(store)/item/ta%2Fb"}],\
                    "updatedObjectIDs":[],"deletedObjectIDs":[]}
                    """)
            #expect(feed.program.output.wholeLines[0] == #"{"begins":{"after":"\#(store):0"}}"#)
            // Who waits costs nothing.
            try await daemon.quiet()
            try await daemon.stop()
            // Who is connected is told by the end of the connection.
            #expect(try await feed.program.end() == .exited(69))
        }
    }

    @Test("It goes on after the last transaction that was acknowledged, over any end of program and daemon")
    func resume() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")))
            var daemon = try await bench.startDaemon()
            var feed = try bench.listen()
            try await bench.insert(1...5)
            try await feed.lines(6, of: daemon)
            try await bench.acknowledge(3)
            try await feed.kill()
            feed = try bench.listen()
            #expect(
                try await feed.lines(3, of: daemon)
                    == ["begins 3", "4 Widget +p4", "5 Widget +p5"])
            // What was acknowledged is not taken back.
            try await bench.acknowledge(2)
            try await daemon.stop()
            _ = try await feed.program.end()
            try await bench.insert(6...6)
            daemon = try await bench.startDaemon()
            feed = try bench.listen()
            #expect(
                try await feed.lines(4, of: daemon)
                    == ["begins 3", "4 Widget +p4", "5 Widget +p5", "6 Widget +p6"])
            try await bench.acknowledge(6)
            try await daemon.kill()
            _ = try await feed.program.end()
            try await bench.insert(7...7)
            daemon = try await bench.startDaemon()
            feed = try bench.listen()
            #expect(try await feed.lines(2, of: daemon) == ["begins 6", "7 Widget +p7"])
            try await daemon.stop()
        }
    }

    @Test("Feeds of a consumer know nothing of each other, and have the entities that they name")
    func independent() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.feeding(
                        "all", #""name": "items", "entities": ["item"], "window": 2"#, and: "Other")))
            let daemon = try await bench.startDaemon()
            let (all, items) = (try bench.listen(to: "all"), try bench.listen(to: "items"))
            try await bench.write(
                "INSERT INTO person (id) VALUES (1); INSERT INTO item VALUES ('a', 1)",
                "INSERT INTO item VALUES ('b', 1)", "INSERT INTO person (id) VALUES (2)",
                "INSERT INTO item VALUES ('c', 1)", as: "Widget")
            #expect(
                try await all.lines(5, of: daemon) == [
                    "begins 0", "2 Widget +p1 +ta", "3 Widget +tb", "4 Widget +p2", "5 Widget +tc",
                ])
            #expect(
                try await items.lines(3, of: daemon) == ["begins 0", "2 Widget +ta", "3 Widget +tb"])
            try await bench.acknowledge(5, of: "all")
            try await bench.acknowledge(2, of: "items")
            #expect(try await items.lines(4, of: daemon).last == "5 Widget +tc")
            // A plan moves feeds over what is not for them, and one may be made at any time. The next one here is.
            try await bench.steer("clean", "--dry-run")
            let contexts = try await bench.report("consumers")["consumers"][0]["contexts"]
            #expect(contexts.list.map { $0["kind"].text } == ["feed", "feed"])
            #expect(contexts.list.map { $0["feed"]["behind"].int } == [0, 3])
            #expect(contexts.list.map { $0["feed"]["state"].text } == ["connected", "connected"])
            #expect(contexts[0]["feed"]["processID"].int == Int(all.program.processID))
            try await daemon.stop()
        }
    }

    @Test("What merge hooks keep from the contexts does not come, also after the daemon was killed")
    func merged() async throws {
        try await withWorkbench { bench in
            let reject = PluginSetup(
                environment: ["REJECT": "Batch"], hooks: [#"{"name": "merge", "kind": "merge"}"#])
            let finish = PluginSetup(
                environment: ["RESULT": #"\"finish\""#], hooks: [#"{"name": "merge", "kind": "merge"}"#])
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [reject])
            var daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.write(
                "INSERT INTO person (id) VALUES (2)", "INSERT INTO person (id) VALUES (3)", as: "Batch")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await bench.waitUntilServed(4)
            // The hook is told of the feed that it decides for.
            #expect(
                try bench.calls().first?.params.contexts.map(\.name) == ["live"])
            try await daemon.kill()
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [finish])
            daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (5)", as: "Widget")
            try await bench.waitUntilServed(5)
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            try await bench.steer("reload")
            try await bench.write("INSERT INTO person (id) VALUES (6)", as: "Batch")
            let feed = try bench.listen()
            #expect(
                try await feed.lines(4, of: daemon)
                    == ["begins 0", "1 Widget +p1", "4 Widget +p4", "6 Batch +p6"])
            try await daemon.stop()
        }
    }

    @Test("A transaction of very many objects comes in parts")
    func parts() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.feeding(#""name": "live", "window": 1"#)), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.write(
                "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20500) INSERT INTO person (id) SELECT i FROM n",
                "INSERT INTO person (id) VALUES (30000)", as: "Widget")
            let feed = try bench.listen()
            #expect(
                try await feed.lines(4, of: daemon) == [
                    "begins 0", "20500 Widget part 0", "20500 Widget part 1", "20500 Widget part 2 last",
                ])
            let objects = try feed.program.output.wholeLines.dropFirst().flatMap { line in
                try Tree(line)["insertedObjectIDs"].list.compactMap { $0["objectID"]["id"].int }
            }
            #expect(objects == Array(1...20500))
            try await bench.acknowledge(20500)
            #expect(try await feed.lines(5, of: daemon).last == "20501 Widget +p30000")
            try await daemon.stop()
        }
    }

    @Test("A reader that does not acknowledge is held at its window; nobody else is, and it misses nothing")
    func slow() async throws {
        try await withWorkbench { bench in
            let replica = #"{"name": "view", "kind": "replica", "path": "replica.sqlite"}"#
            try bench.configure(
                StoreSetup(
                    authors: """
                        [{"name": "MainApp", "contexts": [\(replica), {"name": "slow", "kind": "feed", "window": 5},
                        {"name": "quick", "kind": "feed"}]}]
                        """))
            let daemon = try await bench.startDaemon()
            let slow = try bench.listen(to: "slow")
            let quick = try bench.listen(to: "quick", "--acknowledge")
            try await slow.lines(1, of: daemon)
            try await bench.insert(1...300)
            try await bench.calls(300, of: daemon)
            try await bench.waitUntilServed(300)
            try await bench.expectReplicaEqualsStore(["person": "id"])
            try await quick.lines(301, of: daemon)
            #expect(try slow.lines == ["begins 0"] + (1...5).map { "\($0) Widget +p\($0)" })
            // It moves on as it acknowledges, within a portion and over several.
            for number in [1, 2, 5, 8] {
                try await bench.acknowledge(number, of: "slow")
                let lines = try await slow.lines(number + 6, of: daemon)
                #expect(lines.dropFirst() == (1...(number + 5)).map { "\($0) Widget +p\($0)" }[...])
            }
            // What it has not been given it may skip.
            try await bench.acknowledge(299, of: "slow")
            #expect(try await slow.lines(15, of: daemon).last == "300 Widget +p300")
            #expect(slow.program.ended == nil)
            try await daemon.stop()
        }
    }

    @Test(
        "A reader that does not even read costs no memory, and keeps nobody from anything",
        .measuresMemory)
    func stopped() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.feeding(#""name": "live", "window": 100000"#, "other")),
                plugins: [])
            let daemon = try await bench.startDaemon()
            let stopped = try bench.listen()
            try await stopped.lines(1, of: daemon)
            stopped.program.signal(SIGSTOP)
            let insert = """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                INSERT INTO item SELECT hex(randomblob(100)), 1 FROM n
                """
            let writer = """
                c = connect(store, 'Widget')
                for i in range(%d): c.execute(\"\"\"\(insert)\"\"\")
                """
            try await bench.startPython(writer.replacing("%d", with: "5")).succeed()
            try await bench.waitUntilServed(5000)
            let before = Processes.memory(daemon.processID)
            // Some 10 MB of lines.
            try await bench.startPython(writer.replacing("%d", with: "20")).succeed()
            try await bench.waitUntilServed(25_000)
            let growth = Processes.memory(daemon.processID) - before
            #expect(growth < 6 << 20, "\(growth >> 20) MB")
            print("feed that is not read: the daemon grew by \(growth >> 10) KB")
            let other = try bench.listen(to: "other", "--acknowledge")
            try await other.lines(26, of: daemon)
            stopped.program.signal(SIGCONT)
            let lines = try await stopped.lines(26, of: daemon)
            #expect(lines.map { $0.prefix { $0 != " " } } == ["begins"] + (1...25).map { "\($0 * 1000)" })
            // Nor does it keep the daemon from stopping.
            stopped.program.signal(SIGSTOP)
            try await bench.startPython(writer.replacing("%d", with: "5")).succeed()
            try await bench.waitUntilServed(30_000)
            try await daemon.stop()
        }
    }
}
