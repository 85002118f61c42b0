import Foundation
import Testing

/// How much is logged where much is delivered.
@Suite(.enabled(if: Products.areThere, Comment(rawValue: Products.missing)), .timeLimit(.minutes(60)))
struct QuietJournalTests {
    private func run(_ commits: Int, level: String) async throws -> (deliveries: [String], seconds: Int) {
        var result: (deliveries: [String], seconds: Int) = ([], 0)
        try await withWorkbench { bench in
            try bench.configure(StoreSetup(), more: #""logLevel": "\#(level)""#)
            let daemon = try await bench.startDaemon()
            let start = ContinuousClock.now
            try await bench.startPython(
                """
                connection = connect(store, 'Widget')
                for id in range(\(commits)): connection.execute('INSERT INTO person (id) VALUES (?)', (id,))
                """
            ).succeed()
            try await bench.calls(commits, of: daemon)
            let time = start.duration(to: .now)
            try await daemon.stop()
            result = (daemon.log.filter { $0.contains("Delivered ") }, Int(time.components.seconds) + 1)
        }
        return result
    }

    @Test("Deliveries have a line a second for each hook, which counts all of them")
    func summedUp() async throws {
        let (lines, seconds) = try await run(600, level: "info")
        // The first, one for each second, and what was left at the end.
        #expect(lines.count <= seconds + 2, "\(lines)")
        let counted = lines.compactMap {
            $0.firstMatch(of: /Delivered (\d+) transactions?/).flatMap { Int($0.1) }
        }
        #expect(counted.reduce(0, +) == 600, "\(lines)")
        #expect(
            lines.allSatisfy { $0.contains("\"audit/all\" for \"MainApp\"") && $0.contains("author=Widget") })
    }

    @Test("At level debug each delivery has its own line") func debugging() async throws {
        let (lines, _) = try await run(50, level: "debug")
        #expect(lines.allSatisfy { $0.hasPrefix("debug: ") }, "\(lines)")
        let counted = lines.compactMap {
            $0.firstMatch(of: /Delivered (\d+) transactions?/).flatMap { Int($0.1) }
        }
        #expect(counted.reduce(0, +) == 50)
    }
}
