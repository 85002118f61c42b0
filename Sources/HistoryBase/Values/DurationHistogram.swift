/// A histogram of durations with fixed bucket bounds.
@usableFromInline package struct DurationHistogram: Sendable, Equatable {
    /// The upper bounds of the buckets, inclusive, in microseconds; the last bucket has none.
    @usableFromInline package static let bounds: [Int64] = [
        500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
        5_000_000, 10_000_000, 30_000_000, 60_000_000, 300_000_000,
    ]

    /// Not cumulative: the count of each bucket. Empty until something is counted.
    @usableFromInline package internal(set) var counts: [Int] = []
    /// The sum of all durations, in microseconds.
    @usableFromInline package internal(set) var sum: Int64 = 0

    package init() {}

    package var count: Int { counts.reduce(0, +) }

    package mutating func record(microseconds: Int64) { record(CollectionOfOne(microseconds)) }

    @inlinable package mutating func record(_ durations: some Collection<Int64>) {
        if durations.isEmpty { return }
        let bounds = Self.bounds
        if counts.isEmpty { counts = Array(repeating: 0, count: bounds.count + 1) }
        for duration in durations {
            // Most durations are short, so the first bounds are tried first.
            counts[bounds.firstIndex { duration <= $0 } ?? bounds.count] += 1
            (sum, _) = sum.addingReportingOverflow(max(0, duration))
        }
    }

    package mutating func record(_ duration: Duration) { record(microseconds: duration.microseconds) }

    package mutating func add(_ other: DurationHistogram) {
        if other.counts.isEmpty { return }
        if counts.isEmpty { counts = Array(repeating: 0, count: Self.bounds.count + 1) }
        for index in other.counts.indices { counts[index] += other.counts[index] }
        (sum, _) = sum.addingReportingOverflow(other.sum)
    }
}

extension Duration {
    /// Whole microseconds.
    package var microseconds: Int64 { Int64(clamping: attoseconds / 1_000_000_000_000) }
}
