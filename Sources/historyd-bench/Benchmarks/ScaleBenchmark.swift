/// What many consumers, many stores or a long history cost. The baseline is a daemon with one consumer, one store or a
/// short history; the two take turns.
struct ScaleBenchmark {
    private let workplace: Workplace
    private let sizes: Sizes
    private let commits: Int

    init(_ workplace: Workplace, _ sizes: Sizes) {
        self.workplace = workplace
        self.sizes = sizes
        commits = max(sizes.commits / 4, 10)
    }

    func run() throws -> [Figure] {
        try manyConsumers() + manyStores() + longHistory()
    }

    /// Only the first consumer has a hook.
    private func manyConsumers() throws -> [Figure] {
        try inFolder { folder in
            func subject(_ count: Int) throws -> WatchedStore {
                let path = "\(folder)/\(count)-consumers"
                try BenchStore.make(path)
                let readers = (0..<count).map { DaemonSetup.Store.Author(name: "Reader\($0)") }
                let setup = DaemonSetup(
                    stores: [.init(path, readers: readers)], hooks: [.init(consumer: "Reader0")])
                return try WatchedStore(workplace, setup, writingTo: path)
            }
            let count = NumberText.text(Double(sizes.consumers))
            return try compare(
                "\(count) consumers of one store, one hook", "1 consumer", few: try subject(1),
                many: try subject(sizes.consumers), aim: .ratioAtMost(2))
        }
    }

    /// Only the first store is written to.
    private func manyStores() throws -> [Figure] {
        try inFolder { folder in
            func subject(_ count: Int) throws -> WatchedStore {
                let paths = (0..<count).map { "\(folder)/\(count)-stores-\($0)" }
                for path in paths { try BenchStore.make(path) }
                let stores = paths.enumerated().map { DaemonSetup.Store($1, name: "store\($0)") }
                return try WatchedStore(workplace, DaemonSetup(stores: stores), writingTo: paths[0])
            }
            let count = NumberText.text(Double(sizes.stores))
            return try compare(
                "\(count) stores in one daemon, one written to", "1 store", few: try subject(1),
                many: try subject(sizes.stores), aim: .ratioAtMost(2), memoryAim: .eachAtMost(120))
        }
    }

    private func longHistory() throws -> [Figure] {
        try inFolder { folder in
            func subject(_ transactions: Int) throws -> WatchedStore {
                let path = "\(folder)/history-\(transactions)"
                try BenchStore.make(path)
                try BenchStore.fillHistory(of: path, transactions: transactions)
                return try WatchedStore(workplace, DaemonSetup(stores: [.init(path)]), writingTo: path)
            }
            let count = NumberText.text(Double(sizes.history))
            return try compare(
                "one more transaction after \(count)", "after 10", few: try subject(10),
                many: try subject(sizes.history), aim: .ratioAtMost(1.1))
        }
    }

    private func inFolder<T>(_ body: (String) throws -> T) throws -> T {
        let folder = try workplace.makeFolder("scale")
        defer { Progress.attempt { try workplace.remove(folder) } }
        return try body(folder)
    }

    /// The aims for the daemon's memory.
    private enum MemoryAim {
        /// As a ratio to the daemon with one.
        case ratioAtMost(Double)
        /// KiB for each beyond the first.
        case eachAtMost(Double)

        var ratio: Double? { if case .ratioAtMost(let limit) = self { limit } else { nil } }
    }

    /// - Parameter aim: for what a commit costs.
    private func compare(
        _ group: String, _ baseline: String, few: WatchedStore, many: WatchedStore, aim: Aim,
        memoryAim: MemoryAim = .ratioAtMost(2)
    ) throws -> [Figure] {
        let subjects = [many, few]
        defer { for subject in subjects { Progress.attempt { try subject.end() } } }
        var costs: [[WatchedStore.Cost]] = [[], []]
        var turns = Turns(subjects.count)
        // The first round warms up.
        for round in 0...sizes.rounds {
            for index in turns.next() {
                let cost = try subjects[index].cost(commits: commits)
                if round > 0 { costs[index].append(cost) }
            }
        }
        func figure(
            _ name: String, _ unit: Figure.Unit, _ value: (WatchedStore.Cost) -> Double, aim: Aim? = nil
        ) -> Figure {
            Figure(
                group, name, rounds: costs[0].map(value), unit,
                against: .init(name: baseline, rounds: costs[1].map(value)), aim: aim)
        }
        let readings = try subjects.map { try $0.reading() }
        var memory = [
            Figure(
                group, "memory, VmRSS", readings[0].resident, .kibibytes,
                against: .init(name: baseline, value: readings[1].resident),
                aim: memoryAim.ratio.map { .ratioAtMost($0) })
        ]
        if case .eachAtMost(let limit) = memoryAim, sizes.stores > 1 {
            let each = (readings[0].resident - readings[1].resident) / Double(sizes.stores - 1)
            memory.append(
                Figure(group, "memory for each beyond the first", each, .kibibytes, aim: .atMost(limit)))
        }
        return [
            figure("processor time a commit", .microseconds, \.processor, aim: aim),
            figure("from COMMIT to the hook, p50", .microseconds, \.latencies.median),
            figure("from COMMIT to the hook, p99", .microseconds, \.latencies.p99),
        ] + memory + [
            Figure(
                group, "threads", readings[0].threads, .count,
                against: .init(name: baseline, value: readings[1].threads), aim: .ratioAtMost(2))
        ]
    }
}
