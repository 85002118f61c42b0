import Foundation
import TestSupport
import Testing

/// What the metrics say of a daemon at work.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct MetricsTests {
    /// A metric's value, by its name with its labels.
    private func values(of bench: Workbench) async throws -> [String: Double] {
        let text = try await bench.steer("metrics")
        #expect(text.hasSuffix("# EOF\n"))
        var values: [String: Double] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            let end = try #require(line.lastIndex(of: " "))
            let value = Double(String(line[line.index(after: end)...]))
            let number: Double = try #require(value, "\(line)")
            values[String(line[..<end])] = number
        }
        return values
    }

    private static let main = #"{store="contacts",consumer="MainApp"}"#

    @Test("Lag tells the truth while a hook is held, and counters outlive a restart") func held() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(
                        more: #""retry": {"attempts": 1, "initialDelay": "20ms", "maximumDelay": "50ms"}"#)
                ])
            var daemon = try await bench.startDaemon()
            for id in 1...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(3, of: daemon)
            try await lagEnds(bench)
            var values = try await values(of: bench)
            #expect(values["historyd_health_status"] == 0)
            #expect(values[#"historyd_store_changes_total{store="contacts"}"#] == 3)
            #expect(values["historyd_delivery_delay_seconds_count" + Self.main] == 3)
            #expect(values[#"historyd_hook_call_duration_seconds_count{hook="audit/all"}"#] == 3)
            #expect(try #require(values[#"historyd_hook_call_duration_seconds_sum{hook="audit/all"}"#]) > 0)

            try bench.misbehave("refuse", "all")
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await daemon.logged("event=hookHeld")
            for id in 5...6 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            values = try await self.values(of: bench)
            let lag = try #require(values["historyd_consumer_lag_seconds" + Self.main])
            #expect(lag > 0)
            #expect(values["historyd_consumer_lag_transactions" + Self.main] == 3)
            #expect(values[#"historyd_hook_held{hook="audit/all"}"#] == 1)
            #expect(values["historyd_health_status"] == 2)
            // It grows by as much as time passes, though attempts go on.
            try await eventually("a second more of lag") {
                try await self.values(of: bench)["historyd_consumer_lag_seconds" + Self.main] ?? 0 > lag + 1
            }
            let name = #"historyd_hook_failures_total{hook="audit/all"}"#
            let failures = try #require(try await self.values(of: bench)[name])
            #expect(failures > 0)
            // Every one is tried again: the hook is held, and nothing is given up.
            let retries = #"historyd_hook_retries_total{hook="audit/all"}"#
            values = try await self.values(of: bench)
            #expect(values[retries] == values[name])
            try await daemon.stop()
            try bench.behave("refuse", "all")
            daemon = try await bench.startDaemon()
            try await bench.calls(6, of: daemon)
            try await lagEnds(bench)
            values = try await self.values(of: bench)
            #expect(try #require(values[name]) >= failures)
            #expect(values[retries] == values[name])
            try await daemon.stop()
        }
    }

    /// The plugin has noted a call before the daemon has its answer.
    private func lagEnds(_ bench: Workbench) async throws {
        try await eventually("the end of the lag") {
            try await self.values(of: bench)["historyd_consumer_lag_seconds" + Self.main] == 0
        }
    }

    @Test("A call that is given up is a failure, and no retry") func givenUp() async throws {
        try await withWorkbench { bench in
            let plugin = PluginSetup(
                more: """
                    "retry": {"attempts": 2, "initialDelay": "20ms", "maximumDelay": "50ms"}, "onFailure": "skip"
                    """)
            try bench.configure(StoreSetup(), plugins: [plugin])
            try bench.misbehave("refuse", "all")
            let daemon = try await bench.startDaemon()
            for id in 1...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await daemon.logged("event=deadLetterKept", times: 3)
            let values = try await values(of: bench)
            #expect(values[#"historyd_hook_failures_total{hook="audit/all"}"#] == 6)
            #expect(values[#"historyd_hook_retries_total{hook="audit/all"}"#] == 3)
            try await daemon.stop()
        }
    }

    private static let promtool = "/usr/bin/promtool"

    @Test(
        "promtool finds nothing to complain of",
        .enabled(if: FileManager.default.isExecutableFile(atPath: promtool), "prometheus is not installed."))
    func checkedByPromtool() async throws {
        try await withWorkbench { bench in
            let contexts =
                #"[{"name": "live", "kind": "feed"}, {"name": "view", "kind": "replica", "path": "view.sqlite"}]"#
            try bench.configure(StoreSetup(authors: #"[{"name": "MainApp", "contexts": \#(contexts)}]"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try bench.folder.write("metrics.txt", try await bench.steer("metrics"))
            let check = try bench.start(
                [Self.promtool, "check", "metrics"], "promtool", input: bench.path("metrics.txt"))
            #expect(try await check.end() == .exited(0))
            #expect(check.errors == "" && check.output == "", "\(check.errors)")
            try await daemon.stop()
        }
    }

    @Test("A feed lags, though the next 6000 changes are its consumer's own") func feedBehindOwnChanges()
        async throws
    {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.feeding("live")), plugins: [])
            let daemon = try await bench.startDaemon()
            let many = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 5999)"
            try await bench.write("\(many) INSERT INTO person (id) SELECT i + 1 FROM n", as: "MainApp")
            try await bench.write("INSERT INTO person (id) VALUES (7000)", as: "Widget")
            try await bench.waitUntilServed(6001)
            let feed = #"{store="contacts",consumer="MainApp",feed="live"}"#
            var values = try await values(of: bench)
            #expect(values["historyd_feed_lag_transactions" + feed] == 1)
            #expect(try #require(values["historyd_feed_lag_seconds" + feed]) > 0)
            try await bench.acknowledge(6001)
            values = try await self.values(of: bench)
            #expect(values["historyd_feed_lag_transactions" + feed] == 0)
            #expect(values["historyd_feed_lag_seconds" + feed] == 0)
            try await daemon.stop()
        }
    }

    @Test(
        "A running daemon prints the metrics that the page lists, with their types and meanings, and no others")
    func thePage() async throws {
        try await withWorkbench { bench in
            let authors = #"""
                [{"name": "MainApp", "contexts": [{"name": "view", "kind": "replica", "path": "view.sqlite"},
                    {"name": "live", "kind": "feed"}, {"name": "index", "kind": "plugin", "plugin": "copier"}]}]
                """#
            try bench.configure(
                StoreSetup(authors: authors), plugins: [PluginSetup(), bench.contextPlugin()])
            try bench.folder.write(
                "conf.d/tenants.json",
                #"{"version": 1, "stores": [{"name": "tenant-{name}", "folder": "../tenants", "pattern": "*"}]}"#
            )
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.waitUntilServed(1)
            try await bench.acknowledge(1)
            try await bench.steer("clean")
            let text = try await bench.steer("metrics")
            var printed: Set<String> = []
            for line in text.matches(
                of: #/# TYPE (\S+) (\S+)\n# HELP \S+ (.*)\n(\w+)(?:\{(.*)\})? /#)
            {
                let (_, name, type, help, _, labels) = line.output
                let names = (labels ?? "").matches(of: #/(\w+)="/#).map(\.output.1).filter { $0 != "le" }
                printed.insert("| `\(name)` | \(type) | \(names.joined(separator: ", ")) | \(help) |")
            }
            let page = try Sources.text("Sources/PersistentHistory/PersistentHistory.docc/Monitoring.md")
            let listed = Set(
                page.split(separator: "\n").filter { $0.hasPrefix("| `historyd_") }.map(String.init))
            #expect(printed.symmetricDifference(listed).sorted() == [])
            #expect(printed.count > 30)
            try await daemon.stop()
        }
    }

    @Test(
        "A socket that is handed over answers with metrics, and with nothing else",
        .enabled(if: Programs.areThere))
    func overTCP() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let port = 20_000 + Int.random(in: 0..<20_000)
            let daemon = try bench.launchDaemon(
                under: [
                    "/usr/bin/systemd-socket-activate", "--listen=127.0.0.1:\(port)", "--fdname=metrics",
                    "--setenv=STATE_DIRECTORY=\(bench.path("state"))",
                ])
            let code = """
                import http.client, socket, sys, time
                def get(method, path):
                    while True:
                        connection = http.client.HTTPConnection('127.0.0.1', \(port), timeout=60)
                        try: connection.request(method, path); break
                        except ConnectionRefusedError: time.sleep(.01)
                    answer = connection.getresponse()
                    return answer.status, answer.getheader('Content-Type'), answer.read()
                # The connection is what starts the daemon: it answers before its stores are open.
                status, kind, body = get('GET', '/metrics')
                while b'historyd_store_open{store="contacts"} 1' not in body:
                    time.sleep(.01)
                    status, kind, body = get('GET', '/metrics')
                assert status == 200 and kind.startswith('application/openmetrics-text; version=1.0.0'), (status, kind)
                assert body.endswith(b'# EOF\\n') and b'historyd_store_open{store="contacts"} 1' in body, body
                for method, path, expected in ('GET', '/v1/status', 404), ('POST', '/v1/pause', 405), ('POST', '/metrics', 405):
                    assert get(method, path)[0] == expected, (method, path)
                # Clients that say nothing do not keep others from it.
                idle = [socket.create_connection(('127.0.0.1', \(port))) for _ in range(40)]
                for one in idle: one.close()
                # They have their places until the daemon has seen that they are gone: a scraper comes again.
                while True:
                    try:
                        if get('GET', '/v1/metrics')[0] == 200: break
                    except ConnectionResetError: time.sleep(.01)
                """
            try await bench.startPython(code).succeed()
            try await daemon.stop()
        }
    }

    private enum Programs {
        static let areThere = FileManager.default.isExecutableFile(atPath: "/usr/bin/systemd-socket-activate")
    }
}
