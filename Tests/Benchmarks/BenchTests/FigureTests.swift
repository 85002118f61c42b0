import Testing

@testable import historyd_bench

struct FigureTests {
    private func figure(_ rounds: [Double], _ baseline: [Double]?, aim: Aim? = nil) -> Figure {
        Figure(
            "group", "name", rounds: rounds, .microseconds,
            against: baseline.map { .init(name: "baseline", rounds: $0) }, aim: aim)
    }

    @Test func theRatioIsThatOfTheMedians() {
        #expect(figure([10, 30, 20], [5, 10, 100]).ratio == 2)
        #expect(figure([1], nil).ratio == nil)
        #expect(figure([1], [0]).ratio == nil)
    }

    @Test func roundsAreComparedWithTheirOwn() {
        #expect(figure([10, 30], [5, 10]).ratios == [2, 3])
        #expect(figure([10, 30], [10]).ratios == [1, 3])
        #expect(figure([10], [0]).ratios.isEmpty)
    }

    @Test func aimsAreMetUpToTheirLimit() {
        #expect(Aim.ratioAtMost(2).isMet(by: figure([20], [10])))
        #expect(!Aim.ratioAtMost(2).isMet(by: figure([21], [10])))
        #expect(Aim.ratioAtMost(2).isMet(by: figure([0], [0])))
        #expect(!Aim.ratioAtMost(2).isMet(by: figure([1], [0])))
        #expect(Aim.atLeast(500_000).isMet(by: figure([500_000], nil)))
        #expect(!Aim.atLeast(500_000).isMet(by: figure([499_999], nil)))
        #expect(Aim.atMost(0).isMet(by: figure([0], nil)))
        #expect(!Aim.atMost(0).isMet(by: figure([1], nil)))
    }

    @Test func theTableIsAligned() {
        let figures = [
            Figure(
                "first", "short", rounds: [90, 100, 110], .microseconds,
                against: .init(name: "other", value: 40),
                aim: .ratioAtMost(2)),
            Figure("second", "a longer name", 1_500_000, .perSecond),
        ]
        #expect(
            FigureTable(figures).text
                == """
                                     measured    ±  baseline  ratio           aim           baseline is

                first
                  short                100 µs  10%     40 µs   2.50  ≤ 2.00 times  not met  other

                second
                  a longer name  1,500,000 /s

                """)
    }

    @Test func whatHasNoAimIsNoneOfTheAims() {
        let figures = [
            figure([20], [10], aim: .ratioAtMost(2)), figure([30], [10], aim: .ratioAtMost(2)),
            figure([1], nil),
        ]
        #expect(
            AimTable(figures).text == """
                | | measured | beside | ratio | aim | |
                |---|---|---|---|---|---|
                | **group** | | | | | |
                | name | 20 µs | 10 µs, baseline | 2.00 | ≤ 2.00 times | met |
                | name | 30 µs | 10 µs, baseline | 3.00 | ≤ 2.00 times | **not met** |

                Met: 1 of 2.

                """)
    }
}
