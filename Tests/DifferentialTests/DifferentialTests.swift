import Glibc
import TestSupport
import Testing

/// Whatever SQL ran, whoever ran it: the history says what the tables say, and the application's
/// statements do what they do without it.
///
/// `make test-differential SEED=… CASES=…` runs other cases, and as many as one likes.
@Suite struct DifferentialTests {
    private static let firstSeed = number("HISTORYD_DIFFERENTIAL_SEED") ?? 1
    private static let cases = number("HISTORYD_DIFFERENTIAL_CASES") ?? 30
    /// Cases that one test runs, one after the other.
    private static let share: UInt64 = 10

    private static func number(_ name: String) -> UInt64? {
        getenv(name).flatMap { UInt64(String(cString: $0)) }
    }

    @Test(arguments: stride(from: firstSeed, to: firstSeed + cases, by: Int(share)).map { $0 })
    func historySaysWhatTheTablesSay(from first: UInt64) throws {
        let folder = try TemporaryFolder(inMemory: true)
        for seed in first..<min(first + Self.share, Self.firstSeed + Self.cases) {
            var generator = CaseGenerator(seed)
            let specimen = generator.make()
            guard let failure = Run.failure(specimen, in: folder.path) else { continue }
            var shrinker = Shrinker { Run.failure($0, in: folder.path)?.kind == failure.kind }
            let short = shrinker.shrunk(specimen)
            let reason = Run.failure(short, in: folder.path) ?? failure
            Issue.record(
                """
                Seed \(seed), \(reason.kind): \(reason)
                \(short.script)
                -- before it was shortened: \(failure)
                -- again: make test-differential SEED=\(seed) CASES=1
                """)
        }
    }
}
