import Foundation
import Glibc
import PersistentHistory
import TestSupport
import Testing

/// Stores that become another one, go away and come back while they are watched.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct StoreChangeTests {
    @Test("Untracked while it is watched, and tracked again", arguments: [true, false])
    func untrackedLater(_ isConfigured: Bool) async throws {
        try await withWorkbench { bench in
            try Tracking.track(bench.store, ["person": nil])
            try bench.configure(StoreSetup(entities: isConfigured ? #"{"person": {}}"# : nil))
            let daemon = try await bench.startDaemon()
            for id in 1...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(3, of: daemon)
            let before = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
            try Tracking.untrack(bench.store)
            if isConfigured {
                // It was told to track it.
                try await eventually("the tracking", state: { daemon.log.joined(separator: "\n") }) {
                    try await bench.sql("SELECT count(*) FROM sqlite_schema WHERE name = 'historyd_store'")
                        == "1\n"
                }
            } else {
                try await daemon.logged("is not tracked")
                try await daemon.sparing()
                try Tracking.track(bench.store, ["person": nil])
            }
            #expect(try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'") != before)
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            let calls = try await bench.calls(4, of: daemon)
            try await daemon.stop()
            #expect(calls.map(\.summary).last == "audit/all MainApp 1 Widget person insert p4")
            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
                .trimmingCharacters(in: .newlines)
            #expect(calls.last?.params.transaction?.token == "\(id):1")
        }
    }

    @Test("Tracked again behind its back, with as many transactions as before")
    func trackedAnew() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            daemon.program.signal(SIGSTOP)
            try Tracking.untrack(bench.store)
            try Tracking.track(bench.store, ["person": ["name", "email"], "item": []])
            for id in 2...4 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            daemon.program.signal(SIGCONT)
            try await bench.calls(4, of: daemon)
            try await daemon.stop()
            let id = try await bench.sql("SELECT value FROM historyd_store WHERE key = 'id'")
                .trimmingCharacters(in: .newlines)
            #expect(
                try bench.calls().dropFirst().map { $0.params.transaction?.token }
                    == (1...3).map { "\(id):\($0)" })
        }
    }

    @Test(
        "Replaced by another store's file",
        arguments: [
            "", #""clean": {"strategy": "byDuration", "seconds": "7d"}"#,
            #""clean": {"strategy": "byNotification", "times": 1}"#,
        ], [false, true])
    func replaced(_ clean: String, _ isHeld: Bool) async throws {
        try await withWorkbench { bench in
            let other = bench.path("other.sqlite")
            try await bench.sql("PRAGMA journal_mode = WAL;" + Workbench.schema, of: other)
            try Tracking.track(other, ["person": nil, "item": nil])
            try await bench.write("INSERT INTO person (id) VALUES (11)", as: "Widget", to: other)
            try bench.configure(
                StoreSetup(authors: StoreSetup.mirrored(), more: clean),
                plugins: [PluginSetup(more: #""retry": {"attempts": 1, "maximumDelay": "100ms"}"#)])
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.waitForReplica(daemon)
            if isHeld {
                try bench.misbehave("refuse", "all")
                try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget")
                try await daemon.logged("event=hookHeld")
            }
            bench.replace(bench.store, by: other)
            // It may come in between: then the side files are lost, and the new store is the one that is back.
            try await eventually(
                "another store", state: { daemon.log.joined(separator: "\n") }
            ) {
                let log = daemon.log
                if log.contains(where: { $0.contains("event=storeBack") }) { return true }
                return log.contains { $0.contains("event=storeReplaced") }
                    && log.count { $0.contains(#"Store "contacts" is open"#) } == 2
            }
            if isHeld { try bench.behave("refuse", "all") }
            try await bench.write("INSERT INTO person (id) VALUES (12)", as: "Widget")
            try await eventually(
                "the new store's transactions",
                state: { daemon.log.joined(separator: "\n") }
            ) {
                try bench.calls().filter { $0.manner == "ok" }.map(\.summary).suffix(2)
                    == [
                        "audit/all Mirror 1 Widget person insert p11",
                        "audit/all Mirror 2 Widget person insert p12",
                    ]
            }
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }

    @Test("Gone and back, it goes on where it was", arguments: Journal.allCases)
    func gone(_ journal: Journal) async throws {
        try await withWorkbench(journal) { bench in
            try bench.configure(StoreSetup(more: #""clean": {"strategy": "byDuration", "seconds": "7d"}"#))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.waitForCursor(at: 1, daemon)
            try FileManager.default.createDirectory(
                atPath: bench.path("away"), withIntermediateDirectories: false)
            func move(_ from: String, _ to: String) {
                for suffix in ["-wal", "-shm", ""] where FileManager.default.fileExists(atPath: from + suffix) {
                    #expect(rename(from + suffix, to + suffix) == 0)
                }
            }
            let away = bench.path("away/contacts.sqlite")
            move(bench.store, away)
            try await daemon.logged("event=storeLost")
            try await daemon.sparing()
            try await bench.write("INSERT INTO person (id) VALUES (2)", as: "Widget", to: away)
            move(away, bench.store)
            try await bench.waitForCursor(at: 2, daemon)
            try await bench.write("INSERT INTO person (id) VALUES (3)", as: "Widget")
            try await bench.calls(3, of: daemon)
            try await daemon.stop()
            let summaries = try bench.calls().map(\.summary)
            #expect(summaries == (1...3).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
        }
    }

    @Test("Restored from a backup, its consumers start over where it is")
    func restored() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            try await bench.sql("VACUUM INTO '\(bench.path("backup.sqlite"))'")
            for id in 2...4 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(4, of: daemon)
            try await bench.waitForReplica(daemon)
            bench.replace(bench.store, by: bench.path("backup.sqlite"))
            try await daemon.logged("event=tokenExpired")
            try await bench.write("INSERT INTO person (id) VALUES (22)", as: "Widget")
            try await bench.calls(6, of: daemon)
            try await bench.waitForReplica(daemon)
            try await daemon.stop()
            #expect(
                try bench.calls().suffix(2).map(\.summary) == [
                    "audit/all Mirror restored 4 > 1", "audit/all Mirror 2 Widget person insert p22",
                ])
            try await bench.expectReplicaEqualsStore(["person": "id"])
        }
    }
}

extension Workbench {
    /// Puts a closed store into the place of another, whose journal would be taken for the new one's
    /// (https://www.sqlite.org/howtocorrupt.html, 1.4).
    func replace(_ store: String, by other: String) {
        for suffix in ["-wal", "-shm"] { unlink(store + suffix) }
        #expect(rename(other, store) == 0)
    }
}
