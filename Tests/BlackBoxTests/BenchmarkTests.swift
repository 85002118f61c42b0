import Foundation
import TestSupport
import Testing

private enum ComparedPrograms {
    static let areBuilt = ["historyd-bench", "bench-consumer", "bench-plugin"].allSatisfy {
        FileManager.default.isExecutableFile(atPath: BuiltProducts.path($0))
    }
}

/// Whole runs with little to measure: that a benchmark still measures, not how much.
@Suite(.enabled(if: ComparedPrograms.areBuilt, "`make debug` builds the benchmarks and what they compare to."))
struct BenchmarkTests {
    private static let sizes = [
        "--rounds", "2", "--commits", "40", "--backlog", "2000", "--changes", "3000", "--consumers", "3",
        "--stores", "3", "--history", "100", "--cleaned", "20000",
    ]

    /// What a run keeps.
    private struct Record: Decodable {
        struct Figure: Decodable {
            struct Aim: Decodable {}
            struct Baseline: Decodable {}
            let rounds: [Double]
            let aim: Aim?
            let baseline: Baseline?
        }

        let figures: [Figure]
        let omissions: [String]
    }

    @Test(arguments: ["backlog": 4, "replica": 4, "scale": 4, "cleaning": 3].sorted { $0.key < $1.key })
    func aRunIsKeptAndLeavesNothingElse(part: String, figures: Int) async throws {
        let folder = try TemporaryFolder()
        let kept = try TemporaryFolder()
        let results = ["--results", kept.path]
        let run = Command(
            BuiltProducts.path("historyd-bench"), [part, "--name", "small"] + results + Self.sizes,
            environment: ["TMPDIR": folder.path], limit: .seconds(600))
        try await run.succeed()
        let record = try JSONDecoder().decode(
            Record.self, from: Data(contentsOf: URL(fileURLWithPath: kept.file("small.json"))))
        #expect(record.omissions.isEmpty)
        #expect(record.figures.count >= figures)
        // A difference of two small measures may be less than nothing.
        #expect(record.figures.allSatisfy { !$0.rounds.isEmpty && $0.rounds.allSatisfy(\.isFinite) })
        #expect(record.figures.contains { $0.aim != nil && $0.baseline != nil })
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [])

        let comparison = try await Command(
            BuiltProducts.path("historyd-bench"), ["compare", "small", "small"] + results
        ).succeed()
        #expect(!comparison.contains("better") && !comparison.contains("worse") && !comparison.contains("Only"))
    }
}
