import Glibc
import TestSupport
import Testing

/// A case that is written by hand. In `make test` it runs under two settings, of which each option is in one and not in
/// the other; `make test-differential` takes all.
enum FixedCase {
    private static let settings = getenv("HISTORYD_DIFFERENTIAL_SEED") == nil ? [0, 3] : Array(0..<4)

    /// - Parameter followed: Whether a replica takes in each step, and not all of them at the end.
    static func expectNoFailure(
        _ schema: [String], _ steps: [Case.Step], isUTF16: Bool = false, followed: Bool = false,
        preservesEvery: Int = 2
    ) throws {
        let folder = try TemporaryFolder(inMemory: true)
        for setting in settings {
            let settings = Case.Settings(
                isWAL: setting < 2, isUTF16: isUTF16, recursiveTriggers: setting & 1 != 0,
                foreignKeys: setting & 2 != 0, preservesEvery: preservesEvery)
            let specimen = Case(
                seed: UInt64(followed ? 4 * setting : setting), settings: settings,
                schema: schema.map { SQL($0) }, later: [],
                steps: steps)
            let failure = Run.failure(specimen, in: folder.path)
            #expect(failure == nil, "\(failure.map { "\($0)" } ?? "")\n\(specimen.script)")
        }
    }

    static func steps(_ statements: [String]) -> [Case.Step] { statements.map { .sql(.first, SQL($0)) } }
}

func expectNoFailure(
    _ schema: [String], _ steps: [Case.Step], isUTF16: Bool = false, followed: Bool = false,
    preservesEvery: Int = 2
) throws {
    try FixedCase.expectNoFailure(
        schema, steps, isUTF16: isUTF16, followed: followed, preservesEvery: preservesEvery)
}
func steps(_ statements: [String]) -> [Case.Step] { FixedCase.steps(statements) }
