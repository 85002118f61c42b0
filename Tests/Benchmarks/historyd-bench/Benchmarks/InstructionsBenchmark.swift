import FoundationEssentials

/// How many instructions the daemon executes for a transaction, counted by valgrind. The number does not depend on the
/// machine's load or speed, so it shows small changes.
struct InstructionsBenchmark: Benchmark {
    private static let store = "store.sqlite"

    let workplace: Workplace
    let sizes: Sizes

    /// The instructions that a daemon and the bare consumer need for this number of transactions.
    private struct Counts {
        var daemon: [Double] = []
        var consumer: [Double] = []
    }

    func measure(_: inout [String]) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let store = "\(folder)/\(Self.store)"
        try BenchStore.make(store)
        let stamps = try StampReader(named: "\(folder)/stamps")
        var home = try DaemonHome(
            workplace, DaemonSetup(stores: [.init(store)]), in: folder,
            plugin: [Workplace.program("bench-plugin"), "\(folder)/stamps"])
        try home.runOnce()
        try home.keep([Self.store])
        let counter = try InstructionCounter(workplace, in: folder)
        home.historyd = counter.historyd
        let sizes = [0, 100, 1100]
        var counts = sizes.map { _ in Counts() }
        // Rounds hardly differ.
        for _ in 0..<min(self.sizes.rounds, 3) {
            for (index, size) in sizes.enumerated() {
                try home.comeBack([Self.store])
                try write(size, to: store)
                counts[index].daemon.append(
                    try counter.count { try home.runOnce(under: $0, environment: counter.environment) })
                counts[index].consumer.append(
                    try counter.count {
                        _ = try Child($0 + [Workplace.program("bench-consumer"), "drain", store]).waitForEnd()
                    })
                try stamps.discard()
            }
        }
        return figures(counts)
    }

    private func write(_ transactions: Int, to store: String) throws {
        let writer = try StoreWriter(store, synchronous: "OFF")
        for _ in 0..<transactions { _ = try writer.commit() }
    }

    private func figures(_ counts: [Counts]) -> [Figure] {
        func difference(_ more: [Double], _ less: [Double], _ divisor: Double = 1) -> [Double] {
            zip(more, less).map { ($0 - $1) / divisor }
        }
        return [
            ("a pass of 100 transactions, the plugin's start with it", 1, 0, 1, nil),
            ("each of 1,000 more", 2, 1, 1000, Aim.atMost(8000)),
        ]
        .map { name, more, less, divisor, aim in
            Figure(
                InstructionCounter.group, name,
                rounds: difference(counts[more].daemon, counts[less].daemon, Double(divisor)), .count,
                against: .init(
                    name: ObserverField.consumer,
                    rounds: difference(counts[more].consumer, counts[less].consumer, Double(divisor))),
                aim: aim)
        }
    }
}
