import Testing

@testable import historyd_bench

struct ComparisonTests {
    private func verdict(
        _ before: [Double], _ after: [Double], _ unit: Figure.Unit = .microseconds,
        baselines: (before: [Double], after: [Double])? = nil
    ) -> Comparison.Verdict? {
        func figure(_ rounds: [Double], _ baseline: [Double]?) -> Figure {
            Figure(
                "group", "name", rounds: rounds, unit,
                against: baseline.map { .init(name: "baseline", rounds: $0) })
        }
        return Comparison([figure(before, baselines?.before)], [figure(after, baselines?.after)]).lines.first?
            .verdict
    }

    @Test func whatLiesWithinTheRoundsHasNotMoved() {
        #expect(verdict([90, 100, 110], [105, 115, 125]) == .same)
        #expect(verdict([90, 100, 110], [111, 120, 130]) == .worse)
        #expect(verdict([111, 120, 130], [90, 100, 110]) == .better)
    }

    @Test func moreIsBetterOfRates() {
        #expect(verdict([100, 101], [200, 201], .perSecond) == .better)
        #expect(verdict([200, 201], [100, 101], .perSecond) == .worse)
    }

    @Test func littleIsNothingHoweverExact() {
        #expect(verdict([1000, 1000], [1015, 1015]) == .same)
        #expect(verdict([1000, 1000], [1030, 1030]) == .worse)
    }

    @Test func oneRoundIsNotTrustedFar() {
        #expect(verdict([100], [108]) == .same)
        #expect(verdict([100], [112]) == .worse)
    }

    @Test func aSlowerMachineIsNoSlowerDaemon() {
        #expect(verdict([100, 110], [200, 220], baselines: ([50, 55], [100, 110])) == .same)
        #expect(verdict([100, 110], [100, 110], baselines: ([50, 55], [25, 27.5])) == .worse)
    }

    @Test func fromNothingToSomethingIsWorse() {
        #expect(verdict([0, 0], [1, 1]) == .worse)
        #expect(verdict([1, 1], [0, 0]) == .better)
    }

    @Test func figuresOfOneRunOnlyAreNamed() {
        let before = [Figure("a", "x", 1, .count), Figure("a", "y", 1, .count)]
        let after = [Figure("a", "y", 1, .count), Figure("b", "x", 1, .count), Figure("b", "y", 1, .count)]
        let comparison = Comparison(before, after)
        #expect(comparison.lines.map(\.name) == ["y"])
        #expect(comparison.onlyBefore == ["a: x"])
        #expect(comparison.onlyAfter == ["b"])
        #expect(comparison.text.contains("Only before: a: x.\nOnly after: b.\n"))
        #expect(Comparison.share(before, after))
        #expect(!Comparison.share([before[0]], after))
    }
}
