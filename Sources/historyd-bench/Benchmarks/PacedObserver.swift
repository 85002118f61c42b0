/// An observer with its own store, and a writer that does not wait for it.
final class PacedObserver {
    let name: String
    private let writer: StoreWriter
    private let stamps: StampReader
    private let process: Child
    private let ending: () -> Void

    init(
        _ name: String, _ writer: StoreWriter, _ stamps: StampReader, _ process: Child,
        end: @escaping () -> Void
    ) {
        self.name = name
        self.writer = writer
        self.stamps = stamps
        self.process = process
        ending = end
    }

    struct Result {
        /// Microseconds since COMMIT returned.
        let latencies: Distribution
        /// The observer's processor time without its plugin's, in microseconds for each commit.
        let processor: Double
    }

    /// As many stamps fit into a pipe unread (pipe(7)).
    private static let mostUnread = 2000

    /// Commits at random intervals, and then waits until all has arrived and the observer is idle.
    func measure(_ pace: Pace, commits: Int, seed: UInt64) throws -> Result {
        var random = SeededRandom(seed: seed)
        let firstKey = writer.last + 1
        var committed: [Int64] = []
        committed.reserveCapacity(commits)
        var early: [Stamp] = []
        let before = try ProcessReading.processorTime(of: process.processID)
        for number in 1...commits {
            committed.append(try writer.commit())
            let pause = UInt32.random(in: pace.pauses, using: &random)
            if pause > 0 { Clock.pause(microseconds: pause) }
            guard number.isMultiple(of: Self.mostUnread) else { continue }
            while stamps.wait(milliseconds: 0) { early.append(try stamps.next()) }
        }
        var arrivals = Arrivals(firstKey: firstKey, committed: committed)
        for stamp in early { arrivals.add(stamp) }
        while !arrivals.isComplete { arrivals.add(try stamps.next()) }
        Clock.pause(microseconds: 50_000)
        let processor = try ProcessReading.processorTime(of: process.processID) - before
        return Result(
            latencies: Distribution(arrivals.latencies), processor: processor / Double(commits) * 1e6)
    }

    func end() { ending() }
}
