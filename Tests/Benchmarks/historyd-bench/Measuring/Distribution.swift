/// Repeated measurements of one thing.
struct Distribution {
    private let sorted: [Double]

    init(_ values: [Double]) {
        precondition(!values.isEmpty, "Nothing was measured.")
        sorted = values.sorted()
    }

    /// The smallest value that at least this share of all does not exceed (the nearest rank).
    func quantile(_ share: Double) -> Double {
        let rank = Int((share * Double(sorted.count)).rounded(.up))
        return sorted[min(max(rank, 1), sorted.count) - 1]
    }

    var median: Double { quantile(0.5) }
    var p99: Double { quantile(0.99) }

    /// From the smallest to the largest.
    var range: ClosedRange<Double> { sorted[0]...sorted[sorted.count - 1] }

    /// The spread of the rounds: half their range, relative to the median. Nil if there was only one.
    var spread: Double? {
        guard sorted.count > 1, median != 0 else { return nil }
        return (range.upperBound - range.lowerBound) / 2 / abs(median)
    }
}

/// Takes turns: the first in one round is the last in the next, so that nothing always runs after the same other.
struct Turns {
    let count: Int
    private var first = 0

    init(_ count: Int) { self.count = count }

    mutating func next() -> [Int] {
        defer { first = (first + 1) % count }
        return (0..<count).map { ($0 + first) % count }
    }

    /// Measures subjects in turns. The first round warms up, and is left out.
    ///
    /// - Returns: Of each subject, the result of each round.
    static func measure<Subject, Result>(
        _ subjects: [Subject], rounds: Int, _ measure: (_ subject: Subject, _ round: Int) throws -> Result
    ) rethrows -> [[Result]] {
        var results: [[Result]] = subjects.map { _ in [] }
        var turns = Turns(subjects.count)
        for round in 0...rounds {
            for index in turns.next() {
                let result = try measure(subjects[index], round)
                if round > 0 { results[index].append(result) }
            }
        }
        return results
    }
}
