/// What many consumers, many stores or a long history cost. The baseline is a daemon with one consumer, one store or a
/// short history; the two take turns.
struct ScaleBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        try manyConsumers() + manyStores() + longHistory()
    }

    /// Only the first consumer has a hook.
    private func manyConsumers() throws -> [Figure] {
        try compare(
            "\(NumberText.text(Double(sizes.consumers))) consumers of one store, one hook", "1 consumer", 1,
            sizes.consumers, aim: .ratioAtMost(2)
        ) { count, folder in
            let path = "\(folder)/store"
            try BenchStore.make(path)
            let readers = (0..<count).map { DaemonSetup.Store.Author(name: "Reader\($0)") }
            return DaemonSetup(stores: [.init(path, readers: readers)], hooks: [.init(consumer: "Reader0")])
        }
    }

    /// Only the first store is written to.
    private func manyStores() throws -> [Figure] {
        try compare(
            "\(NumberText.text(Double(sizes.stores))) stores in one daemon, one written to", "1 store", 1,
            sizes.stores, aim: .ratioAtMost(2), kibibytesForEach: 120
        ) { count, folder in
            let stores = (0..<count).map { DaemonSetup.Store("\(folder)/\($0)", name: "store\($0)") }
            for store in stores { try BenchStore.make(store.path) }
            return DaemonSetup(stores: stores)
        }
    }

    private func longHistory() throws -> [Figure] {
        try compare(
            "one more transaction after \(NumberText.text(Double(sizes.history)))", "after 10", 10,
            sizes.history,
            aim: .ratioAtMost(1.1)
        ) { transactions, folder in
            let path = "\(folder)/store"
            try BenchStore.make(path)
            try BenchStore.fillHistory(of: path, transactions: transactions)
            return DaemonSetup(stores: [.init(path)])
        }
    }

    /// - Parameters:
    ///   - aim: For what a commit costs.
    ///   - kibibytesForEach: The aim for the daemon's memory for each beyond the first; nil to compare it with that of
    ///     the few.
    ///   - make: Makes stores, of which the first is written to.
    private func compare(
        _ group: String, _ baseline: String, _ few: Int, _ many: Int, aim: Aim, kibibytesForEach: Double? = nil,
        _ make: (_ count: Int, _ folder: String) throws -> DaemonSetup
    ) throws -> [Figure] {
        let subjects = try [many, few].map { count in
            let setup = try make(count, try workplace.makeFolder())
            let writer = try StoreWriter(setup.stores[0].path, synchronous: "NORMAL")
            let subject = try Observer("\(count)", workplace, setup, writer)
            _ = try subject.latency()
            return subject
        }
        defer { for subject in subjects { subject.end() } }
        let commits = max(sizes.commits / 4, 10)
        let costs = try Turns.measure(subjects, rounds: sizes.rounds) { subject, _ in
            try subject.measureWaiting(commits: commits)
        }
        func figure(
            _ name: String, _ unit: Figure.Unit, _ value: (Observer.Result) -> Double, aim: Aim? = nil
        ) -> Figure {
            Figure(
                group, name, rounds: costs[0].map(value), unit,
                against: .init(name: baseline, rounds: costs[1].map(value)), aim: aim)
        }
        let readings = try subjects.map { try $0.reading() }
        func figure(
            _ name: String, _ unit: Figure.Unit, _ value: (ProcessReading) -> Double, aim: Aim?
        ) -> Figure {
            Figure(
                group, name, value(readings[0]), unit,
                against: .init(name: baseline, value: value(readings[1])),
                aim: aim)
        }
        var figures = [
            figure("processor time a commit", .microseconds, \.processor, aim: aim),
            figure("from COMMIT to the hook, p50", .microseconds, \.latencies.median),
            figure("from COMMIT to the hook, p99", .microseconds, \.latencies.p99),
            figure(
                "memory, VmRSS", .kibibytes, \.resident, aim: kibibytesForEach == nil ? .ratioAtMost(2) : nil),
        ]
        if let kibibytesForEach, many > few {
            let each = (readings[0].resident - readings[1].resident) / Double(many - few)
            figures.append(
                Figure(
                    group, "memory for each beyond the first", each, .kibibytes, aim: .atMost(kibibytesForEach))
            )
        }
        return figures + [figure("threads", .count, \.threads, aim: .ratioAtMost(2))]
    }
}
