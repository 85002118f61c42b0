/// All observers that are compared.
final class LatencyField {
    static let subject = "historyd"
    static let baseline = "bare C consumer"

    private(set) var contestants: [any Contestant] = []
    private(set) var omissions: [String] = []
    private let daemon: DaemonProcess
    private let consumer: ConsumerProcess
    /// Connections that stay open, which keeps the -wal file.
    private var holders: [StoreWriter] = []

    init(_ workplace: Workplace, _ folder: String, _ mode: LatencyBenchmark.Mode) throws {
        var holders: [StoreWriter] = []
        func makeStore(_ name: String) throws -> (path: String, writer: StoreWriter) {
            let path = "\(folder)/\(name)"
            try BenchStore.make(path, mode.journal)
            let holder = try StoreWriter(path, synchronous: mode.synchronous)
            _ = try holder.commit()
            holders.append(holder)
            return (path, try StoreWriter(path, synchronous: mode.synchronous))
        }

        let own = try makeStore("historyd")
        let daemon = try DaemonProcess(workplace, DaemonSetup(stores: [.init(own.path)]))
        self.daemon = daemon
        _ = try daemon.stamps.next()
        contestants.append(
            StampContestant(Self.subject, .historyd, own.writer, daemon.stamps) {
                Progress.attempt { try daemon.stop() }
            })

        let floor = try makeStore("consumer")
        let consumer = try ConsumerProcess(.watch, floor.path, workplace)
        self.consumer = consumer
        contestants.append(
            StampContestant(Self.baseline, .floor, floor.writer, consumer.stamps, end: consumer.end))

        let piped = try makeStore("plugin")
        let withPlugin = try ConsumerProcess(.watch, piped.path, workplace, plugin: true)
        contestants.append(
            StampContestant(
                PacedField.withPlugin, .sameWay, piped.writer, withPlugin.stamps, end: withPlugin.end))

        let unasked = try makeStore("naive")
        let naive = try ConsumerProcess(.naive, unasked.path, workplace)
        contestants.append(
            StampContestant(
                "naive inotify loop", .variant, unasked.writer, naive.stamps, mayMiss: true, end: naive.end))
        do {
            let scripted = try makeStore("shell")
            contestants.append(try ShellConsumer.contestant(workplace, scripted.path, scripted.writer))
        } catch let missing as Tool.Missing {
            omissions.append("the shell script: \(missing.reason)")
        }
        self.holders = holders
    }

    /// Elapsed seconds of all commits so far.
    func processorTimes() throws -> (daemon: Double, consumer: Double) {
        (
            try ProcessReading.processorTime(of: daemon.child.processID),
            try ProcessReading.processorTime(of: consumer.consumer.processID)
        )
    }

    func end() {
        for contestant in contestants { contestant.end() }
        withExtendedLifetime(holders) {}
    }
}
