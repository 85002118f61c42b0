import Foundation
import TestSupport
import Testing

/// What one store waits for, no other waits for.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: PreloadedLibrary.compiler != nil, PreloadedLibrary.missing), .timeLimit(.minutes(60)))
struct IndependentStoresTests {
    private static let other = StoreSetup(name: "other", path: "other.sqlite")

    /// How many commits to the healthy store are delivered while another one is held up.
    private static let commits = 10

    private func makeOther(_ bench: Workbench) async throws {
        try await bench.sql(
            "PRAGMA journal_mode = wal;" + Workbench.schema, of: bench.path("other.sqlite"))
    }

    private func deliver(_ bench: Workbench, from first: Int = 1) async throws {
        for number in first..<first + Self.commits {
            let before = try bench.calls().filter { $0.params.store == "contacts" }.count
            try await bench.write("INSERT INTO item VALUES ('\(number)', 1)", as: "Widget")
            try await eventually("delivery \(number)") {
                try bench.calls().filter { $0.params.store == "contacts" }.count > before
            }
        }
    }

    private func isWaiting(_ daemon: DaemonUnderTest) async throws {
        try await eventually("a call that waits", state: { daemon.log.joined(separator: "\n") }) {
            daemon.log.contains { $0.hasPrefix("held: ") }
        }
    }

    @Test("Another store is locked while it is opened")
    func locked() async throws {
        try await withWorkbench { bench in
            try await makeOther(bench)
            try bench.configure(StoreSetup(), Self.other)
            let holder = try await bench.startPython(
                """
                connection = connect(bench + '/other.sqlite', None, None, 'locking_mode = EXCLUSIVE')
                connection.execute('BEGIN EXCLUSIVE')
                open(bench + '/locked', 'w').close()
                sys.stdin.read()
                time.sleep(600)
                """)
            try await eventually("a lock") { FileManager.default.fileExists(atPath: bench.path("locked")) }
            let daemon = try bench.launchDaemon()
            try await daemon.logged("Store \"contacts\" is open")
            try await deliver(bench)
            #expect(holder.ended == nil)
            #expect(!daemon.log.contains { $0.contains("Store \"other\" is open") })
            try await holder.destroy()
            try await daemon.logged("Store \"other\" is open")
            try await daemon.stop()
        }
    }

