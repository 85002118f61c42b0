import Glibc

/// How fast a daemon processes what was committed while it was down.
struct BacklogBenchmark: Benchmark {
    private static let rows = 1000

    /// The backlog: a number of transactions with a number of rows each.
    private struct Backlog {
        let transactions: Int
        let rows: Int
        let aim: Aim

        var changes: Int { transactions * rows }
        var group: String {
            let size =
                rows == 1 ? "single-row transactions" : "transactions of \(NumberText.text(Double(rows))) rows"
            return "a backlog of \(NumberText.text(Double(transactions))) \(size)"
        }
    }

    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        try measure(Backlog(transactions: sizes.backlog, rows: 1, aim: .atLeast(600_000)))
            + measure(
                Backlog(transactions: sizes.changes / Self.rows, rows: Self.rows, aim: .atLeast(2_000_000)))
    }

    private func measure(_ backlog: Backlog) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let store = "\(folder)/store"
        try BenchStore.make(store)
        let writer = try StoreWriter(store, synchronous: "OFF")
        for _ in 0..<backlog.transactions { _ = try writer.commit(rows: backlog.rows) }

        let runs = try (0..<sizes.rounds).map { _ in
            (
                daemon: try drainByDaemon(store, backlog),
                loop: try drainByConsumer(store, backlog, plugin: false),
                // Its requests name one object only.
                plugin: backlog.rows == 1 ? try drainByConsumer(store, backlog, plugin: true) : nil
            )
        }
        let loop = "bare C loop without JSON"
        let count = Double(backlog.changes)
        func rates(_ drains: [Drain]) -> [Double] { drains.map { count / $0.seconds } }
        func costs(_ seconds: [Double]) -> [Double] { seconds.map { $0 / count * 1e6 } }
        func figure(
            _ name: String, _ rounds: [Double], _ unit: Figure.Unit, against baseline: Figure.Baseline? = nil,
            aim: Aim? = nil
        ) -> Figure {
            Figure(backlog.group, name, rounds: rounds, unit, against: baseline, aim: aim)
        }
        let daemon = runs.map(\.daemon)
        var figures = [
            figure(
                "worked off, changes", rates(daemon), .perSecond,
                against: .init(name: loop, rounds: rates(runs.map(\.loop))), aim: backlog.aim),
            figure(
                "processor time a change", costs(daemon.map(\.processor)), .microseconds,
                against: .init(name: loop, rounds: costs(runs.map(\.loop.processor)))),
            figure("the plugin's, a change", costs(daemon.map(\.pluginProcessor)), .microseconds),
            figure("from start to the first call", daemon.map { $0.toFirst * 1000 }, .milliseconds),
            figure("daemon's memory, peak (VmHWM)", daemon.compactMap(\.reading?.peak), .kibibytes),
        ]
        let plugin = runs.compactMap(\.plugin)
        if !plugin.isEmpty {
            let name = "bare C loop into the same plugin"
            figures.insert(
                figure(
                    "worked off, changes", rates(daemon), .perSecond,
                    against: .init(name: name, rounds: rates(plugin))), at: 1)
        }
        return figures
    }

    /// The time for the whole backlog, in seconds.
    private struct Drain {
        var seconds: Double
        /// Without the plugin's share.
        var processor: Double
        var pluginProcessor = 0.0
        var toFirst = 0.0
        var reading: ProcessReading?
    }

    /// From the daemon's start to its last call.
    private func drainByDaemon(_ store: String, _ backlog: Backlog) throws -> Drain {
        let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(store)]))
        defer { daemon.end() }
        let (first, last) = try readAll(daemon.stamps, backlog)
        let reading = try daemon.reading()
        return Drain(
            seconds: Double(last - daemon.started) / 1e9, processor: reading.seconds,
            pluginProcessor: try ProcessReading.children(of: daemon.child.processID).reduce(0) {
                $0 + (try ProcessReading.processorTime(of: $1))
            },
            toFirst: Double(first - daemon.started) / 1e9, reading: reading)
    }

    private func drainByConsumer(_ store: String, _ backlog: Backlog, plugin: Bool) throws -> Drain {
        let begin = Clock.now
        let process = try ConsumerProcess(.drain, store, workplace, plugin: plugin)
        defer { process.end() }
        let last = try readAll(process.stamps, backlog).last
        return Drain(seconds: Double(last - begin) / 1e9, processor: process.consumer.waitForEnd().processor)
    }

    private func readAll(_ stamps: StampReader, _ backlog: Backlog) throws -> (first: Int64, last: Int64) {
        var stamp = try stamps.next()
        let first = stamp.time
        var count = stamp.transactions
        while count < backlog.transactions {
            stamp = try stamps.next()
            count += stamp.transactions
        }
        // Keys are numbers without a gap.
        let last = stamp.object
        guard count == backlog.transactions,
            last == backlog.changes || last == backlog.changes - backlog.rows + 1
        else { throw BenchError("\(count) transactions came, of \(backlog.transactions).") }
        return (first, stamp.time)
    }
}
