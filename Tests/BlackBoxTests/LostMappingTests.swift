import Foundation
import TestSupport
import Testing

/// Somebody makes a `-shm` shorter that the daemon has mapped. To read what is gone is a SIGBUS.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct LostMappingTests {
    private static let cut = """
        import os, sys, time
        store, size = sys.argv[1], int(sys.argv[2])
        # There is none while the daemon opens the store again.
        end = time.monotonic() + 60
        while True:
            try:
                os.truncate(store + '-shm', size)
                # The same byte again: the daemon is notified of it, and looks.
                with open(store + '-wal', 'r+b') as file:
                    byte = file.read(1)
                    file.seek(0)
                    file.write(byte)
                break
            except FileNotFoundError:
                if time.monotonic() > end: raise
                time.sleep(0.01)
        """

    @Test(
        "A store whose -shm is cut is closed and opened again, and no other store notices",
        arguments: [0, 4096])
    func store(size: Int) async throws {
        try await withWorkbench { bench in
            let victim = bench.path("victim.sqlite")
            try await bench.sql(
                "PRAGMA journal_mode = WAL; CREATE TABLE t (id INTEGER PRIMARY KEY)", of: victim)
            try bench.configure(
                StoreSetup(),
                StoreSetup(
                    name: "victim", path: "victim.sqlite", entities: #"{"t": {}}"#,
                    authors: StoreSetup.mirrored()))
            let daemon = try await bench.startDaemon()
            // So many frames that the wal-index has more than the page of its header.
            try await bench.write(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO t SELECT i FROM n",
                to: victim)
            for round in 1...6 {
                try await bench.start([Products.python, "-c", Self.cut, victim, "\(size)"], "cut-\(round)")
                    .succeed()
                let token = try await bench.commit("INSERT INTO person (name) VALUES ('x')")
                try await bench.steer(
                    "wait", "--store", "contacts", "--consumer", "MainApp", "--token", token, "--timeout", "10s"
                )
                let id = 10_000 + round
                // With an intact header and an empty rest, every program loses what is in the -wal.
                if size > 0 {
                    _ = try await bench.ctl(
                        "exec", victim, "--author", "Widget", "INSERT INTO t VALUES (\(id))")
                    continue
                }
                let own = try await bench.start(
                    [
                        Products.historyctl, "exec", victim, "--author", "Widget",
                        "INSERT INTO t VALUES (\(id))",
                    ],
                    "own-\(round)"
                ).succeed().trimmingCharacters(in: .whitespacesAndNewlines)
                try await eventually(
                    "the victim's commit \(round)", within: .seconds(60),
                    state: { daemon.log.joined(separator: "\n") }
                ) {
                    try await bench.ctl(
                        "wait", "--store", "victim", "--consumer", "Mirror", "--token", own, "--timeout", "1s"
                    ).status == .exited(0)
                }
            }
            let told = daemon.log.filter { $0.contains("event=storeLost") }
            #expect(told.allSatisfy { $0.contains("store=victim") })
            try await daemon.stop()
            guard size == 0 else { return }
            #expect(told.contains { $0.contains("\"\(victim)-shm\" was made shorter") }, "\(daemon.log)")
            #expect(
                try await bench.sql("SELECT count(*) FROM t", of: bench.path("replica.sqlite"))
                    == bench.sql("SELECT count(*) FROM t", of: victim))
            #expect(try await bench.sql("PRAGMA integrity_check", of: victim) == "ok\n")
        }
    }

    @Test("A replica whose -shm is cut is opened again")
    func replica() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(authors: StoreSetup.mirrored()), plugins: [])
            let daemon = try await bench.startDaemon()
            try await bench.waitForReplica(daemon)
            for round in 1...4 {
                // It is there for as long as the daemon has the replica open.
                try await eventually("the replica's -shm", state: { daemon.log.joined(separator: "\n") }) {
                    FileManager.default.fileExists(atPath: bench.path("replica.sqlite-shm"))
                }
                try await bench.start(
                    [Products.python, "-c", Self.cut, bench.path("replica.sqlite"), "0"], "cut-\(round)"
                ).succeed()
                let token = try await bench.commit("INSERT INTO person (id) VALUES (\(round))")
                try await eventually("the commit \(round)", state: { daemon.log.joined(separator: "\n") }) {
                    _ = try await bench.ctl("wait", "--consumer", "Mirror", "--token", token, "--timeout", "1s")
                    return try await bench.sql(
                        "SELECT count(*) FROM person", of: bench.path("replica.sqlite")) == "\(round)\n"
                }
            }
            try await daemon.stop()
        }
    }
}
