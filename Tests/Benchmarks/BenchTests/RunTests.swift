import Foundation
import TestSupport
import Testing

@testable import historyd_bench

private enum ComparedPrograms {
    static let areBuilt = ["bench-consumer", "bench-plugin"].allSatisfy {
        FileManager.default.isExecutableFile(atPath: BuiltProducts.path($0))
    }
}

/// Whole runs with little to measure: that a benchmark still measures, not how much.
@Suite(.enabled(if: ComparedPrograms.areBuilt, "`make debug` compiles what the benchmarks compare to."))
struct RunTests {
    private static let sizes = [
        "--rounds", "2", "--commits", "40", "--backlog", "2000", "--changes", "3000", "--consumers", "3",
        "--stores", "3", "--history", "100",
    ]

    @Test(arguments: ["backlog", "replica", "scale"])
    func aRunIsKeptAndLeavesNothingElse(part: String) async throws {
        let folder = try TemporaryFolder()
        let kept = try TemporaryFolder()
        let results = ["--results", kept.path]
        let run = Command(
            BuiltProducts.path("historyd-bench"), [part, "--name", "small"] + results + Self.sizes,
            environment: ["TMPDIR": folder.path], limit: .seconds(600))
        try await run.succeed()
        let record = try RunRecord.load(kept.file("small.json"))
        #expect(record.figures.count >= 4)
        // A difference of two small measures may be less than nothing.
        #expect(record.figures.allSatisfy { !$0.rounds.isEmpty && $0.value.isFinite })
        #expect(record.figures.contains { $0.aim != nil && $0.baseline != nil })
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [])

        let comparison = try await Command(
            BuiltProducts.path("historyd-bench"), ["compare", "small", "small"] + results
        ).succeed()
        #expect(!comparison.contains("better") && !comparison.contains("worse") && !comparison.contains("Only"))
    }
}
