import Foundation
import TestSupport
import Testing

/// Somebody removes a `-wal` or a `-shm` that the daemon has open: a careless `rm`, or half of a restore.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct RemovedSideFileTests {
    private static let suffixes = [["-shm"], ["-wal"], ["-wal", "-shm"]]

    private func remove(_ suffixes: [String], of path: String, moving: Bool = false) {
        for suffix in suffixes {
            if moving {
                #expect(rename(path + suffix, path + ".moved" + suffix) == 0)
            } else {
                #expect(unlink(path + suffix) == 0)
            }
        }
    }

    @Test(
        "Beside a store: what is committed afterwards is delivered, and the store is not called damaged",
        arguments: suffixes, [false, true])
    func store(_ suffixes: [String], moving: Bool) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            // Only what is in the database outlives the log.
            try await bench.sql("PRAGMA wal_checkpoint(TRUNCATE)")
            try await daemon.quiet()
            remove(suffixes, of: bench.store, moving: moving)
            for id in 2...6 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(6, of: daemon)
            try await eventually("health") { try await bench.ctl("health").status == .exited(0) }
            #expect(try await bench.sql("PRAGMA integrity_check") == "ok\n")
            #expect(
                daemon.problems(bench) == [
                    #"error: Store "contacts" cannot be used. The -wal or the -shm of the store "contacts.sqlite" was removed by another process while the store was in use. The store is opened again. Only SQLite may remove these files: what was in the -wal alone is lost. event=storeLost"#
                ])
            try await daemon.stop()
            let summaries = try bench.calls().map(\.summary)
            #expect(
                summaries == (1...6).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
        }
    }

    @Test("Beside a store that is then moved as well: it comes back as it was, and no call is repeated")
    func movedStore() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            let daemon = try await bench.startDaemon()
            for id in 1...3 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(3, of: daemon)
            let (store, away) = (bench.store, bench.path("away.sqlite"))
            // They are in the log alone.
            #expect(rename(store + "-wal", away + "-wal") == 0)
            try await daemon.logged("event=storeLost")
            try await observe(for: .milliseconds(300))
            #expect(!daemon.log.contains { $0.contains("event=storeBack") })
            #expect(rename(store, away) == 0)
            try await daemon.quiet()
            #expect(try await bench.sql("SELECT count(*) FROM person", of: away) == "3\n")
            #expect(rename(away, store) == 0)
            try await bench.write("INSERT INTO person (id) VALUES (4)", as: "Widget")
            try await bench.calls(4, of: daemon)
            try await daemon.stop()
            let summaries = try bench.calls().map(\.summary)
            #expect(
                summaries == (1...4).map { "audit/all MainApp \($0) Widget person insert p\($0)" })
        }
    }

    @Test("Beside a store that is polled", arguments: suffixes) func polled(_ suffixes: [String]) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(more: #""poll": "100ms""#))
            let daemon = try await bench.startDaemon()
            try await bench.sql("PRAGMA wal_checkpoint(TRUNCATE)")
            remove(suffixes, of: bench.store)
            for id in 1...5 { try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget") }
            try await bench.calls(5, of: daemon)
            try await daemon.stop()
        }
    }

    @Test("Beside the state and a replica: nothing is lost or repeated", arguments: suffixes)
    func stateAndReplica(_ suffixes: [String]) async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored("MainApp")))
            var daemon = try await bench.startDaemon()
            try await bench.write("INSERT INTO person (id) VALUES (1)", as: "Widget")
            try await bench.calls(1, of: daemon)
            let files = [try bench.stateDatabase(), bench.path("replica.sqlite")]
            try await eventually("side files") {
                files.allSatisfy { FileManager.default.fileExists(atPath: $0 + "-wal") }
            }
            try await daemon.quiet()
            for file in files { remove(suffixes, of: file) }
            var last = ""
            for id in 2...4 { last = try await bench.commit("INSERT INTO person (id) VALUES (\(id))") }
            try await bench.steer("wait", "--consumer", "MainApp", "--token", last, "--timeout", "20s")
            #expect(
                try await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite")) == "4\n")
            // Another process finds what the daemon has saved.
            let position = try await bench.sql("SELECT position FROM cursor", of: files[0])
            #expect(position == "4\n", "\(daemon.log)")
            try await daemon.kill()
            daemon = try await bench.startDaemon()
            try await daemon.stop()
            #expect(try bench.calls().count == 4)
            #expect(try await bench.sql("PRAGMA integrity_check", of: files[0]) == "ok\n")
        }
    }
}
