/// How long it took one contestant to hear of commits, round by round.
struct LatencyResult {
    /// In microseconds, of the commits that were noticed.
    private(set) var p50: [Double] = []
    private(set) var p99: [Double] = []
    /// Of a hundred commits, those that were not noticed before the next one.
    private var missed: [Double] = []

    /// The same of all rounds together: a miss is too seldom for a median.
    var missedInAll: Double { missed.isEmpty ? 0 : missed.reduce(0, +) / Double(missed.count) }

    /// Whether there is enough to tell how long it takes.
    var notices: Bool { missedInAll < 50 && p50.count == missed.count }

    mutating func add(_ latencies: Distribution?, missed share: Double) {
        missed.append(share)
        guard let latencies else { return }
        p50.append(latencies.median)
        p99.append(latencies.p99)
    }
}
