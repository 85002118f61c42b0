import Foundation
import TestSupport
import Testing

/// A store and its mirror, with a real nats-server between them: `Tests/NATS/nats.py`.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(
        if: FileManager.default.isExecutableFile(atPath: "/usr/bin/nats-server")
            || FileManager.default.isExecutableFile(atPath: "/usr/sbin/nats-server"),
        "needs nats-server"), .timeLimit(.minutes(10)))
struct NATSTests {
    @Test("A mirror is equal, and a hook behind it has every transaction in order")
    func basic() async throws { try await run("basic") }

    @Test("Restored, diverged, cleaned, passed by, removed: a snapshot makes the mirror equal")
    func losses() async throws { try await run("losses") }

    @Test("Publisher, follower and server killed, the server set back, a second publisher: the mirror is equal")
    func faults() async throws { try await run("faults", "15", "\(Int.random(in: 0..<1_000_000))") }

    private func run(_ arguments: String...) async throws {
        try await withWorkbench { bench in
            _ = try await BuiltProducts.libhistory()
            let script = URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../NATS/nats.py").standardized.path
            let programs = URL(filePath: Products.historyd).deletingLastPathComponent().path
            let run = try bench.start(
                [Products.python, script, programs] + arguments, "nats",
                environment: ["TMPDIR": bench.folder.path])
            let ending = try await run.end(within: .seconds(500))
            print(run.output)
            #expect(ending == .exited(0), "\(run.output)\n\(run.errors)")
        }
    }
}
