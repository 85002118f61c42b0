/// How historyd slows a writer: the time of its commits while a daemon observes them, and while it processes a
/// backlog. The baseline is the same commits without a daemon.
struct WriterBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        var figures: [Figure] = []
        for synchronous in ["NORMAL", "FULL"] {
            figures += try whileLevel(synchronous)
            figures += try whileDraining(synchronous)
        }
        return figures
    }

    /// In short turns, because a disk's speed changes from one second to the next.
    private static let block = 20

    private func whileLevel(_ synchronous: String) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let stores = ["historyd", "consumer", "alone"].map { "\(folder)/\($0)" }
        for store in stores { try BenchStore.make(store) }
        let writers = try stores.map { try StoreWriter($0, synchronous: synchronous) }
        let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(stores[0])]))
        defer { daemon.end() }
        let consumer = try ConsumerProcess(.watch, stores[1], workplace)
        defer { consumer.end() }

        let mode = "is delivered, WAL, synchronous=\(synchronous)"
        var times = [
            CommitTimes("a writer's commit while it \(mode)", "with historyd"),
            CommitTimes("a writer's commit while it \(mode)", "with the \(ObserverField.consumer)"),
        ]
        var turns = Turns(stores.count)
        // The first round warms up.
        for round in 0...sizes.rounds {
            var values: [[Double]] = stores.map { _ in [] }
            for _ in 0..<max(sizes.commits / Self.block, 1) {
                for index in turns.next() {
                    values[index] += try writers[index].times(Self.block) {
                        try daemon.stamps.discard()
                        try consumer.stamps.discard()
                    }
                }
            }
            guard round > 0 else { continue }
            for index in times.indices {
                times[index].add(Distribution(values[index]), alone: Distribution(values[2]))
            }
        }
        return times[0].figures(aim: .ratioAtMost(1.1)) + times[1].figures()
    }

    private func whileDraining(_ synchronous: String) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let store = "\(folder)/store"
        try BenchStore.make(store)
        let filler = try StoreWriter(store, synchronous: "OFF")
        for _ in 0..<sizes.backlog { _ = try filler.commit() }
        let last = filler.last
        let writer = try StoreWriter(store, synchronous: synchronous)

        let group = "a writer's commit while a backlog is drained, WAL, synchronous=\(synchronous)"
        var times = CommitTimes(group, "with historyd")
        _ = try writer.times(sizes.commits)
        for _ in 0..<sizes.rounds {
            let alone = try writer.times(sizes.commits)
            // One that has no state begins where the history does.
            let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(store)]))
            defer { daemon.end() }
            var reached = try daemon.stamps.next().object
            var done: [Double] = []
            while done.count < sizes.commits, reached < last {
                done.append(try writer.time())
                Clock.pause(microseconds: StoreWriter.pace)
                reached = try daemon.stamps.discard()?.object ?? reached
            }
            guard done.count >= min(sizes.commits, 100) else {
                throw BenchError(
                    "The backlog was drained within \(done.count) commits: it needs a larger --backlog.")
            }
            times.add(Distribution(done), alone: Distribution(alone))
        }
        // With FULL most of a commit is waiting for the disk, which the daemon's own commits share.
        return times.figures(aim: .ratioAtMost(synchronous == "FULL" ? 1.5 : 1.1))
    }
}

/// The times of a writer's commits, with and without a disturbance.
struct CommitTimes {
    private let group: String
    private let name: String
    private var disturbed: [Distribution] = []
    private var alone: [Distribution] = []

    /// - Parameter name: What may disturb it.
    init(_ group: String, _ name: String) {
        self.group = group
        self.name = name
    }

    /// The result of one round.
    mutating func add(_ times: Distribution, alone others: Distribution) {
        disturbed.append(times)
        alone.append(others)
    }

    /// - Parameter aim: for the p99.
    func figures(aim: Aim? = nil) -> [Figure] {
        [("p50", 0.5, nil), ("p99", 0.99, aim)].map { label, share, aim in
            Figure(
                group, "\(name), \(label)", rounds: disturbed.map { $0.quantile(share) }, .microseconds,
                against: .init(name: "without", rounds: alone.map { $0.quantile(share) }), aim: aim)
        }
    }
}
