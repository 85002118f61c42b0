import HistoryConfiguration
import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// Follows one stream into a mirror, on its own thread.
struct Follower: Sendable {
    let configuration: NATSConfiguration
    let following: NATSConfiguration.Following
    let wakeUp: WakeUp
    let status: WorkerStatus
    let logger: Logger

    private var names: StreamName { StreamName(following.name) }
    private var metadata: Logger.Metadata { ["store": .string(following.name)] }

    /// The session ends, and the next one determines how to continue.
    private struct SessionOver: Error, CustomStringConvertible {
        let description: String
    }

    /// Why a snapshot is needed.
    private struct Need {
        let reason: String
        let isRepair: Bool
    }

    /// Follows until the program ends.
    func run() {
        var pause = Pause()
        while !wakeUp.isStopped {
            do {
                try session(isOnce: false) { pause.reset() }
            } catch {
                if wakeUp.isStopped { return }
                let text: Logger.Message =
                    "Following \(names.history) into \"\(following.path)\" stopped: \(sentence(error))"
                if status.failed(error) {
                    logger.report(.natsInterrupted, text, metadata: metadata)
                } else {
                    logger.debug(text, metadata: metadata)
                }
            }
            _ = wakeUp.wait(for: [], until: .now + pause.take())
        }
    }

    /// Follows everything there is, once.
    ///
    /// - Throws: What kept it from doing so.
    func runOnce() throws { try session(isOnce: true) {} }

    private func session(isOnce: Bool, _ succeeded: () -> Void) throws {
        let connection = try NATSConnection(configuration, name: "historyd-nats", wakeUp: wakeUp)
        wakeUp.use(connection)
        defer {
            wakeUp.use(nil)
            connection.close()
        }
        let jetStream = JetStream(connection: connection)
        let mirror = try Mirror(following.path, of: following.name)
        defer { try? mirror.close() }
        let snapshots = SnapshotFetcher(jetStream: jetStream, names: names, logger: logger)
        while true {
            let end = try jetStream.state(of: names.history)
            guard let position = mirror.position else {
                try snapshots.fetch(into: mirror, waits: !isOnce, "it is new")
                succeeded()
                if isOnce { continue } else { return }
            }
            if status.connected(position.position, epoch: position.epoch) != nil {
                logger.report(
                    .natsResumed, "\(names.history) is followed into \"\(following.path)\" again.",
                    metadata: metadata)
            }
            let start = try Self.start(in: end, position, jetStream, names.history)
            if isOnce, start > end.last { return }
            let need = try follow(
                try PullConsumer(jetStream, of: names.history, from: start), into: mirror,
                until: isOnce ? end.last : nil, succeeded)
            guard let need else { return }
            try snapshots.fetch(into: mirror, waits: !isOnce, isRepair: need.isRepair, need.reason)
            succeeded()
            // Whatever the server still sends is discarded with the connection; the next session follows.
            if !isOnce { return }
        }
    }

    /// The sequence at which the mirror continues in the stream.
    private static func start(
        in state: JetStream.StreamState, _ position: MirrorPosition, _ jetStream: JetStream, _ stream: String
    ) throws -> UInt64 {
        guard state.messages > 0, state.first <= state.last else { return state.last + 1 }
        let range = state.first...state.last
        if range.contains(position.sequence),
            try jetStream.message(position.sequence, of: stream)?.messageID == position.messageID
        {
            return position.sequence + 1
        }
        return try StreamSearch.start(in: range, for: position) {
            try jetStream.message($0, of: stream)?.header
        }
    }

    /// - Returns: Why a snapshot is needed; nil at the last message that is wanted.
    private func follow(
        _ consumer: PullConsumer, into mirror: Mirror, until last: UInt64?, _ succeeded: () -> Void
    ) throws -> Need? {
        var assembler = GroupAssembler(position: mirror.position)
        let folder = following.folder
        var body = GroupBody(spoolingIn: folder)
        while true {
            let message = try consumer.next()
            if let header = message.header {
                guard mirror.isThere else {
                    throw SessionOver(description: "the mirror was removed or replaced")
                }
                switch assembler.take(header, session: GroupHeader.session(of: message.messageID)) {
                case .ignore: break
                case .needSnapshot(let reason): return Need(reason: reason, isRepair: false)
                case .keep(let isFirst):
                    if isFirst { body = GroupBody(spoolingIn: folder) }
                    try message.withBody { try body.append($0) }
                case .apply:
                    if header.part == 0 { body = GroupBody(spoolingIn: folder) }
                    try message.withBody { try body.append($0) }
                    let position = MirrorPosition(
                        store: header.store, epoch: header.epoch, position: header.through,
                        sequence: message.sequence, messageID: message.messageID)
                    do {
                        try mirror.apply(body.chunks(), isSnapshot: false, to: position)
                    } catch let error as MirrorError {
                        logger.report(
                            .mirrorGroupRefused, "\(names.history), message \(message.sequence): \(error)",
                            metadata: metadata)
                        return Need(reason: "a group could not be applied", isRepair: true)
                    }
                    assembler.position = position
                    status.moved(position.position, bytes: body.count)
                    body = GroupBody(spoolingIn: folder)
                    succeeded()
                }
            }
            if let last, message.sequence >= last { return nil }
        }
    }
}

extension NATSConfiguration.Following {
    /// The mirror's folder, which has space for what goes into the mirror.
    var folder: String {
        guard let slash = path.lastIndex(of: "/") else { return "." }
        return slash == path.startIndex ? "/" : String(path[..<slash])
    }
}
