/// How long after a commit a plugin has it, if the writer commits at random intervals and does not wait. The
/// observer may still be busy with the previous commit, or its caches may be cold.
///
/// Each observer has a store and a writer of its own, and they take turns.
struct PacedLatencyBenchmark: Benchmark {
    private static let undeclared = "historyd, undeclared writer"

    let workplace: Workplace
    let sizes: Sizes

    func run() throws -> Findings {
        Findings(
            figures: try ["NORMAL", "FULL"].flatMap { synchronous in
                let field = try ObserverField(workplace, synchronous: synchronous)
                defer { field.end() }
                let observers = [
                    try field.daemon(), try field.daemon(Self.undeclared, isDeclared: false),
                    try field.consumer(ObserverField.consumerAndPlugin, plugin: true),
                    try field.consumer(ObserverField.consumer),
                ]
                return try Pace.allCases.flatMap { try measure(observers, $0, synchronous) }
            })
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
