/// How long after a commit a plugin has it, if the writer commits at random intervals and does not wait. The
/// observer may still be busy with the previous commit, or its caches may be cold.
///
/// Each observer has a store and a writer of its own, and they take turns.
struct PacedLatencyBenchmark {
    let workplace: Workplace
    let sizes: Sizes

    func run() throws -> [Figure] {
        try ["NORMAL", "FULL"].flatMap { synchronous in
            let folder = try workplace.makeFolder("paced")
            defer { Progress.attempt { try workplace.remove(folder) } }
            let field = try PacedField(workplace, folder, synchronous)
            defer { field.end() }
            return try Pace.allCases.flatMap { try measure(field, $0, synchronous) }
        }
    }

    private func measure(_ field: PacedField, _ pace: Pace, _ synchronous: String) throws -> [Figure] {
        var results: [[PacedObserver.Result]] = field.all.map { _ in [] }
        var turns = Turns(field.all.count)
        let commits = pace.commits(sizes)
        // A minute at the longest pauses.
        let rounds = pace == .long ? min(sizes.rounds, 3) : sizes.rounds
        // The first round warms up.
        for round in 0...rounds {
            for index in turns.next() {
                let result = try field.all[index].measure(
                    pace, commits: round == 0 ? max(commits / 10, 1) : commits, seed: UInt64(round))
                if round > 0 { results[index].append(result) }
            }
        }
        let table = PacedFigures(
            group: "from COMMIT's return to the plugin, \(pace.text), WAL, synchronous=\(synchronous)",
            results: Dictionary(uniqueKeysWithValues: zip(field.all.map(\.name), results)))
        return table.figures(pace)
    }
}

/// All observers that are compared.
struct PacedField {
    static let subject = "historyd"
    static let undeclared = "historyd, undeclared writer"
    static let withPlugin = "bare C consumer and a plugin"
    static let bare = "bare C consumer"

    let all: [PacedObserver]
    /// Connections that stay open, which keeps the -wal file.
    private let holders: [StoreWriter]

    init(_ workplace: Workplace, _ folder: String, _ synchronous: String) throws {
        var holders: [StoreWriter] = []
        func makeStore(_ name: String, isDeclared: Bool = true) throws -> (path: String, writer: StoreWriter) {
            let path = "\(folder)/\(name)"
            try BenchStore.make(path)
            let holder = try StoreWriter(path, synchronous: synchronous)
            _ = try holder.commit()
            holders.append(holder)
            return (path, try StoreWriter(path, synchronous: synchronous, isDeclared: isDeclared))
        }
        func daemon(_ name: String, isDeclared: Bool) throws -> PacedObserver {
            let store = try makeStore("daemon-\(isDeclared)", isDeclared: isDeclared)
            let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(store.path)]))
            _ = try daemon.stamps.next()
            return PacedObserver(name, store.writer, daemon.stamps, daemon.child) {
                Progress.attempt { try daemon.stop() }
            }
        }
        func consumer(_ name: String, _ mode: ConsumerProcess.Mode, plugin: Bool) throws -> PacedObserver {
            let store = try makeStore("\(mode)-\(plugin)")
            let consumer = try ConsumerProcess(mode, store.path, workplace, plugin: plugin)
            return PacedObserver(name, store.writer, consumer.stamps, consumer.consumer, end: consumer.end)
        }
        all = [
            try daemon(Self.subject, isDeclared: true), try daemon(Self.undeclared, isDeclared: false),
            try consumer(Self.withPlugin, .watch, plugin: true),
            try consumer(Self.bare, .watch, plugin: false),
        ]
        self.holders = holders
    }

    func end() {
        for observer in all { observer.end() }
        withExtendedLifetime(holders) {}
    }
}

/// The result of one pace.
struct PacedFigures {
    let group: String
    let results: [String: [PacedObserver.Result]]

    func figures(_ pace: Pace) -> [Figure] {
        var figures: [Figure] = []
        for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
            figures.append(latency(PacedField.subject, label, share, aim: pace.latencyAim(label)))
        }
        for (subject, baseline, aim) in [
            (PacedField.subject, PacedField.withPlugin, Aim.ratioAtMost(2)),
            (PacedField.subject, PacedField.bare, nil),
            (PacedField.undeclared, PacedField.withPlugin, .ratioAtMost(2)),
        ] as [(String, String, Aim?)] {
            for (label, share) in [("p50", 0.5), ("p99", 0.99)] {
                figures.append(latency(subject, label, share, beside: baseline, aim: aim))
            }
        }
        for subject in [PacedField.subject, PacedField.undeclared] {
            figures.append(
                Figure(
                    group, "\(subject), processor time a commit", rounds: rounds(subject, \.processor),
                    .microseconds,
                    against: .init(
                        name: PacedField.withPlugin, rounds: rounds(PacedField.withPlugin, \.processor)),
                    aim: pace.processorAim))
        }
        return figures
    }

    private func latency(
        _ subject: String, _ label: String, _ share: Double, beside baseline: String? = nil, aim: Aim?
    ) -> Figure {
        Figure(
            group, "\(subject), \(label)", rounds: rounds(subject) { $0.latencies.quantile(share) },
            .microseconds,
            against: baseline.map { name in
                .init(name: name, rounds: rounds(name) { $0.latencies.quantile(share) })
            }, aim: aim)
    }

    private func rounds(_ name: String, _ value: (PacedObserver.Result) -> Double) -> [Double] {
        (results[name] ?? []).map(value)
    }
}
