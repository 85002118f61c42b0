import Foundation
import TestSupport
import Testing

/// Healthy while stuck must not be possible: each trouble is made to happen, is named, and is over when it is.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct HealthTests {
    /// Waits for a verdict with exactly these causes, by the program, its status, and HTTP.
    private func verdict(
        _ verdict: String, _ causes: String..., of bench: Workbench,
        sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let status: Int32 = ["healthy": 0, "degraded": 1, "failing": 2][verdict] ?? -1
        var seen = ""
        try await eventually("\(verdict) for \(causes)", state: { seen }) {
            let outcome = try await bench.ctl("health", "--format", "json")
            seen = "\(outcome)"
            guard outcome.status == .exited(status) else { return false }
            let report = try outcome.json()
            return report["verdict"].text == verdict
                && report["reasons"].list.compactMap { $0["cause"].text } == causes
        }
        let answer = try await bench.http("GET", "/v1/health")
        #expect(answer.status == 200 && answer.body["verdict"].text == verdict, sourceLocation: sourceLocation)
        let text = try await bench.ctl("health")
        #expect(text.status == .exited(status), sourceLocation: sourceLocation)
        #expect(text.output.hasPrefix("\(verdict)\n"), "\(text)", sourceLocation: sourceLocation)
        #expect(text.output.split(separator: "\n").count == 1 + causes.count, sourceLocation: sourceLocation)
    }

    @Test("Dead letters wait until they are dropped or delivered, over a restart as well")
    func deadLetters() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(),
                plugins: [PluginSetup(more: #""onFailure": "skip", "retry": {"attempts": 1}"#)])
            try bench.misbehave("refuse", "all")
            var daemon = try await bench.startDaemon()
            try await verdict("healthy", of: bench)
            for id in 1...4 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await daemon.logged("event=deadLetterKept", times: 4)
            try await verdict("degraded", "deadLetters", of: bench)
            let status = try await bench.steer("status")
            #expect(status.contains("4 dead letters waiting"), "\(status)")
            try await daemon.stop()
            daemon = try await bench.startDaemon()
            try await verdict("degraded", "deadLetters", of: bench)
            try await bench.steer("dead-letters", "drop", "contacts:1")
            let report = try await bench.ctl("health")
            #expect(report.output.contains("degraded: 3 dead letters of \"MainApp\" waiting."), "\(report)")
            try bench.behave("refuse", "all")
            try await bench.steer("dead-letters", "retry", "--all")
            try await verdict("healthy", of: bench)
            try await daemon.stop()
        }
    }

    @Test("A coprocess that ends again and again") func crashLoop() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("loop.sh", "[ -e \(bench.path("well")) ] || exit 3\ncat >/dev/null\n")
            try bench.configure(
                StoreSetup(), plugins: [PluginSetup(command: ["/bin/sh", bench.path("loop.sh")])])
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=pluginFailing")
            try await verdict("failing", "pluginFailing", of: bench)
            try bench.folder.write("well", "")
            try await verdict("healthy", of: bench)
            try await daemon.stop()
        }
    }

    @Test("A replica that cannot be written") func replica() async throws {
        try await withWorkbench { bench in
            try bench.folder.write("place", "")
            try bench.configure(
                StoreSetup(
                    authors:
                        #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "place/replica.sqlite"}]}]"#
                ), plugins: [])
            let daemon = try await bench.startDaemon()
            try await verdict("failing", "replicaNotWritable", of: bench)
            try FileManager.default.removeItem(atPath: bench.path("place"))
            try FileManager.default.createDirectory(
                atPath: bench.path("place"), withIntermediateDirectories: false)
            _ = try await bench.ctl("run")
            try await verdict("healthy", of: bench)
            try await daemon.stop()
        }
    }

    @Test("A configured table that is not tracked") func notTracked() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(entities: #"{"person": {}, "order": {}}"#), plugins: [])
            try await bench.steer("track", bench.store, "person")
            let daemon = try await bench.startDaemon()
            try await verdict("failing", "notTracked", of: bench)
            let report = try await bench.ctl("health")
            #expect(report.output.contains("order"), "\(report)")
            try await bench.sql("CREATE TABLE \"order\" (id INTEGER PRIMARY KEY)")
            try await verdict("healthy", of: bench)
            try await bench.sql("DROP TABLE \"order\"")
            try await verdict("failing", "notTracked", of: bench)
            try await daemon.stop()
        }
    }

    @Test("A hook that hangs: nothing has failed, and the lag tells") func lag() async throws {
        try await withWorkbench { bench in
            try bench.configure(
                StoreSetup(more: #""healthyLag": "200ms""#), plugins: [PluginSetup(more: #""timeout": "1h""#)],
                more: #""stopTimeout": "100ms""#)
            try bench.misbehave("hang", "all")
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "MainApp")
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await verdict("failing", "lagging", of: bench)
            let consumer = try await bench.report("consumers")["consumers"][0]
            // Its own is not for it.
            #expect(consumer["lag"]["transactions"].int == 2, "\(consumer)")
            try bench.behave("hang", "all")
            try await daemon.stop()
            let next = try await bench.startDaemon()
            try await verdict("healthy", of: bench)
            try await next.stop()
        }
    }

    @Test("A store that is lost, a pause, and a refused reload") func others() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.steer("pause")
            try await verdict("degraded", "paused", of: bench)
            try await bench.steer("resume")
            let configuration = try String(contentsOfFile: bench.configuration, encoding: .utf8)
            try bench.folder.write("historyd.json", "{}")
            #expect(try await bench.ctl("reload").status == .exited(78))
            try await verdict("degraded", "reloadRefused", of: bench)
            try bench.folder.write("historyd.json", configuration)
            try await bench.steer("reload")
            try await verdict("healthy", of: bench)
            try FileManager.default.moveItem(atPath: bench.store, toPath: bench.path("away"))
            try await verdict("failing", "storeNotOpen", of: bench)
            try FileManager.default.moveItem(atPath: bench.path("away"), toPath: bench.store)
            try await verdict("healthy", of: bench)
            try await daemon.stop()
        }
    }
}
