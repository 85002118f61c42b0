/// How long after a commit its observer knows of it.
///
/// One writer, whose next commit waits for the observer and then for a millisecond. The daemon and
/// the bare loops have a store each, so that none is woken by another's commits, and take turns.
struct LatencyBenchmark {
    private static let pause: UInt32 = 1000
    private static let block = 50

    private let workplace: Workplace
    private let blocks: Int

    init(_ workplace: Workplace, commits: Int) {
        self.workplace = workplace
        blocks = max(commits / Self.block, 1)
    }

    func run() throws -> [Figure] {
        let folder = try workplace.makeFolder("latency")
        defer { Progress.attempt { try workplace.remove(folder) } }
        var figures: [Figure] = []
        for journal in [BenchStore.Journal.wal, .delete] {
            let stores = ["daemon", "loop", "pipe"].map { "\(folder)/\(journal)-\($0)" }
            for store in stores { try BenchStore.make(store, journal) }
            // A first writer stays, so that the -wal does.
            let holders = try stores.map { try StoreWriter($0, synchronous: "NORMAL") }
            for holder in holders { _ = try holder.commit() }
            let daemon = try DaemonProcess(workplace, stores: [stores[0]])
            defer { Progress.attempt { try daemon.stop() } }
            _ = try daemon.stamps.next()
            let loop = try BareProcess.watching(stores[1], workplace, plugin: false)
            defer { loop.end() }
            let pipe = try BareProcess.watching(stores[2], workplace, plugin: true)
            defer { pipe.end() }
            let readers = [daemon.stamps, loop.stamps, pipe.stamps]
            for synchronous in journal == .wal ? ["NORMAL", "FULL"] : ["FULL"] {
                let sides = try zip(stores, readers).map {
                    Side(writer: try StoreWriter($0, synchronous: synchronous), stamps: $1)
                }
                let name =
                    journal == .wal
                    ? "WAL, synchronous=\(synchronous)" : "rollback journal, synchronous=\(synchronous)"
                let before = try readings(daemon, loop)
                figures += try measure(sides, name)
                let spent = zip(try readings(daemon, loop), before).map { $0.seconds - $1.seconds }
                figures.append(processorTime(spent, name))
            }
            withExtendedLifetime(holders) {}
        }
        return figures
    }

    private func readings(_ daemon: DaemonProcess, _ loop: BareProcess) throws -> [ProcessReading] {
        try [daemon.child, loop.children[0]].map { try ProcessReading(of: $0.processID) }
    }

    private func processorTime(_ seconds: [Double], _ name: String) -> Figure {
        // The first block, which warms up, is counted too.
        let each = seconds.map { $0 / Double((blocks + 1) * Self.block) * 1e6 }
        return Figure(
            group, "\(name), processor time each", each[0], .microseconds,
            against: .init(name: "bare loop", value: each[1]))
    }

    private var group: String { "from COMMIT's return to the plugin (\(blocks * Self.block) commits each)" }

    private struct Side {
        let writer: StoreWriter
        let stamps: StampReader

        /// Commits, and waits until the observer has it; microseconds between.
        func latency() throws -> Double {
            let committed = try writer.commit()
            while true {
                let stamp = try stamps.next()
                guard stamp.object < writer.last else { return Double(stamp.time - committed) / 1000 }
            }
        }
    }

    private func measure(_ sides: [Side], _ name: String) throws -> [Figure] {
        var latencies = sides.map { _ in [Double]() }
        var turns = Turns(sides.count)
        for block in 0...blocks {
            for place in turns.next() {
                for _ in 0..<Self.block {
                    let latency = try sides[place].latency()
                    // The first block warms up.
                    if block > 0 { latencies[place].append(latency) }
                    Clock.pause(microseconds: Self.pause)
                }
            }
        }
        let results = latencies.map { Distribution($0) }
        return ["bare loop", "bare loop and a plugin"].enumerated().flatMap { place, baseline in
            [("p50", 0.5), ("p99", 0.99)].map { label, share in
                Figure(
                    group, "\(name), \(label)", results[0].quantile(share), .microseconds,
                    against: .init(name: baseline, value: results[place + 1].quantile(share)))
            }
        }
    }
}
