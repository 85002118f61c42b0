import TestSupport
import Testing

@testable import PersistentHistory

@Suite struct NamePatternTests {
    /// Short texts of few characters, so that many of them match.
    private static func text(_ random: inout Seed, _ characters: String, upTo length: Int = 5) -> String {
        String(
            (0..<Int.random(in: 0...length, using: &random)).compactMap { _ in
                characters.randomElement(using: &random)
            })
    }

    /// What a pattern means, said as simply as possible.
    private static func matches(_ pattern: Substring, _ name: Substring) -> Bool {
        guard let first = pattern.first else { return name.isEmpty }
        let rest = pattern.dropFirst()
        if first == "*" { return matches(rest, name) || !name.isEmpty && matches(pattern, name.dropFirst()) }
        guard let character = name.first, first == "?" || first == character else { return false }
        return matches(rest, name.dropFirst())
    }

    @Test func matchesAsItIsDefined() {
        var random = Seed(UInt64.random(in: 0 ... .max))
        for _ in 0..<5000 {
            let (pattern, name) = (Self.text(&random, "ab*?"), Self.text(&random, "ab"))
            #expect(
                NamePattern(pattern).matches(name) == Self.matches(pattern[...], name[...]),
                "\(pattern) \(name) \(random)")
        }
    }

    @Test func patternsIntersectWhereOneNameFitsBoth() {
        // All names up to a length that is enough for patterns as short as these.
        var names = [""]
        for length in 0..<6 { names += names.filter { $0.count == length }.flatMap { [$0 + "a", $0 + "b"] } }
        var random = Seed(UInt64.random(in: 0 ... .max))
        for _ in 0..<1000 {
            let (a, b) = (Self.text(&random, "ab*?", upTo: 3), Self.text(&random, "ab*?", upTo: 3))
            let isThere = names.contains { NamePattern(a).matches($0) && NamePattern(b).matches($0) }
            #expect(NamePattern(a).intersects(NamePattern(b)) == isThere, "\(a) \(b) \(random)")
        }
    }

    @Test func aNameWithAStarMeansItselfToo() {
        #expect(NamePattern.matches("tenant-*", "tenant-acme"))
        #expect(NamePattern.matches("a[*", "a[*"))
        #expect(!NamePattern.matches("tenant", "tenant-acme"))
        // Names are told apart by their bytes.
        #expect(!NamePattern.matches("caf\u{e9}", "cafe\u{301}"))
        #expect(!NamePattern.matches("caf\u{e9}*", "cafe\u{301}"))
    }
}
