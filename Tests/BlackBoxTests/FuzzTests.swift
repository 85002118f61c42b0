import Foundation
import TestSupport
import Testing

/// A short run of what `make fuzz` does for longer, with the same cases each time.
@Suite(
    .enabled(if: Products.areThere, Comment(rawValue: Products.missing)),
    .enabled(if: geteuid() == 0, "Only root can run the daemon as a user of its own."), .timeLimit(.minutes(60))
)
struct FuzzTests {
    @Test("Mutated stores, replicas, requests, answers and configurations harm nobody else", arguments: [1, 2])
    func fuzz(seed: Int) async throws {
        try await withWorkbench { bench in
            let script = URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../Tools/Fuzz/fuzz.py").standardized.path
            let run = try bench.start(
                [
                    Products.python, script, Products.historyd, Products.historyctl, "--cases", "80", "--seed",
                    "\(seed)",
                ], "fuzz")
            let ending = try await run.end(within: .seconds(600))
            print(run.output)
            #expect(ending == .exited(0), "\(run.output)\n\(run.errors)")
        }
    }
}
