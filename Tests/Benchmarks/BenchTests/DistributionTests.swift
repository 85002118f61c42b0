import Testing

@testable import historyd_bench

struct DistributionTests {
    @Test func quantilesAreValuesThatWereMeasured() {
        let hundred = Distribution((1...100).map(Double.init).shuffled())
        #expect(hundred.median == 50)
        #expect(hundred.p99 == 99)
        #expect(hundred.quantile(0) == 1)
        #expect(hundred.quantile(1) == 100)
        #expect(Distribution([7]).p99 == 7)
    }

    @Test func spreadIsHalfTheRangeOfTheMedian() {
        #expect(Distribution([90, 100, 130]).spread == 0.2)
        #expect(Distribution([5]).spread == nil)
        #expect(Distribution([0, 0, 0]).spread == nil)
    }

    @Test func everyoneIsFirstAsOftenAsOthers() {
        var turns = Turns(3)
        let rounds = (0..<6).map { _ in turns.next() }
        #expect(rounds.allSatisfy { $0.sorted() == [0, 1, 2] })
        #expect(rounds.map { $0[0] }.sorted() == [0, 0, 1, 1, 2, 2])
    }
}

struct NumberTextTests {
    @Test(arguments: [
        (0, "0"), (7, "7"), (0.125, "0.13"), (12.34, "12.3"), (999.6, "1,000"), (1_234_567, "1,234,567"),
        (-3.456, "-3.46"), (-0.001, "0.00"), (99.96, "100.0"),
    ])
    func numbersHaveThreeDigits(number: Double, text: String) {
        #expect(NumberText.text(number) == text)
    }
}
