import Foundation
import TestSupport
import Testing

/// Many stores that begin at once.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct ManyStoresTests {
    private static let stores = 80

    /// Stores that are not tracked yet, with rows that fill a replica each.
    private func prepare(_ bench: Workbench) async throws {
        try await bench.startPython(
            """
            for number in range(\(Self.stores)):
                connection = sqlite3.connect(f'{bench}/s{number}.sqlite', isolation_level=None)
                connection.execute('PRAGMA journal_mode = wal')
                connection.execute('CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)')
                connection.execute('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) '
                                   'INSERT INTO person SELECT i, i FROM n')
                connection.close()
            """
        ).succeed()
        let stores = (0..<Self.stores).map { number in
            StoreSetup(
                name: "s\(number)", path: "s\(number).sqlite", entities: #"{"person": {}}"#,
                authors:
                    #"[{"name": "Mirror", "contexts": [{"name": "view", "kind": "replica", "path": "s\#(number)-replica.sqlite"}]}]"#
            ).json
        }
        try bench.folder.write(
            "historyd.json", #"{"version": 1, "stores": [\#(stores.joined(separator: ", "))]}"#)
    }

    /// What kills a daemon that does not feed its watchdog.
    private func startManager(_ bench: Workbench) async throws -> RunningProgram {
        let manager = try await bench.startPython(
            """
            import socket
            server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            server.bind(bench + '/notify')
            print('bound', flush=True)
            while True:
                try: print(server.recv(65536).decode(), flush=True)
                except TimeoutError: print('killed', flush=True)
                server.settimeout(10)
            """)
        try await eventually("a service manager") { manager.output.contains("bound") }
        return manager
    }

    @Test(
        "Many stores begin at once: the watchdog is fed, and the control socket answers, before the daemon is ready"
    )
    func beginning() async throws {
        try await withWorkbench { bench in
            try await prepare(bench)
            let manager = try await startManager(bench)
            // Until this one is open, or was waited for, the daemon is not ready.
            let writer = try await bench.startPython(
                """
                connection = connect(bench + '/s0.sqlite')
                connection.execute('BEGIN IMMEDIATE')
                print('locked', flush=True)
                select.select([], [], [])
                """)
            try await eventually("a lock") { writer.output.contains("locked") }
            func isReady(_ daemon: DaemonUnderTest) -> Bool {
                daemon.log.contains { $0.contains("event=ready") }
            }
            let daemon = try bench.launchDaemon(
                under: ["/usr/bin/prlimit", "--nofile=1024:4096"],
                environment: ["NOTIFY_SOCKET": bench.path("notify"), "WATCHDOG_USEC": "10000000"])
            try await daemon.logged("event=starting")
            var answeredEarly = false
            repeat {
                let status = try await bench.report("status", "--timeout", "5s")
                answeredEarly = answeredEarly || !isReady(daemon)
                if answeredEarly { writer.signal(SIGKILL) }
                #expect(status["stores"].list.count == Self.stores)
                let health = try bench.startCtl(["health", "--timeout", "60s"])
                #expect([.exited(0), .exited(1), .exited(2)].contains(try await health.end()))
                #expect(!health.output.contains("historyd has not answered"), "\(health.output)")
            } while !isReady(daemon) && daemon.program.ended == nil
            #expect(answeredEarly)
            try await eventually("level consumers", within: .seconds(120)) {
                try await bench.report("consumers")["consumers"].list.filter { $0["state"].text == "level" }
                    .count
                    == Self.stores
            }
            #expect(!manager.output.contains("killed"))
            #expect(!daemon.log.contains { $0.contains("descriptors") })
            try await daemon.stop()
        }
    }
}
