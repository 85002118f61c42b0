import CSimulation
import FoundationEssentials
import HistoryConfiguration
import HistoryMirrors
import HistoryNATS
import Logging
import PersistentHistory

/// Publisher and followers, each on a thread of its own, as `historyd-nats` runs them.
final class MirrorPrograms: Sendable {
    private struct Running: Sendable {
        let wakeUp: WorkerSignal
        let status: WorkerStatus
        let ended: TimedSemaphore
    }

    private let files: Files
    private let server: ScriptedServer
    private let logger: Logger
    /// Of the publisher, and of each follower.
    private let configurations: [NATSConfiguration]
    private let running = Locked<[MirrorAction.Program: Running]>([:])

    static let name = "s"
    /// The second mirror has only these.
    static let chosen = ["person", "note"]

    /// - Parameter stream: Members of the publisher's configuration.
    init(_ files: Files, _ server: ScriptedServer, _ record: Record, _ stream: String) throws {
        (self.files, self.server) = (files, server)
        logger = Logger(label: "mirrors") { _ in RecordLog(record: record) }
        let names = Self.chosen.map { "\"\($0)\"" }.joined(separator: ", ")
        let texts = [
            #""publish": [{"store": "\#(files.source)", "name": "s", "snapshot": {"every": "300s"}, "stream": {\#(stream)}}]"#,
            #""follow": [{"name": "s", "path": "\#(files.mirror(0))"}]"#,
            #""follow": [{"name": "s", "path": "\#(files.mirror(1))", "entities": [\#(names)]}]"#,
        ]
        configurations = try texts.map { text in
            let path = files.folder + "/nats.json"
            try #"{"version": 1, "servers": ["nats://simulated:4222"], \#(text)}"#.write(
                toFile: path, atomically: false, encoding: .utf8)
            return try NATSConfiguration.load(file: path)
        }
    }

    private var connect: Connect { { [server] in try ScriptedConnection(server, $1) } }

    func publisher(_ number: Int = 0, _ wakeUp: WorkerSignal = WorkerSignal(), _ status: WorkerStatus? = nil)
        -> Publisher
    {
        Publisher(
            connect: connect, configuration: configurations[0], publication: configurations[0].publish[0],
            folder: files.folder, memory: MemoryFile(in: files.memory(number), of: Self.name), wakeUp: wakeUp,
            status: status ?? WorkerStatus(.publish, name: Self.name, path: files.source) {}, logger: logger)
    }

    /// The first mirror is to be the source.
    var promotion: Promotion {
        Promotion(
            connect: connect, configuration: configurations[1], following: configurations[1].follow[0],
            source: nil, stateFolder: files.memory(1), logger: logger)
    }

    func isRunning(_ program: MirrorAction.Program) -> Bool { running.withLock { $0[program] != nil } }

    func start(_ program: MirrorAction.Program) {
        guard !isRunning(program) else { return }
        let (wakeUp, ended) = (WorkerSignal(), TimedSemaphore())
        let status: WorkerStatus
        let body: @Sendable () -> Void
        switch program {
        case .publisher, .secondPublisher:
            status = WorkerStatus(.publish, name: Self.name, path: files.source) {}
            let publisher = publisher(program == .publisher ? 0 : 1, wakeUp, status)
            body = { publisher.run() }
        case .follower(let number):
            status = WorkerStatus(.follow, name: Self.name, path: files.mirror(number)) {}
            let follower = Follower(
                connect: connect, configuration: configurations[number + 1],
                following: configurations[number + 1].follow[0], wakeUp: wakeUp, status: status, logger: logger)
            body = { follower.run() }
        }
        running.withLock { $0[program] = Running(wakeUp: wakeUp, status: status, ended: ended) }
        let number = startThread {
            body()
            ended.signal()
        }
        if number != 0 { csimulation_exit(1) }
    }

    /// - Returns: Whether it ended in time.
    func stop(_ program: MirrorAction.Program) -> Bool {
        guard let found = running.withLock({ $0.removeValue(forKey: program) }) else { return true }
        found.wakeUp.stop()
        return found.ended.wait(atMost: .seconds(60))
    }

    func stopAll() -> Bool {
        running.withLock { Array($0.keys) }.map(stop).allSatisfy(\.self)
    }

    /// The store has new transactions.
    func signal() {
        running.withLock { running in
            for program in [MirrorAction.Program.publisher, .secondPublisher] {
                running[program]?.wakeUp.signal(.commit)
            }
        }
    }

    func report(_ program: MirrorAction.Program) -> WorkerReport? {
        running.withLock { $0[program]?.status }?.plain
    }
}

extension Files {
    var source: String { "\(folder)/source.sqlite" }
    var backup: String { "\(folder)/backup.sqlite" }
    func mirror(_ number: Int) -> String { "\(folder)/mirror\(number).sqlite" }
    func memory(_ number: Int) -> String { "\(folder)/memory\(number)" }
}

/// Writes to the record.
private struct RecordLog: LogHandler {
    let record: Record
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        if case .string(let code) = event.metadata?["event"], let code = MessageCode(rawValue: code) {
            record.write("message", "\(code)")
        }
        record.write("log", "\(event.level)", "\(event.message)")
    }
}
