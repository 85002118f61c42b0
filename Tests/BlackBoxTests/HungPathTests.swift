import Foundation
import TestSupport
import Testing

/// A disk that does not even say what is under a path delays only the store that lies on it.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: PreloadedLibrary.compiler != nil, PreloadedLibrary.missing), .timeLimit(.minutes(60)))
struct HungPathTests {
    /// The test's own store lies elsewhere.
    private static let other = StoreSetup(name: "other", path: "far/other.sqlite")

    private func withOther(_ body: (Workbench) async throws -> Void) async throws {
        try await withWorkbench { bench in
            try FileManager.default.createDirectory(
                atPath: bench.path("far"), withIntermediateDirectories: true)
            try await bench.sql(
                "PRAGMA journal_mode = wal;" + Workbench.schema, of: bench.path("far/other.sqlite"))
            try bench.configure(StoreSetup(), Self.other)
            try await body(bench)
        }
    }

    private func deliver(_ bench: Workbench, _ number: Int) async throws {
        let before = try bench.calls().filter { $0.params.store == "contacts" }.count
        try await bench.write("INSERT INTO item VALUES ('\(number)', 1)", as: "Widget")
        try await eventually("delivery \(number)") {
            try bench.calls().filter { $0.params.store == "contacts" }.count > before
        }
    }

    private func isHeld(_ daemon: DaemonUnderTest, _ part: String) async throws {
        try await eventually("a call that waits", state: { daemon.log.joined(separator: "\n") }) {
            daemon.log.contains { $0.hasPrefix("held: ") && $0.contains(part) }
        }
    }

    @Test("A path is followed that does not answer, and its store is let go of")
    func followed() async throws {
        try await withOther { bench in
            let daemon = try bench.launchDaemon(environment: try await HeldFiles.environment(bench))
            try await daemon.ready()
            try await deliver(bench, 1)
            try bench.holdPaths("/far/")
            // The path may lead elsewhere now.
            try FileManager.default.moveItem(
                atPath: bench.path("far/other.sqlite"), toPath: bench.path("far/moved.sqlite"))
            try await isHeld(daemon, "/far/other.sqlite")
            try await deliver(bench, 2)
            #expect(try await bench.report("status")["stores"].list.count == 2)
            try FileManager.default.moveItem(
                atPath: bench.path("far/moved.sqlite"), toPath: bench.path("far/other.sqlite"))
            try await deliver(bench, 3)
            try bench.releasePaths()
            try await bench.write(
                "INSERT INTO item VALUES ('x', 1)", as: "Widget", to: bench.path("far/other.sqlite"))
            try await eventually("a delivery of the other store") {
                try bench.calls().contains { $0.params.store == "other" }
            }
            try await daemon.stop()
        }
    }

    @Test("A path does not answer when the daemon starts")
    func compared() async throws {
        try await withOther { bench in
            try bench.holdPaths("/far")
            let daemon = try bench.launchDaemon(environment: try await HeldFiles.environment(bench))
            try await daemon.logged("Store \"contacts\" is open")
            try await deliver(bench, 1)
            try bench.releasePaths()
            try await daemon.logged("Store \"other\" is open")
            try await daemon.stop()
        }
    }

    @Test("The disk of the state does not answer while unused states are looked for: others are answered")
    func unusedStates() async throws {
        try await withOther { bench in
            let daemon = try bench.launchDaemon(environment: try await HeldFiles.environment(bench))
            try await daemon.ready()
            try bench.holdPaths(".store")
            let reload = try bench.startCtl(["reload", "--timeout", "60s"])
            try await isHeld(daemon, ".store")
            for command in ["status", "health", "consumers"] {
                let answer = try await bench.ctl(command, "--timeout", "5s", "--format", "json")
                #expect(answer.errors == "", "\(command)")
            }
            try await reload.succeed()
            try bench.releasePaths()
            try await daemon.stop()
        }
    }
}
