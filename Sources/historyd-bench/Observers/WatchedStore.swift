/// A daemon, and a writer to one of its stores that waits for the hook: how long that takes, and the daemon's processor
/// time for it.
final class WatchedStore {
    private let daemon: DaemonProcess
    private let writer: StoreWriter

    /// - Parameter path: the store that is written to.
    init(_ workplace: Workplace, _ setup: DaemonSetup, writingTo path: String) throws {
        writer = try StoreWriter(path, synchronous: "NORMAL")
        daemon = try DaemonProcess(workplace, setup)
        _ = try latency()
    }

    /// Commits, and returns the microseconds until the call.
    func latency() throws -> Double {
        let committed = try writer.commit()
        while true {
            let stamp = try daemon.stamps.next()
            guard stamp.object < writer.last else { return Double(stamp.time - committed) / 1000 }
        }
    }

    struct Cost {
        let latencies: Distribution
        /// The daemon's processor time, in microseconds for each commit.
        let processor: Double
    }

    /// The cost of a number of commits, each followed by a millisecond's pause, until the daemon is idle again.
    func cost(commits: Int) throws -> Cost {
        let before = try processorTime()
        var latencies: [Double] = []
        for _ in 0..<commits {
            latencies.append(try latency())
            Clock.pause(microseconds: 1000)
        }
        Clock.pause(microseconds: 200_000)
        return Cost(
            latencies: Distribution(latencies),
            processor: (try processorTime() - before) / Double(commits) * 1e6)
    }

    func reading() throws -> ProcessReading { try daemon.reading() }

    func end() throws { try daemon.stop() }

    private func processorTime() throws -> Double {
        try ProcessReading.processorTime(of: daemon.child.processID)
    }
}
