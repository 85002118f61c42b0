/// Whose times to hear of a commit are compared.
struct Contestant {
    /// What a contestant is compared to.
    enum Role {
        case historyd
        /// The bare consumer, which does the least that can be done.
        case floor
        /// The bare consumer with all that historyd's way has: a pipe and a plugin.
        case sameWay
        /// Another bare consumer, compared to the first.
        case variant
        /// Compared to historyd, which is to be ahead.
        case rival
    }

    let name: String
    let role: Role
    /// Commits a row, and waits: microseconds from COMMIT's return; nil if nothing was heard for `timeout`.
    let latency: () throws -> Double?

    /// For those that may miss a commit, in milliseconds.
    static let timeout: Int32 = 20
}

extension Contestant {
    init(_ observer: Observer, _ role: Role, mayMiss: Bool = false) {
        self.init(name: observer.name, role: role) {
            try observer.latency(within: mayMiss ? Self.timeout : nil)
        }
    }
}

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

    mutating func add(_ latencies: [Double], of commits: Int) {
        missed.append(Double(commits - latencies.count) / Double(commits) * 100)
        if latencies.isEmpty { return }
        let distribution = Distribution(latencies)
        p50.append(distribution.median)
        p99.append(distribution.p99)
    }
}
