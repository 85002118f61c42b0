import Foundation
import TestSupport
import Testing

/// Consumers that an operator pauses alone, and pauses that outlive the daemon.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct PauseTests {
    private func of(_ consumer: String, _ bench: Workbench) throws -> [String] {
        try bench.calls().filter { $0.params.consumer == consumer }.map {
            "\($0.params.transaction?.number ?? 0)"
        }
    }

    @Test("One consumer waits, the others go on; and it is said everywhere")
    func alone() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.named("MainApp", "Other")))
            let daemon = try await bench.startDaemon()
            let said = try await bench.steer("pause", "--consumer", "MainApp")
            #expect(said == "MainApp of contacts is paused until resume, or until the daemon ends\n")
            try await bench.write(
                "INSERT INTO person (id) VALUES (1)", "INSERT INTO person (id) VALUES (2)", as: "Widget")
            try await bench.calls(2, of: daemon)
            #expect(try of("Other", bench) == ["1", "2"])
            let consumers = try await bench.report("consumers")["consumers"]
            #expect(consumers.list.map { $0["state"].text } == ["paused", "level"])
            #expect(consumers[0]["cursor"].text?.hasSuffix(":0") == true, "\(consumers)")
            let status = try await bench.report("status")
            #expect(status["stores"][0]["state"].text == "open")
            #expect(status["summary"].text?.hasSuffix("; 1 consumer paused") == true, "\(status["summary"])")
            let health = try await bench.ctl("health", "--format", "json").json()
            #expect(health["verdict"].text == "degraded")
            #expect(health["reasons"].list.map { $0["cause"].text } == ["paused"])
            #expect(health["reasons"][0]["consumer"].text == "MainApp", "\(health)")
            let metrics = try await bench.steer("metrics")
            #expect(
                metrics.contains(
                    #"historyd_consumer_state{store="contacts",consumer="MainApp",state="paused"} 1"#))
            // A pass is one of the others.
            try await bench.steer("run")
            // It and its store are apart from each other.
            try await bench.steer("pause")
            let resumed = try await bench.steer("resume")
            #expect(resumed.contains("Still paused: MainApp."), "\(resumed)")
            try await bench.steer("reload")
            #expect(try of("MainApp", bench) == [])
            try await bench.steer("resume", "--consumer", "MainApp")
            try await bench.calls(4, of: daemon)
            #expect(try of("MainApp", bench) == ["1", "2"])
            #expect(try await bench.report("health")["verdict"].text == "healthy")
            try await daemon.stop()
        }
    }

    @Test("A pause outlives the daemon only if it is kept", arguments: ["consumer", "store"], [true, false])
    func kept(_ what: String, _ keeps: Bool) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            var daemon = try await bench.startDaemon()
            let whom = what == "consumer" ? ["--consumer", "MainApp"] : ["contacts"]
            let said = try await bench.startCtl(["pause"] + whom + (keeps ? ["--keep"] : [])).succeed()
            #expect(said.contains("also over restarts") == keeps, "\(said)")
            try await daemon.kill()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            daemon = try await bench.startDaemon()
            if keeps {
                let consumer = try await bench.report("consumers")["consumers"][0]
                #expect(consumer["state"].text == "paused", "\(consumer)")
                try await daemon.logged("its pause was kept over restarts")
                #expect(try bench.calls().isEmpty)
                try await bench.startCtl(["resume"] + whom).succeed()
                try await bench.calls(1, of: daemon)
                // That is kept, too.
                try await daemon.kill()
                daemon = try await bench.startDaemon()
            }
            try await bench.calls(1, of: daemon)
            #expect(try await bench.report("consumers")["consumers"][0]["state"].text != "paused")
            try await daemon.stop()
        }
    }

    @Test("A damaged file of pauses is moved aside, and said")
    func damaged() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            try FileManager.default.createDirectory(
                atPath: bench.path("state"), withIntermediateDirectories: true)
            try bench.folder.write("state/paused.json", "{")
            let daemon = try await bench.startDaemon()
            try await daemon.logged("event=stateCorrupt")
            try await bench.steer("pause", "--keep")
            try await daemon.stop()
        }
    }

    @Test("A new consumer begins where it is to", arguments: ["oldest", "newest"])
    func startAt(_ position: String) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            var daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await daemon.stop()
            try bench.configure(
                StoreSetup(
                    authors: #"""
                        [{"name": "MainApp"}, {"name": "New", "startAt": "\#(position)", "contexts": [
                          {"name": "view", "kind": "replica", "path": "replica.sqlite"}, {"name": "live", "kind": "feed"}]}]
                        """#))
            daemon = try await bench.startDaemon()
            let program = try bench.listen(of: "New", "--acknowledge")
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
            let expected = position == "oldest" ? ["1", "2"] : ["2"]
            try await bench.calls(2 + expected.count, of: daemon)
            #expect(try of("New", bench) == expected)
            let lines = try await program.lines(1 + expected.count, of: daemon)
            #expect(
                lines.dropFirst().map { $0.split(separator: " ").first } == expected.map { Substring($0) })
            try await bench.steer("run")
            try await bench.expectReplicaEqualsStore(["person": "id"])
            // Over a restart it is no longer new.
            try await daemon.stop()
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            daemon = try await bench.startDaemon()
            try await bench.calls(4 + expected.count, of: daemon)
            #expect(try of("New", bench) == expected + ["3"])
            try await daemon.stop()
        }
    }
}
