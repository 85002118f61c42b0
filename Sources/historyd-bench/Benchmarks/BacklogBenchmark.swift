/// How fast a daemon that was down works off what was committed meanwhile.
struct BacklogBenchmark {
    private static let rounds = 3

    private let workplace: Workplace
    private let transactions: Int

    init(_ workplace: Workplace, transactions: Int) {
        self.workplace = workplace
        self.transactions = transactions
    }

    func run() throws -> [Figure] {
        let folder = try workplace.makeFolder("backlog")
        defer { Progress.attempt { try workplace.remove(folder) } }
        let store = "\(folder)/store"
        try BenchStore.make(store)
        let writer = try StoreWriter(store, synchronous: "OFF")
        for _ in 0..<transactions { _ = try writer.commit() }

        var daemon: [Double] = []
        var starts: [Double] = []
        var memory: ProcessReading?
        var select: [Double] = []
        var plugin: [Double] = []
        for _ in 0..<Self.rounds {
            let run = try drainByDaemon(store)
            daemon.append(rate(run.seconds))
            starts.append(run.start)
            memory = run.memory
            select.append(rate(try drainBySelect(store)))
            plugin.append(rate(try drainByPlugin(store)))
        }
        let group = "a backlog of \(NumberText.text(Double(transactions))) single-row transactions"
        let drained = Distribution(daemon).median
        var figures = [
            Figure(group, "worked off", drained, .perSecond, against: .init(name: "bare SELECT loop", value: Distribution(select).median)),
            Figure(
                group, "worked off", drained, .perSecond,
                against: .init(name: "SELECT loop into the same plugin", value: Distribution(plugin).median)),
            Figure(group, "from start to the first call", Distribution(starts).median, .milliseconds),
        ]
        if let memory {
            figures += [
                Figure(group, "daemon's memory after it, VmRSS", memory.resident, .kibibytes),
                Figure(group, "daemon's memory after it, Pss", memory.proportional, .kibibytes),
                Figure(group, "daemon's memory, peak", memory.peak, .kibibytes),
            ]
        }
        return figures
    }

    private func rate(_ seconds: Double) -> Double { Double(transactions) / seconds }

    /// From the daemon's start to its last call.
    private func drainByDaemon(_ store: String) throws -> (seconds: Double, start: Double, memory: ProcessReading) {
        let daemon = try DaemonProcess(workplace, stores: [store])
        defer { Progress.attempt { try daemon.stop() } }
        let (first, last) = try readAll(daemon.stamps)
        return (
            Double(last - daemon.started) / 1e9, Double(first - daemon.started) / 1e6,
            try ProcessReading(of: daemon.child.processID)
        )
    }

    private func drainBySelect(_ store: String) throws -> Double {
        let begin = Clock.now
        let reader = try BareReader(store)
        var count = 0
        while case let found = try reader.next(), !found.isEmpty { count += found.count }
        guard count == transactions else { throw BenchError("The bare loop found \(count) transactions of \(transactions).") }
        return Double(Clock.now - begin) / 1e9
    }

    private func drainByPlugin(_ store: String) throws -> Double {
        let begin = Clock.now
        let process = try BareProcess.reading(store, workplace, plugin: true)
        defer { process.end() }
        return Double(try readAll(process.stamps).last - begin) / 1e9
    }

    private func readAll(_ stamps: StampReader) throws -> (first: Int64, last: Int64) {
        var stamp = try stamps.next()
        let first = stamp.time
        var count = stamp.transactions
        while count < transactions {
            stamp = try stamps.next()
            count += stamp.transactions
        }
        guard count == transactions else { throw BenchError("A plugin was told of \(count) transactions of \(transactions).") }
        return (first, stamp.time)
    }
}