    @Test("The disk of another store's state does not answer")
    func stateOnHangingDisk() async throws {
        try await withWorkbench { bench in
            try await makeOther(bench)
            try bench.configure(StoreSetup(), Self.other)
            let daemon = try bench.launchDaemon(environment: try await HeldFiles.environment(bench))
            try await daemon.ready()
            let token = try await bench.report("status")["stores"][1]["newest"].text
            let id = try #require(token?.split(separator: ":").first)
            try bench.hold("\(id).sqlite")
            try await bench.write(
                "INSERT INTO item VALUES ('x', 1)", as: "Widget", to: bench.path("other.sqlite"))
            try await isWaiting(daemon)
            try await deliver(bench)
            // Who asks gets an answer, with the trouble named.
            let health = try await eventually("a reason") {
                let health = try await bench.ctl("health", "--format", "json").json()
                return health["reasons"].list.contains { $0["cause"].text == "stateNotWritable" } ? health : nil
            }
            #expect(
                health["reasons"].list.filter { $0["cause"].text == "stateNotWritable" }.compactMap {
                    $0["store"].text
                }
                    == ["other"], "\(health)")
            #expect(try await bench.report("status")["stores"].list.count == 2)
            // What is not saved is not said to be done.
            let states = try await bench.report("consumers")["consumers"].list.map { $0["state"].text }
            #expect(states == ["level", "behind"])
            try bench.release()
            try await eventually("level consumers") {
                try await bench.report("consumers")["consumers"].list.allSatisfy { $0["state"].text == "level" }
            }
            #expect(try bench.calls().contains { $0.params.store == "other" })
            try await daemon.stop()
        }
    }

    @Test("The disk of another store's state does not answer while that store is opened: health says so")
    func stateOnHangingDiskAtOpening() async throws {
        try await withWorkbench { bench in
            try await makeOther(bench)
            try bench.configure(StoreSetup(), Self.other)
            var daemon = try await bench.startDaemon()
            let token = try await bench.report("status")["stores"][1]["newest"].text
            let id = try #require(token?.split(separator: ":").first)
            try await daemon.stop()
            try bench.hold("\(id).sqlite")
            daemon = try bench.launchDaemon(environment: try await HeldFiles.environment(bench))
            try await isWaiting(daemon)
            try await daemon.logged("Store \"contacts\" is open")
            try await deliver(bench)
            try await eventually("a reason") {
                let health = try await bench.ctl("health", "--format", "json").json()
                return health["reasons"].list.contains {
                    $0["cause"].text == "storeStuck" && $0["store"].text == "other"
                }
            }
            try bench.release()
            try await daemon.ready()
            try await eventually("health") {
                try await bench.ctl("health", "--format", "json").json()["verdict"].text == "healthy"
            }
            try await daemon.stop()
        }
    }

    @Test("A plugin's program does not come from its disk")
    func slowProgram() async throws {
        try await withWorkbench { bench in
            let environment = try await HeldFiles.environment(bench)
            try FileManager.default.createSymbolicLink(
                atPath: bench.path("slow-program"), withDestinationPath: Products.python)
            try bench.configure(
                StoreSetup(),
                plugins: [
                    PluginSetup(),
                    PluginSetup(
                        name: "slow",
                        command: [bench.path("slow-program"), bench.path("record.py"), "coprocess"],
                        hooks: [#"{"name": "none", "kind": "observer", "entity": "person"}"#]),
                ])
            try bench.hold("slow-program")
            let daemon = try bench.launchDaemon(environment: environment)
            try await isWaiting(daemon)
            try await daemon.logged("Store \"contacts\" is open")
            try await deliver(bench)
            try bench.release()
            try await daemon.ready()
            try await daemon.stop()
        }
    }

    @Test("Many replicas on a disk that does not answer: the watchdog is fed, and the control socket answers")
    func fills() async throws {
        try await withWorkbench { bench in
            try await makeOther(bench)
            // More than there are processors.
            let contexts = (0..<8).map {
                #"{"name": "view\#($0)", "kind": "replica", "path": "replica\#($0).sqlite"}"#
            }
            let authors = contexts.enumerated().map {
                #"{"name": "Mirror\#($0)", "contexts": [\#($1)]}"#
            }.joined(separator: ", ")
            try bench.configure(
                StoreSetup(), StoreSetup(name: "other", path: "other.sqlite", authors: "[\(authors)]"))
            var environment = try await HeldFiles.environment(bench)
            environment["NOTIFY_SOCKET"] = bench.path("notify")
            environment["WATCHDOG_USEC"] = "2000000"
            let manager = try await bench.startPython(
                """
                import socket
                server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                server.bind(bench + '/notify')
                print('bound', flush=True)
                while True: print(server.recv(65536).decode(), flush=True)
                """)
            try await eventually("a service manager") { manager.output.contains("bound") }
            try bench.hold("replica")
            let daemon = try bench.launchDaemon(environment: environment)
            try await isWaiting(daemon)
            try await daemon.logged("Store \"contacts\" is open")
            func fed() -> Int { manager.output.split(separator: "\n").filter { $0 == "WATCHDOG=1" }.count }
            let before = fed()
            try await deliver(bench)
            try await eventually("a watchdog that is fed") { fed() > before + 2 }
            #expect(try await bench.report("consumers")["consumers"].list.count == 9)
            try bench.release()
            try await daemon.ready()
            try await eventually("level consumers") {
                try await bench.report("consumers")["consumers"].list.allSatisfy { $0["state"].text == "level" }
            }
            try await daemon.stop()
        }
    }

    @Test("The folder of the state is removed: health says so")
    func lostState() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup())
            let daemon = try await bench.startDaemon()
            try await deliver(bench)
            let files = try FileManager.default.contentsOfDirectory(atPath: bench.path("state"))
            for file in files where file.contains(".sqlite") {
                try FileManager.default.removeItem(atPath: bench.path("state/\(file)"))
            }
            let health = try await bench.ctl("health", "--format", "json").json()
            #expect(health["verdict"].text == "failing", "\(health)")
            #expect(health["reasons"][0]["cause"].text == "stateNotWritable", "\(health)")
            try await daemon.kill()
        }
    }
}
