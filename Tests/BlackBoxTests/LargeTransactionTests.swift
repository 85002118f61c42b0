import Foundation
import TestSupport
import Testing

/// One transaction with more changes than the daemon holds in memory.
@Suite(
    .enabled(if: Products.areThere && Python.isThere, "needs the products and Python with sqlite3"),
    .timeLimit(.minutes(60)))
struct LargeTransactionTests {
    /// Answers, and notes of each call its method, its part and its delivery.
    private static let plugin = #"""
        import os, re, signal, sys
        bench = os.environ['BENCH']
        log = open(bench + '/parts', 'a')
        for line in sys.stdin.buffer:
            method = re.search(rb'"method":"(\w+)"', line)[1].decode()
            part = re.search(rb'"part":{"index":(\d+),"last":(\w+)}', line)
            part = f'{part[1].decode()} {part[2].decode()}' if part else '-'
            count = line.count(b'"objectIDURL"')
            print(method, part, count, re.search(rb'"delivery":"[^/]*/([^"]*)"', line)[1].decode(), file=log, flush=True)
            # The daemon is killed in the middle of each hook once.
            place = f'{bench}/kill-{method}'
            if part.startswith('1 ') and os.path.exists(place):
                os.remove(place)
                os.kill(os.getppid(), signal.SIGKILL)
                break
            request = re.search(rb'"id":(\d+),"method"', line)[1].decode()
            result = '"goOn"' if method == 'merge' else 'null'
            print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (request, result), flush=True)
        """#

    private static let authors =
        #"[{"name": "MainApp", "contexts": [{"name": "view", "kind": "replica", "path": "replica.sqlite"}, {"name": "live", "kind": "feed"}]}]"#

    private func configure(_ bench: Workbench) throws {
        try bench.folder.write("parts.py", Self.plugin)
        try bench.configure(
            StoreSetup(authors: Self.authors),
            plugins: [
                PluginSetup(
                    name: "p", command: [Products.python, bench.path("parts.py")],
                    more: #""timeout": "120s""#,
                    hooks: [#"{"name": "o", "kind": "observer"}"#, #"{"name": "m", "kind": "merge"}"#])
            ])
    }

    private func insert(_ ids: ClosedRange<Int>, _ bench: Workbench) async throws {
        try await bench.write(
            """
            WITH RECURSIVE n (i) AS (SELECT \(ids.lowerBound) UNION ALL SELECT i + 1 FROM n WHERE i < \(ids.upperBound))
            INSERT INTO item SELECT printf('item %08d', i), i FROM n
            """, as: "Widget")
    }

    private func waitForReplica(at number: Int, _ bench: Workbench) async throws {
        try await eventually("the replica at \(number)", within: .seconds(120)) {
            try await bench.sql("SELECT number FROM historyd_replica", of: bench.path("replica.sqlite"))
                == "\(number)\n"
        }
    }

    @Test("40,000 rows in one transaction take hardly more memory than 100 do", .measuresMemory)
    func memory() async throws {
        try await withWorkbench { bench in
            try configure(bench)
            let daemon = try await bench.startDaemon()
            let feed = try await bench.startFeedReader()
            try await insert(1...100, bench)
            try await bench.waitUntilServed(100)
            try await bench.waitForFeed(at: 100)
            try await waitForReplica(at: 100, bench)
            let before = Processes.mostMemory(daemon.processID)
            try await insert(101...40_100, bench)
            try await bench.waitUntilServed(40_100)
            try await waitForReplica(at: 40_100, bench)
            try await bench.waitForFeed(at: 40_100)
            let growth = Processes.mostMemory(daemon.processID) - before
            print("a large transaction: the daemon grew by \(growth >> 20) MB")
            #expect(growth < 20 << 20, "\(growth >> 20) MB")
            // Four parts for each hook, and four lines.
            let parts = RunningProgram.text(bench.path("parts")).wholeLines
            #expect(parts.count == 10)
            #expect(parts.last?.hasPrefix("merge 3 true 10000 ") == true)
            let lines = feed.output.wholeLines
            #expect(lines == ["0 0 -", "100 100 -"] + (0..<4).map { "40100 10000 \($0)" })
            try await bench.expectReplicaEqualsStore(["item": "code"])
            try await daemon.stop()
        }
    }

    @Test("Whose feed is connected is not level before the replica shows what was committed")
    func levelIsTrue() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: Self.authors))
            let daemon = try await bench.startDaemon()
            _ = try await bench.startFeedReader()
            for count in [12_000, 24_000] {
                try await insert(count - 11_999...count, bench)
                try await eventually("the consumer is level", within: .seconds(120)) {
                    try await bench.report("consumers")["consumers"][0]["state"].text == "level"
                }
                let shown = try await bench.sql("SELECT count(*) FROM item", of: bench.path("replica.sqlite"))
                #expect(shown == "\(count)\n")
            }
            try await daemon.stop()
        }
    }

    @Test("A daemon that is killed between two parts begins with the first again")
    func killed() async throws {
        try await withWorkbench { bench in
            try configure(bench)
            for method in ["observe", "merge"] { try bench.folder.write("kill-\(method)", "") }
            let daemon = try await bench.startDaemon()
            try await insert(1...20_500, bench)
            _ = try await daemon.program.end()
            let second = try bench.launchDaemon()
            _ = try await second.program.end()
            let third = try await bench.startDaemon()
            try await bench.waitUntilServed(20_500)
            try await waitForReplica(at: 20_500, bench)
            let (observe, merge) = ("MainApp/p/o/0", "MainApp/p/m")
            let observed = [
                "observe 0 false 10000 \(observe).0", "observe 1 false 10000 \(observe).1",
                "observe 2 true 500 \(observe).2",
            ]
            let merged = [
                "merge 0 false 10000 \(merge)/0", "merge 1 false 10000 \(merge)/1",
                "merge 2 true 500 \(merge)/2",
            ]
            #expect(
                RunningProgram.text(bench.path("parts")).wholeLines
                    == observed.prefix(2) + observed + merged.prefix(2) + observed + merged)
            try await bench.expectReplicaEqualsStore(["item": "code"])
            try await third.stop()
        }
    }
}

extension Workbench {
    /// Reads the feed `live`, acknowledges, and prints of each line the transaction, how many objects it has, and the part.
    fileprivate func startFeedReader() async throws -> RunningProgram {
        try await startPython(
            #"""
            import re, subprocess
            feed = subprocess.Popen(['\#(Products.historyctl)', 'feed', 'MainApp', 'live', '--acknowledge'],
                env={**os.environ, 'STATE_DIRECTORY': bench + '/state'}, stdout=subprocess.PIPE)
            for line in feed.stdout:
                part = re.search(rb'"part":{"index":(\d+)', line)
                number = re.search(rb'"(?:token|after)":"[^":]*:(\d+)"', line)[1].decode()
                print(number, line.count(b'"objectIDURL"'), part[1].decode() if part else '-', flush=True)
            """#)
    }

    fileprivate func waitForFeed(at number: Int) async throws {
        let state = path("state/\(try await id()).sqlite")
        try await eventually("the feed at \(number)", within: .seconds(120)) {
            try await self.sql("SELECT position FROM feed", of: state) == "\(number)\n"
        }
    }
}
