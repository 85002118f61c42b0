import FoundationEssentials

/// How many instructions the daemon executes for a transaction, counted by valgrind. The number does not depend on the
/// machine's load or speed, so it shows small changes.
struct InstructionsBenchmark: Benchmark {
    private static let store = "store.sqlite"

    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        try measure(Tool.find("valgrind", package: "valgrind"), Tool.find("strip", package: "binutils"))
    }

    /// The instructions that a daemon and the bare consumer need for this number of transactions.
    private struct Counts {
        var daemon: [Double] = []
        var consumer: [Double] = []
    }

    private func measure(_ valgrind: String, _ strip: String) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let store = "\(folder)/\(Self.store)"
        try BenchStore.make(store)
        let stamps = try StampReader(named: "\(folder)/stamps")
        var home = try DaemonHome(
            workplace, DaemonSetup(stores: [.init(store)]), in: folder,
            plugin: [Workplace.program("bench-plugin"), "\(folder)/stamps"])
        try home.runOnce()
        try home.keep([Self.store])
        // What a debugger reads of the daemon, this valgrind cannot.
        let stripped = "\(folder)/historyd"
        guard try Child([strip, "-g", "-o", stripped, workplace.historyd]).waitForEnd().status == 0 else {
            throw BenchError("The daemon's file could not be stripped.")
        }
        home.historyd = stripped

        let counter = Counter(
            valgrind: valgrind, log: "\(folder)/count", shim: Workplace.program("bench-pidfd.so"))
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
        let group = "instructions (callgrind; the daemon's process, not the plugin's)"
        return [
            ("a pass of 100 transactions, the plugin's start with it", 1, 0, 1, nil),
            ("each of 1,000 more", 2, 1, 1000, Aim.atMost(8000)),
        ]
        .map { name, more, less, divisor, aim in
            Figure(
                group, name,
                rounds: difference(counts[more].daemon, counts[less].daemon, Double(divisor)), .count,
                against: .init(
                    name: ObserverField.consumer,
                    rounds: difference(counts[more].consumer, counts[less].consumer, Double(divisor))),
                aim: aim)
        }
    }

    /// Counts the instructions of a program.
    private struct Counter {
        let valgrind: String
        let log: String
        let shim: String

        var environment: [String] { ["LD_PRELOAD=\(shim)"] }

        /// - Parameter run: runs a program by the command that it is given.
        func count(_ run: ([String]) throws -> Void) throws -> Double {
            try run([valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-file=\(log)"])
            // "==1== Collected : 46116479"
            let line = FileBytes.text(of: log).split(separator: "\n").first { $0.contains("Collected") }
            guard let count = line?.split(separator: " ").last.flatMap({ Double($0) }) else {
                throw BenchError("valgrind counts nothing:\n\(FileBytes.text(of: log))")
            }
            return count
        }
    }
}
