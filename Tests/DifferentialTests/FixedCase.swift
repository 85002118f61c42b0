import Glibc
import TestSupport
import Testing

/// A case that is written by hand. `make test-differential` runs it under four settings. `make test` takes one of two, of
/// which each option is in one and not in the other: its own text says which, so that variants of a case share them.
enum FixedCase {
    private static let takesAll = getenv("HISTORYD_DIFFERENTIAL_SEED") != nil

    private static func settings(_ schema: [String], _ steps: [Case.Step]) -> [Int] {
        if takesAll { return Array(0..<4) }
        let text = "\(schema)\(steps)".utf8
        return text.reduce(0) { $0 &+ Int($1) } % 2 == 0 ? [0] : [3]
    }

    /// - Parameter followed: Whether a replica takes in each step, and not all of them at the end.
    static func expectNoFailure(
        _ schema: [String], _ steps: [Case.Step], isUTF16: Bool = false, followed: Bool = false,
        preservesEvery: Int = 2
    ) throws {
        let folder = try TemporaryFolder(inMemory: true)
        for setting in settings(schema, steps) {
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
