import Foundation
import TestSupport
import Testing

/// A daemon that is a service of its user.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct OwnDaemonTests {
    @Test("historyctl finds the daemon of the user, whether a service or started by hand")
    func found() async throws {
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), plugins: [])
            func status() async throws -> (ending: RunningProgram.Ending, output: String) {
                let program = try bench.start(
                    [Products.historyctl, "status"], "ctl-\(UUID().uuidString)",
                    environment: ["XDG_RUNTIME_DIR": bench.path("run"), "HOME": bench.path("home")])
                return (try await program.end(), program.output)
            }
            for folder in ["run", "run/historyd", "home"] {
                try FileManager.default.createDirectory(
                    atPath: bench.path(folder), withIntermediateDirectories: false)
            }
            let service = DaemonUnderTest(
                try bench.start(
                    [Products.historyd, "--config", bench.configuration], "service",
                    environment: [
                        "RUNTIME_DIRECTORY": bench.path("run/historyd"), "STATE_DIRECTORY": bench.path("state"),
                    ]), logFrom: 0)
            try await service.ready()
            #expect(try await status().output.contains("process \(service.processID)\n"))
            try await service.kill()
            // Its socket is left behind, and nobody listens.
            let byHand = DaemonUnderTest(
                try bench.start(
                    [Products.historyd, "--config", bench.configuration], "by-hand",
                    environment: ["HOME": bench.path("home")]), logFrom: 0)
            try await byHand.ready()
            #expect(try await status().output.contains("process \(byHand.processID)\n"))
            try await byHand.stop()
            #expect(try await status().ending == .exited(69))
        }
    }
}
