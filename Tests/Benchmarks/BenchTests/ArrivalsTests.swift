import Testing

@testable import historyd_bench

/// How long it took a writer's commits to arrive that waited for nobody.
@Suite struct ArrivalsTests {
    private func stamp(_ object: Int64, _ microseconds: Int64) -> Stamp {
        Stamp(object: object, transactions: 1, time: microseconds * 1000)
    }

    @Test("A stamp tells of all commits up to its key, and not of those before the first")
    func several() {
        var arrivals = Arrivals(firstKey: 5, committed: [10_000, 20_000, 30_000])
        arrivals.add(stamp(4, 15))
        #expect(arrivals.latencies.isEmpty)
        arrivals.add(stamp(6, 50))
        #expect(arrivals.latencies == [40, 30] && !arrivals.isComplete)
        arrivals.add(stamp(6, 60))
        // A plugin may have a commit before COMMIT returns to the writer.
        arrivals.add(stamp(9, 29))
        #expect(arrivals.latencies == [40, 30, -1] && arrivals.isComplete)
    }

    @Test("However stamps group the commits, each is counted once, and when it came", arguments: 0..<50)
    func anyGroups(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let count = Int.random(in: 1...40, using: &random)
        let committed = (0..<count).map { Int64($0) * 7000 }
        var arrivals = Arrivals(firstKey: 1, committed: committed)
        var expected: [Double] = []
        var time: Int64 = 0
        while expected.count < count {
            let group = Int.random(in: 1...(count - expected.count), using: &random)
            time += 1000
            for place in expected.count..<(expected.count + group) {
                expected.append(Double(time * 1000 - committed[place]) / 1000)
            }
            arrivals.add(stamp(Int64(expected.count), time))
        }
        #expect(arrivals.isComplete && arrivals.latencies == expected, "\(seed)")
    }

    @Test("All who are compared have the same pauses, within the range", arguments: Pace.allCases)
    func pauses(pace: Pace) {
        var (first, second) = (SeededRandom(seed: 1), SeededRandom(seed: 1))
        for _ in 0..<100 {
            let pause = UInt32.random(in: pace.pauses, using: &first)
            #expect(pause == UInt32.random(in: pace.pauses, using: &second))
            #expect(pace.pauses.contains(pause))
        }
    }
}
