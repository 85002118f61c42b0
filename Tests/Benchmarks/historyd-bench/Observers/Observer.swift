/// An observer of commits in a store of its own, with the writer that makes them.
final class Observer {
    let name: String
    let writer: StoreWriter
    private let stamps: StampReader
    private let process: Child
    private let ending: () -> Void

    /// - Parameter process: Whose processor time is measured.
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

    /// A daemon, and a writer to one of its stores.
    convenience init(
        _ name: String, _ workplace: Workplace, _ setup: DaemonSetup, _ writer: StoreWriter
    ) throws {
        let daemon = try DaemonProcess(workplace, setup)
        self.init(name, writer, daemon.stamps, daemon.child, end: daemon.end)
    }

    func end() { ending() }

    func reading() throws -> ProcessReading { try ProcessReading(of: process.processID) }

    /// In seconds.
    func processorTime() throws -> Double { try ProcessReading.processorTime(of: process.processID) }

    /// Commits a row, and waits until the observer has it.
    ///
    /// - Parameter timeout: In milliseconds, for an observer that may miss a commit: nothing would come until the next
    ///   one.
    /// - Returns: Microseconds from COMMIT's return until then; nil if the commit was missed.
    func latency(within timeout: Int32? = nil) throws -> Double? {
        let committed = try writer.commit()
        while true {
            if let timeout, !stamps.wait(milliseconds: timeout) { return nil }
            let stamp = try stamps.next()
            guard stamp.object < writer.last else { return Double(stamp.time - committed) / 1000 }
        }
    }

    // MARK: Many commits

    struct Result {
        /// Microseconds since COMMIT returned.
        let latencies: Distribution
        /// The observer's processor time without its plugin's, in microseconds for each commit.
        let processor: Double
    }

    /// Waits for each commit, and then a millisecond, until the observer is idle again.
    func measureWaiting(commits: Int) throws -> Result {
        try measure(commits, idleAfter: 200_000) {
            try (0..<commits).compactMap { _ in
                defer { Clock.pause(microseconds: 1000) }
                return try latency()
            }
        }
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
        return try measure(commits, idleAfter: 50_000) {
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
            return arrivals.latencies
        }
    }

    /// - Parameter pause: Until it is idle, in microseconds.
    private func measure(_ commits: Int, idleAfter pause: UInt32, _ body: () throws -> [Double]) throws
        -> Result
    {
        let before = try processorTime()
        let latencies = try body()
        Clock.pause(microseconds: pause)
        return Result(
            latencies: Distribution(latencies),
            processor: (try processorTime() - before) / Double(commits) * 1e6)
    }
}

/// Observers that are compared. No other commits wake one, since each has its own store.
final class ObserverField {
    static let daemon = "historyd"
    static let consumer = "bare C consumer"
    static let consumerAndPlugin = "bare C consumer and a plugin"

    private let workplace: Workplace
    private let folder: String
    private let journal: BenchStore.Journal
    private let synchronous: String
    private var observers: [Observer] = []
    /// Connections that stay open, which keeps the -wal file.
    private var holders: [StoreWriter] = []

    init(_ workplace: Workplace, _ journal: BenchStore.Journal = .wal, synchronous: String) throws {
        self.workplace = workplace
        self.journal = journal
        self.synchronous = synchronous
        folder = try workplace.makeFolder()
    }

    func makeStore(isDeclared: Bool = true) throws -> (path: String, writer: StoreWriter) {
        let path = "\(folder)/store\(holders.count)"
        try BenchStore.make(path, journal)
        let holder = try StoreWriter(path, synchronous: synchronous)
        _ = try holder.commit()
        holders.append(holder)
        return (path, try StoreWriter(path, synchronous: synchronous, isDeclared: isDeclared))
    }

    func daemon(_ name: String = ObserverField.daemon, isDeclared: Bool = true) throws -> Observer {
        let (path, writer) = try makeStore(isDeclared: isDeclared)
        let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(path)]))
        _ = try daemon.stamps.next()
        return add(Observer(name, writer, daemon.stamps, daemon.child, end: daemon.end))
    }

    func consumer(_ name: String, _ mode: ConsumerProcess.Mode = .watch, plugin: Bool = false) throws
        -> Observer
    {
        let (path, writer) = try makeStore()
        let consumer = try ConsumerProcess(mode, path, workplace, plugin: plugin)
        return add(Observer(name, writer, consumer.stamps, consumer.consumer, end: consumer.end))
    }

    private func add(_ observer: Observer) -> Observer {
        observers.append(observer)
        return observer
    }

    func end() { for observer in observers { observer.end() } }
}
