import Glibc

/// How a cleanup slows a writer: the time of its commits with and without a cleanup, in turns.
struct CleaningBenchmark: Benchmark {
    let workplace: Workplace
    let sizes: Sizes

    func measure(_: inout [String]) throws -> [Figure] {
        let folder = try workplace.makeFolder()
        let store = folder + "/store.sqlite"
        try fill(store)
        var figures: [Figure] = []
        for synchronous in ["NORMAL", "FULL"] {
            let writer = try StoreWriter(store, synchronous: synchronous)
            let changes = NumberText.text(Double(sizes.cleaned))
            var times = CommitTimes(
                "a writer's commit while \(changes) changes are cleaned, WAL, synchronous=\(synchronous)",
                "with a cleanup")
            _ = try writer.times(sizes.commits)
            for _ in 0..<sizes.rounds {
                let alone = try writer.times(sizes.commits)
                let before = try Self.cleaned(store)
                let daemon = try daemon(of: store)
                defer { daemon.end() }
                let cleaner = try Child(Self.clean(daemon))
                defer { cleaner.end() }
                let start = Clock.now
                while try Self.cleaned(store) == before, Clock.now < start + Self.longestWait {
                    Clock.pause(microseconds: 10_000)
                }
                let disturbed = try writer.times(sizes.commits)
                times.add(Distribution(disturbed), alone: Distribution(alone))
                guard try Self.cleaned(store) > before else {
                    throw BenchError("Nothing was cleaned meanwhile.")
                }
            }
            figures += times.figures(aim: .ratioAtMost(2))
        }
        return figures + [try rest(store)]
    }

    /// How long to wait for the daemon at most, in nanoseconds.
    private static let longestWait: Int64 = 60_000_000_000

    /// One whose consumer calls nothing. It is ready before it has opened the store.
    private func daemon(of store: String) throws -> DaemonProcess {
        let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(store)], hooks: []))
        let nowhere = try FileBytes.create("\(workplace.makeFolder())/errors")
        defer { close(nowhere) }
        let end = Clock.now + Self.longestWait
        while try Child(Self.clean(daemon) + ["--dry-run"], errors: nowhere).waitForEnd().status != 0 {
            guard Clock.now < end else { throw BenchError("The daemon does not open the store.") }
            Clock.pause(microseconds: 10_000)
        }
        return daemon
    }

    /// Deletes all history, and ends when it is deleted.
    private static func clean(_ daemon: DaemonProcess) -> [String] {
        [Workplace.program("historyctl"), "clean", "--force", "--timeout", "1h", "--socket", daemon.socket]
    }

    /// The progress of the cleanup.
    private static func cleaned(_ store: String) throws -> Int64 {
        try Connection(store).number(
            "SELECT coalesce((SELECT value FROM historyd_store WHERE key = 'cleaned'), 0)")
    }

    /// A few rows that are updated over and over, so that the tables stay small.
    private func fill(_ store: String) throws {
        try BenchStore.make(store)
        let writer = try StoreWriter(store, synchronous: "OFF")
        for _ in 0..<1000 { _ = try writer.commit() }
        let connection = try Connection(store)
        try connection.execute("PRAGMA synchronous = OFF")
        try connection.declareAuthor(BenchStore.writer)
        for _ in 0..<(sizes.cleaned / 1000) {
            try connection.execute("UPDATE item SET quantity = quantity + 1")
        }
    }

    /// Deletes the rest while nothing else writes.
    private func rest(_ store: String) throws -> Figure {
        let count = try Connection(store).number("SELECT count(*) FROM historyd_change")
        let daemon = try daemon(of: store)
        defer { daemon.end() }
        let start = Clock.now
        try Child.run(Self.clean(daemon))
        let seconds = Double(Clock.now - start) / 1e9
        return Figure("cleaning", "changes deleted without a writer", Double(count) / seconds, .perSecond)
    }
}
