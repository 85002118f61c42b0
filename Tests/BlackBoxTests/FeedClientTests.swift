import Foundation
import HistoryFeed
import PersistentHistory
import TestSupport
import Testing

/// Programs that are connected to feeds: in Swift, in Python, with curl.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct FeedClientTests {
    /// Notes each transaction that it is given (`got 5`), and what was acknowledged for certain (`done 5`).
    private static let noting = """
        import http.client, json, socket, sys, time
        path, log, every = sys.argv[1], open(sys.argv[2], 'a'), int(sys.argv[3])
        def ask(method, request):
            c = http.client.HTTPConnection('localhost')
            c.sock = socket.socket(socket.AF_UNIX)
            c.sock.connect(path)
            c.request(method, request)
            return c.getresponse()
        feed = 'consumer=MainApp&context=live'
        number = lambda token: int(token.split(':')[1])
        while True:
            try:
                for line in ask('GET', '/v1/feed?' + feed):
                    message = json.loads(line)
                    if 'token' not in message: continue
                    print('got', number(message['token']), file=log, flush=True)
                    if number(message['token']) % every: continue
                    answer = ask('POST', f"/v1/feed/acknowledge?{feed}&token={message['token']}")
                    if answer.status == 200:
                        print('done', number(json.loads(answer.read())['cursor']), file=log, flush=True)
            except (OSError, http.client.HTTPException): pass
            time.sleep(0.01)
        """

    @Test(
        "Whoever is killed, nothing is lost, and nothing that was acknowledged comes again",
        arguments: Journal.allCases)
    func kills(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(
                StoreSetup(
                    authors: StoreSetup.feeding(#""name": "live", "window": 10"#),
                    more: #""clean": {"strategy": "byNotification", "times": 3}"#), plugins: [])
            try bench.folder.write("noting.py", Self.noting)
            func listen() throws -> RunningProgram {
                try bench.start(
                    [Products.python, bench.path("noting.py"), bench.controlSocket, bench.path("noted"), "3"],
                    "noting")
            }
            var daemon = try await bench.startDaemon()
            var program = try listen()
            let count = 400
            let writer = try await bench.startPython(
                """
                c = connect(store, 'Widget')
                for i in range(1, \(count) + 1):
                    c.execute('INSERT INTO person (id) VALUES (?)', (i,))
                    time.sleep(0.005)
                """)
            func noted() -> [(what: Substring, number: Int)] {
                RunningProgram.text(bench.path("noted")).wholeLines.compactMap { line in
                    let words = line.split(separator: " ")
                    return words.count == 2 ? Int(words[1]).map { (words[0], $0) } : nil
                }
            }
            var round = 0
            while writer.ended == nil {
                round += 1
                let before = noted().count
                try await eventually("something new", state: { daemon.log.joined(separator: "\n") }) {
                    noted().count > before + 20 || writer.ended != nil
                }
                if round.isMultiple(of: 2) {
                    try await daemon.kill()
                    daemon = try await bench.startDaemon()
                } else {
                    program.signal(SIGKILL)
                    _ = try await program.end()
                    program = try listen()
                }
            }
            try await writer.succeed()
            try await eventually(
                "the last", state: { daemon.log.joined(separator: "\n") + "\n" + program.errors }
            ) { noted().contains { $0.what == "got" && $0.number == count } }
            program.signal(SIGKILL)
            _ = try await program.end()
            var done = 0
            var repeated = 0
            var got: Set<Int> = []
            for (what, number) in noted() {
                if what == "done" {
                    done = max(done, number)
                } else {
                    #expect(number > done, "\(number) came again, although \(done) was acknowledged")
                    if !got.insert(number).inserted { repeated += 1 }
                }
            }
            #expect(got == Set(1...count))
            #expect(!daemon.log.contains { $0.contains("event=tokenExpired") })
            print("feed: \(round) kills, \(got.count) transactions, \(repeated) repeated")
            try await daemon.stop()
        }
    }

    @Test("A Python program is connected to a feed, whatever the names are")
    func pythonWithOddNames() async throws {
        try await withWorkbench { bench in
            let authors = #"[{"name": "Main App+ä&", "contexts": [{"name": "li ve", "kind": "feed"}]}]"#
            try bench.configure(StoreSetup(authors: authors), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            let printed = try await bench.startPython(
                """
                sys.dont_write_bytecode = True
                sys.path.insert(0, '\(Sources.path("config/python"))')
                import historyd
                feed = historyd.Feed('Main App+ä&', 'li ve', socket_path='\(bench.controlSocket)')
                for item in feed:
                    print(item.author, [each.key for each in item.inserted])
                    feed.acknowledge(item)
                    break
                """
            ).succeed()
            #expect(printed == "Widget [{'id': 1}]\n")
            try await daemon.stop()
        }
    }

    // MARK: Swift

    @Test("A Swift program hands over each transaction once, over the end of daemons")
    func swift() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.feeding(#""name": "live", "window": 4"#)), plugins: [])
            let feed = Feed(consumer: "MainApp", context: "live", socketPath: bench.controlSocket)
            // It may be there before the daemon.
            let items = Locked<[FeedItem]>([])
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for try await item in feed {
                        items.withLock { $0.append(item) }
                        let number = item.token?.number ?? 0
                        if number.isMultiple(of: 3) { try await feed.acknowledge(item) }
                        if number == 40 { return }
                    }
                }
                for round in 0..<4 {
                    let daemon = try await bench.startDaemon()
                    try await bench.insert(round * 10 + 1...round * 10 + 10)
                    try await eventually(
                        "ten more",
                        state: { "\(items.withLock { $0.count })\n" + daemon.log.joined(separator: "\n") }
                    ) { items.withLock { $0.count } == round * 10 + 10 }
                    if round == 3 {
                        try await group.waitForAll()
                        try await daemon.stop()
                    } else if round.isMultiple(of: 2) {
                        try await daemon.kill()
                    } else {
                        try await daemon.stop()
                    }
                }
            }
            let transactions = items.withLock { $0 }.compactMap { item -> FeedTransaction? in
                if case .transaction(let transaction) = item { transaction } else { nil }
            }
            #expect(transactions.map(\.token.number) == Array(1...40))
            #expect(
                transactions.map(\.insertedObjectIDs).map { $0.map(\.objectID) }
                    == (1...40).map { [["id": .integer($0)]] })
            let first = try #require(transactions.first)
            #expect(first.author == "Widget" && first.updatedObjectIDs.isEmpty && first.isWhole)
            let url = try #require(first.insertedObjectIDs.first).objectIDURL
            #expect(ObjectIDURL(url)?.entityName == "person")

            // The next program begins behind what was acknowledged.
            let daemon = try await bench.startDaemon()
            var next = feed.makeAsyncIterator()
            #expect(try await next.next()?.token?.number == 40)
            try await daemon.stop()
        }
    }

    @Test("A Swift program goes on, and hands over nothing again, when the daemon has lost its state")
    func swiftWithoutState() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(authors: StoreSetup.feeding(#""name": "live", "window": 4"#)), plugins: [])
            var daemon = try await bench.startDaemon()
            try await bench.insert(1...11)
            let feed = Feed(consumer: "MainApp", context: "live", socketPath: bench.controlSocket)
            var items = feed.makeAsyncIterator()
            for number in 1...11 {
                let item = try #require(try await items.next())
                #expect(item.token?.number == Int64(number))
                // The last two are not acknowledged: they come again amid those that are.
                if number.isMultiple(of: 3) { try await feed.acknowledge(item) }
            }
            try await daemon.stop()
            for state in try bench.stateDatabases() { try await bench.shell("rm -f \(state)*") }
            daemon = try await bench.startDaemon()
            try await bench.insert(12...12)
            let next = try #require(try await items.next())
            #expect(next.token?.number == 12)
            try await feed.acknowledge(next)
            let context = try await bench.report("consumers")["consumers"][0]["contexts"][0]
            #expect(context["feed"]["behind"].int == 0)
            try await daemon.stop()
        }
    }

    @Test("A Swift program is told of what it has lost, and of another store")
    func swiftExpiry() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.insert(1...3)
            try await bench.waitUntilServed(3)
            try await bench.steer("clean", "--force")
            let feed = Feed(consumer: "MainApp", context: "live", socketPath: bench.controlSocket)
            var items = feed.makeAsyncIterator()
            let id = try await bench.id()
            let expired = Expiry(
                reason: .expired, lost: HistoryToken("\(id):0"), after: try #require(HistoryToken("\(id):3")))
            #expect(try await items.next() == .expired(expired))
            try await feed.acknowledge(.expired(expired))
            try await bench.insert(4...4)
            #expect(try await items.next()?.token?.number == 4)

            try await bench.sql(Workbench.schema, of: bench.path("new"))
            try await bench.shell("rm -f contacts.sqlite-*; mv new contacts.sqlite")
            guard case .expired(let replaced)? = try await items.next() else {
                Issue.record("It was not told that the store was replaced.")
                return
            }
            #expect(replaced.reason == .replaced && replaced.lost?.description == "\(id):4")
            try await bench.insert(1...1)
            // What it still has to say of the old one harms nothing.
            try await feed.acknowledge(try #require(HistoryToken("\(id):4")))
            #expect(try await items.next()?.token?.number == 1)

            let unknown = Feed(consumer: "MainApp", context: "nothing", socketPath: bench.controlSocket)
            let refused = await #expect(throws: HistoryError.self) { for try await _ in unknown {} }
            #expect(refused?.code == .unknownContext && refused?.message.contains("nothing") == true)
            await #expect(throws: HistoryError.self) { try await unknown.acknowledge(replaced.after) }
            try await daemon.stop()
        }
    }

    // MARK: Python, curl

    @Test("Without a consumer and a context, the Python module prints its usage")
    func pythonUsage() async throws {
        try await withWorkbench { bench in
            let program = try bench.start(
                [Products.python, "-B", "-m", "historyd.feed"], "feed.py",
                environment: ["PYTHONPATH": Sources.path("config/python")])
            #expect(try await program.end() == .exited(1))
            #expect(program.errors == "usage: python3 -m historyd.feed CONSUMER CONTEXT [SOCKET]\n")
        }
    }

    @Test("The Python package shows what others change, and goes on where it was")
    func python() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            func show() throws -> RunningProgram {
                try bench.start(
                    [
                        Products.python, "-B", "-m", "historyd.feed", "MainApp", "live",
                        bench.controlSocket,
                    ], "feed.py", environment: ["PYTHONPATH": Sources.path("config/python")])
            }
            var program = try show()
            var daemon = try await bench.startDaemon()
            try await bench.write(
                "INSERT INTO person (id) VALUES (1); INSERT INTO item VALUES ('a', 1)",
                "DELETE FROM item; UPDATE person SET age = 3", as: "Widget")
            func shown(_ lines: String...) async throws {
                try await eventually(
                    "\(lines)",
                    state: { "\(program.output)\(program.errors)\(daemon.log.joined(separator: "\n"))" }
                ) { program.output.wholeLines == lines }
            }
            let first = [
                #"inserted person {"id": 1}"#, #"inserted item {"code": "a"}"#, #"updated person {"id": 1}"#,
                #"deleted item {"code": "a"}"#,
            ]
            try await shown(first[0], first[1], first[2], first[3])
            try await eventually("the acknowledgement") {
                try await bench.report("consumers")["consumers"][0]["contexts"][0]["feed"]["behind"].int == 0
            }
            try await daemon.stop()
            daemon = try await bench.startDaemon()
            try await bench.insert(2...2)
            let second = #"inserted person {"id": 2}"#
            try await shown(first[0], first[1], first[2], first[3], second)
            try await eventually("the acknowledgement") {
                try await bench.report("consumers")["consumers"][0]["contexts"][0]["feed"]["behind"].int == 0
            }
            program.signal(SIGTERM)
            _ = try await program.end()
            try await bench.insert(3...3)
            try await bench.waitUntilServed(6)
            try await bench.steer("clean", "--force")
            program = try show()
            try await shown(first[0], first[1], first[2], first[3], second, "read everything again")
            try await bench.insert(4...4)
            try await shown(
                first[0], first[1], first[2], first[3], second, "read everything again",
                #"inserted person {"id": 4}"#)
            let feed = try await bench.report("consumers")["consumers"][0]["contexts"][0]["feed"]
            #expect(feed["state"].text == "connected")
            try await daemon.stop()
        }
    }

    private static let curlPath = "/usr/bin/curl"

    @Test(
        "curl shows a feed as it comes",
        .enabled(if: FileManager.default.isExecutableFile(atPath: curlPath), "needs curl"))
    func curl() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            let daemon = try await bench.startDaemon()
            let feed = Listener(
                program: try bench.start(
                    [
                        Self.curlPath, "-sN", "--unix-socket", bench.controlSocket,
                        "http://historyd/v1/feed?consumer=MainApp&context=live",
                    ], "curl"))
            try await bench.insert(1...1)
            #expect(try await feed.lines(2, of: daemon) == ["begins 0", "1 Widget +p1"])
            let acknowledge = try bench.start(
                [
                    Self.curlPath, "-sf", "--unix-socket", bench.controlSocket, "-X", "POST",
                    "http://historyd/v1/feed/acknowledge?consumer=MainApp&context=live&token=\(try await bench.id()):1",
                ], "curl-acknowledge")
            #expect(try Tree(try await acknowledge.succeed())["context"].text == "live")
            try await daemon.stop()
        }
    }
}
