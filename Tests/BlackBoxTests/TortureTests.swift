import Foundation
import TestSupport
import Testing

/// A short run of what `make torture` does for longer.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct TortureTests {
    @Test("Killed, filled up, locked, moved, and restored: nothing is lost, and the replica is equal")
    func torture() async throws {
        try await withWorkbench { bench in
            let library = try await BuiltProducts.libhistory()
            let script = URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../Tools/Torture/torture.py").standardized.path
            let seed = Int.random(in: 0..<1_000_000)
            let run = try bench.start(
                [Products.python, script, Products.historyd, library, "6", "\(seed)"], "torture",
                environment: ["TMPDIR": bench.folder.path])
            let ending = try await run.end(within: .seconds(600))
            print(run.output)
            #expect(ending == .exited(0), "\(run.output)\n\(run.errors)")
        }
    }
}
