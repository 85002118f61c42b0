import Glibc

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

        var runs: [(daemon: Drain, select: Drain, plugin: Drain)] = []
        for _ in 0..<Self.rounds {
            runs.append((try drainByDaemon(store), try drainBySelect(store), try drainByPlugin(store)))
        }
        func median(_ value: ((daemon: Drain, select: Drain, plugin: Drain)) -> Double?) -> Double {
            Distribution(runs.compactMap(value)).median
        }
        let group = "a backlog of \(NumberText.text(Double(transactions))) single-row transactions"
        let baselines = ["bare SELECT loop", "SELECT loop into the same plugin"]
        let seconds = [median(\.select.seconds), median(\.plugin.seconds)]
        let processor = [median(\.select.processor), median(\.plugin.processor)]
        let count = Double(transactions)
        return [0, 1].map { place in
            Figure(
                group, "worked off", count / median(\.daemon.seconds), .perSecond,
                against: .init(name: baselines[place], value: count / seconds[place]))
        }
            + [0, 1].map { place in
                Figure(
                    group, "processor time each", median(\.daemon.processor) / count * 1e6, .microseconds,
                    against: .init(name: baselines[place], value: processor[place] / count * 1e6))
            } + [
                Figure(group, "from start to the first call", median(\.daemon.toFirst) * 1000, .milliseconds),
                Figure(
                    group, "daemon's memory after it, VmRSS", median(\.daemon.reading?.resident), .kibibytes),
                Figure(
                    group, "daemon's memory after it, Pss", median(\.daemon.reading?.proportional), .kibibytes),
                Figure(group, "daemon's memory, peak", median(\.daemon.reading?.peak), .kibibytes),
            ]
    }

    /// One way through the backlog, in seconds.
    private struct Drain {
        var seconds: Double
        /// Without the plugin's.
        var processor: Double
        var toFirst = 0.0
        var reading: ProcessReading?
    }

    /// From the daemon's start to its last call.
    private func drainByDaemon(_ store: String) throws -> Drain {
        let daemon = try DaemonProcess(workplace, stores: [store])
        defer { Progress.attempt { try daemon.stop() } }
        let (first, last) = try readAll(daemon.stamps)
        let reading = try ProcessReading(of: daemon.child.processID)
        return Drain(
            seconds: Double(last - daemon.started) / 1e9, processor: reading.seconds,
            toFirst: Double(first - daemon.started) / 1e9, reading: reading)
    }

    private func drainBySelect(_ store: String) throws -> Drain {
        let begin = Clock.now
        let processor = clock()
        let reader = try BareReader(store)
        var count = 0
        while case let found = try reader.next(), !found.isEmpty { count += found.count }
        guard count == transactions else {
            throw BenchError("The bare loop found \(count) transactions of \(transactions).")
        }
        return Drain(
            seconds: Double(Clock.now - begin) / 1e9,
            processor: Double(clock() - processor) / Double(CLOCKS_PER_SEC))
    }

    private func drainByPlugin(_ store: String) throws -> Drain {
        let begin = Clock.now
        let process = try BareProcess.reading(store, workplace, plugin: true)
        defer { process.end() }
        let seconds = Double(try readAll(process.stamps).last - begin) / 1e9
        return Drain(seconds: seconds, processor: process.children[0].waitForEnd())
    }

    private func readAll(_ stamps: StampReader) throws -> (first: Int64, last: Int64) {
        var stamp = try stamps.next()
        let first = stamp.time
        var count = stamp.transactions
        while count < transactions {
            stamp = try stamps.next()
            count += stamp.transactions
        }
        guard count == transactions else {
            throw BenchError("A plugin was told of \(count) transactions of \(transactions).")
        }
        return (first, stamp.time)
    }
}
