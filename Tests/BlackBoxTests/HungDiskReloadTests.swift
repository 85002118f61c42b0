import Foundation
import TestSupport
import Testing

/// One store's disk hangs, and the daemon is to change or to end meanwhile.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: PreloadedLibrary.compiler != nil, PreloadedLibrary.missing), .timeLimit(.minutes(60)))
struct HungDiskReloadTests {
    private func configure(_ bench: Workbench, version: Int) throws {
        try bench.configure(
            StoreSetup(),
            StoreSetup(
                name: "other", path: "other.sqlite", authors: StoreSetup.mirrored("MainApp"),
                more: #""healthyLag": "\#(version)h""#),
            plugins: [PluginSetup(environment: ["VERSION": "\(version)"])])
    }

    private func deliver(_ bench: Workbench, _ ids: ClosedRange<Int>) async throws {
        for id in ids {
            let before = try bench.calls().filter { $0.params.store == "contacts" }.count
            try await bench.write("INSERT INTO person (id) VALUES (\(id))", as: "Widget")
            try await eventually("delivery \(id)") {
                try bench.calls().filter { $0.params.store == "contacts" }.count > before
            }
        }
    }

    private func hang(_ daemon: DaemonUnderTest, _ bench: Workbench, row: Int) async throws {
        let before = daemon.log.count { $0.hasPrefix("held: ") }
        try bench.hold("replica.sqlite")
        try await bench.write(
            "INSERT INTO person (id) VALUES (\(row))", as: "Widget", to: bench.path("other.sqlite"))
        try await eventually("a call that waits", state: { daemon.log.joined(separator: "\n") }) {
            daemon.log.count { $0.hasPrefix("held: ") } > before
        }
    }

    /// A daemon whose replica of the other store waits for its disk.
    private func withHungReplica(_ body: (Workbench, DaemonUnderTest) async throws -> Void) async throws {
        try await withWorkbench { bench in
            try await bench.sql("PRAGMA journal_mode = wal;" + Workbench.schema, of: bench.path("other.sqlite"))
            try configure(bench, version: 1)
            let daemon = try bench.launchDaemon(environment: try await HeldFiles.environment(bench))
            try await daemon.ready()
            try await hang(daemon, bench, row: 1)
            try await body(bench, daemon)
        }
    }

    @Test("A reload, and what follows it, waits for no other store's disk; health names the replica")
    func reload() async throws {
        try await withHungReplica { bench, daemon in
            try await eventually("a reason") {
                let health = try await bench.ctl("health", "--format", "json").json()
                return health["verdict"].text == "failing"
                    && health["reasons"].list.contains {
                        $0["cause"].text == "replicaNotWritable" && $0["store"].text == "other"
                            && $0["context"].text == "view"
                    }
            }
            // Both the store and the plugin that another one uses as well are others now.
            try configure(bench, version: 2)
            let reload = try bench.startCtl(["reload", "--timeout", "60s"])
            try await deliver(bench, 1...10)
            #expect(try await reload.end() == .exited(0), "\(reload.errors)")
            try await deliver(bench, 11...12)
            #expect(try await bench.ctl("reload", "--timeout", "60s").status == .exited(0))
            let status = try await bench.report("status")["stores"].list.map { $0["problem"].text ?? "" }
            #expect(status.first == "" && status.last?.contains("waits for a disk") == true, "\(status)")
            try bench.release()
            try await eventually("the row", state: { daemon.log.joined(separator: "\n") }) {
                // A session that begins again after the disk came back may be about to make the table.
                (try? await bench.sql("SELECT count(*) FROM person", of: bench.path("replica.sqlite"))) == "1\n"
            }
            try await eventually("health") { try await bench.ctl("health").status == .exited(0) }
            try await daemon.stop()
        }
    }

    @Test("A stop does not wait for a disk for ever")
    func stop() async throws {
        try await withHungReplica { bench, daemon in
            daemon.program.signal(SIGTERM)
            #expect(try await daemon.program.end(within: .seconds(35)) == .exited(75))
            #expect(daemon.log.contains { $0.contains("still waits for a disk") }, "\(daemon.log)")
            try bench.release()
        }
    }
}
