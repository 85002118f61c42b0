/// How long after a commit a plugin has it, if the writer commits at random intervals and does not wait. The
/// observer may still be busy with the previous commit, or its caches may be cold.
///
/// Each observer has a store and a writer of its own, and they take turns.
struct PacedLatencyBenchmark: Benchmark {
    private static let undeclared = "historyd, undeclared writer"

    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        try ["NORMAL", "FULL"].flatMap { synchronous in
            let field = try ObserverField(workplace, synchronous: synchronous)
            defer { field.end() }
            let observers = [
                try field.daemon(), try field.daemon(Self.undeclared, isDeclared: false),
                try field.consumer(ObserverField.consumerAndPlugin, plugin: true),
                try field.consumer(ObserverField.consumer),
            ]
            return try Pace.allCases.flatMap { try measure(observers, $0, synchronous) }
        }
    }

    private func measure(_ observers: [Observer], _ pace: Pace, _ synchronous: String) throws -> [Figure] {
        // A minute at the longest pauses.
        let rounds = pace == .long ? min(sizes.rounds, 3) : sizes.rounds
        let results = try pace.measure(observers, sizes, rounds: rounds)
        let group = "from COMMIT's return to the plugin, \(pace.text), WAL, synchronous=\(synchronous)"
        let named = Dictionary(uniqueKeysWithValues: zip(observers.map(\.name), results))
        func values(_ name: String, _ value: (Observer.Result) -> Double) -> [Double] {
            (named[name] ?? []).map(value)
        }
        func latencies(_ subject: String, beside baseline: String? = nil, aim: (String) -> Aim?) -> [Figure] {
            [("p50", 0.5), ("p99", 0.99)].map { label, share in
                Figure(
                    group, "\(subject), \(label)", rounds: values(subject) { $0.latencies.quantile(share) },
                    .microseconds,
                    against: baseline.map { name in
                        .init(name: name, rounds: values(name) { $0.latencies.quantile(share) })
                    }, aim: aim(label))
            }
        }
        let (daemon, plugin) = (ObserverField.daemon, ObserverField.consumerAndPlugin)
        var figures = latencies(daemon, aim: pace.latencyAim)
        figures += latencies(daemon, beside: plugin) { _ in .ratioAtMost(2) }
        figures += latencies(daemon, beside: ObserverField.consumer) { _ in nil }
        figures += latencies(Self.undeclared, beside: plugin) { _ in .ratioAtMost(2) }
        for subject in [daemon, Self.undeclared] {
            figures.append(
                Figure(
                    group, "\(subject), processor time a commit", rounds: values(subject, \.processor),
                    .microseconds, against: .init(name: plugin, rounds: values(plugin, \.processor)),
                    aim: pace.processorAim))
        }
        return figures
    }
}

extension Pace {
    /// Measures observers in turns.
    ///
    /// - Returns: Of each observer, the result of each round.
    func measure(_ observers: [Observer], _ sizes: Sizes, rounds: Int) throws -> [[Observer.Result]] {
        let commits = commits(sizes)
        return try Turns.measure(observers, rounds: rounds) { observer, round in
            try observer.measure(
                self, commits: round == 0 ? max(commits / 10, 1) : commits, seed: UInt64(round))
        }
    }
}

/// When an observer received the commits of a writer that did not wait for it. A stamp stands for all commits up to
/// its key: an observer that received several at once stamps once.
struct Arrivals {
    /// The commit times, in the order of the keys.
    private let committed: [Int64]
    private let firstKey: Int64
    private(set) var latencies: [Double] = []

    /// - Parameter committed: by `Clock`, of commits with keys that follow each other.
    init(firstKey: Int64, committed: [Int64]) {
        self.firstKey = firstKey
        self.committed = committed
        latencies.reserveCapacity(committed.count)
    }

    var isComplete: Bool { latencies.count == committed.count }

    mutating func add(_ stamp: Stamp) {
        while !isComplete, firstKey + Int64(latencies.count) <= stamp.object {
            latencies.append(Double(stamp.time - committed[latencies.count]) / 1000)
        }
    }
}

/// How long a writer pauses between its commits.
enum Pace: CaseIterable {
    case none, short, medium, long

    /// In microseconds.
    var pauses: ClosedRange<UInt32> {
        switch self {
        case .none: 0...0
        case .short: 500...1000
        case .medium: 2000...8000
        case .long: 50_000...60_000
        }
    }

    var text: String {
        switch self {
        case .none: "no pause between commits"
        case .short: "0.5 to 1 ms between commits"
        case .medium: "2 to 8 ms between commits"
        case .long: "50 to 60 ms between commits"
        }
    }

    func commits(_ sizes: Sizes) -> Int {
        switch self {
        case .none: 5 * sizes.commits
        case .short: sizes.commits
        case .medium: max(sizes.commits / 2, 1)
        case .long: max(sizes.commits / 4, 1)
        }
    }

    /// The aim for the daemon's processor time for each commit, in microseconds.
    var processorAim: Aim? {
        switch self {
        case .none, .medium: nil
        case .short: .atMost(60)
        case .long: .atMost(150)
        }
    }

    /// The aim for the time until the plugin has a commit, independent of the baselines.
    func latencyAim(_ label: String) -> Aim? {
        guard self == .none else { return nil }
        return .atMost(label == "p50" ? 100 : 2000)
    }
}

/// Random numbers that are the same in each run (SplitMix64, https://prng.di.unimi.it/splitmix64.c), so that all
/// observers get the same pauses.
struct SeededRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
