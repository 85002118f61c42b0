import HistoryConfiguration
import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// Follows one stream into a mirror.
struct Follower: Worker {
    let configuration: NATSConfiguration
    let following: NATSConfiguration.Following
    let wakeUp: WorkerSignal
    let status: WorkerStatus
    let logger: Logger

    var names: StreamName { StreamName(following.name) }

    /// Neither the stream nor its snapshots follow the mirror.
    private struct Stale: Error, CustomStringConvertible {
        let description: String
    }

    /// Why a snapshot is needed.
    private struct Need {
        let reason: String
        let isRepair: Bool
    }

    /// Follows until the program ends.
    func run() {
        var repairs = RepairPause()
        repeatSessions(
            "Following \(names.history) into \"\(following.path)\"",
            refusal: { $0 is Stale ? .mirrorStale : nil },
            { try session($0, isOnce: false, &repairs, $1) }, hasFailed: moveAside)
    }

    /// Follows everything there is, once.
    ///
    /// - Throws: What kept it from doing so.
    func runOnce() throws {
        var repairs = RepairPause()
        try withJetStream { try session($0, isOnce: true, &repairs) {} }
    }

    /// A mirror is a copy: one that is damaged is filled again.
    private func moveAside(_ error: any Error) {
        guard let error = error as? HistoryError, error.code == .replicaDamaged else { return }
        do {
            let path = try Mirror.moveAside(following.path)
            logger.report(
                .mirrorMovedAside, "The damaged mirror is at \"\(path)\" now; a new one is filled.",
                metadata: metadata)
        } catch {
            logger.error("\(sentence(error))")
        }
    }

    private func session(
        _ jetStream: JetStream, isOnce: Bool, _ repairs: inout RepairPause, _ succeeded: () -> Void
    ) throws {
        let mirror = try Mirror(following.path, of: following.name)
        defer { try? mirror.close() }
        var snapshots = SnapshotFetcher(
            jetStream: jetStream, names: names, folder: following.folder, logger: logger
        ) {
            status.waits($0)
        }
        var need: Need?
        while true {
            let end = try StreamEnd(names, jetStream)
            note(end.foreign)
            switch decision(mirror, end) {
            case .refuse(let reason): throw Stale(description: reason)
            case .refill(let reason), .awaitSnapshot(let reason):
                need = Need(reason: reason, isRepair: need?.isRepair ?? false)
            case .goOn: break
            }
            if let missing = need {
                need = nil
                if mirror.position != nil {
                    guard try pauses(before: missing.reason, &repairs, isOnce: isOnce) else { return }
                }
                try snapshots.fetch(into: mirror, waiting: !isOnce, isRepair: missing.isRepair, missing.reason)
                if let position = mirror.position { status.moved(position, bytes: 0) }
                continue
            }
            guard let position = mirror.position else { continue }
            if status.connected(position.position, of: position.store, epoch: position.epoch) != nil {
                logger.report(
                    .natsResumed, "\(names.history) is followed into \"\(following.path)\" again.",
                    metadata: metadata)
            }
            let start = try Self.start(in: end.state, position, jetStream, names.history)
            note(isLevel: start > end.state.last, mirror, end.last)
            if isOnce, start > end.state.last { return try checkLevel(mirror, end) }
            need = try follow(
                try PullConsumer(jetStream, of: names.history, from: start), jetStream, into: mirror,
                until: isOnce ? end.state.last : nil
            ) {
                repairs.applied()
                succeeded()
            }
            if need == nil { return try checkLevel(mirror, end) }
            // Whatever the server still sends is discarded with the connection.
        }
    }

    /// Waits before a mirror is filled once more.
    ///
    /// - Returns: Whether to go on.
    private func pauses(before reason: String, _ repairs: inout RepairPause, isOnce: Bool) throws -> Bool {
        let wait = repairs.take(at: .now)
        guard wait > .zero else { return true }
        if isOnce, wait > .seconds(4) { throw Stale(description: reason) }
        status.waits("The mirror is filled again in \(wait.components.seconds + 1) s: \(reason)")
        return try !isStopped(waitingFor: [], until: .now + wait)
    }

    private func decision(_ mirror: Mirror, _ end: StreamEnd) -> FollowDecision {
        FollowDecision(
            mirror.position, last: end.last, head: end.head?.header, lastSequence: end.state.last,
            name: following.name)
    }

    /// - Parameter last: The last message of the stream.
    private func note(isLevel: Bool, _ mirror: Mirror, _ last: GroupHeader?) {
        let isOvertaken = mirror.position.flatMap { last?.isOvertaken(by: $0) } ?? false
        status.isLevel(
            isLevel,
            obstacle: isLevel && isOvertaken
                ? "The publisher goes on in an epoch that is over for the mirror; it begins a later one within minutes"
                : nil)
    }

    /// After everything was followed, the mirror has what the stream had.
    private func checkLevel(_ mirror: Mirror, _ end: StreamEnd) throws {
        guard let mine = mirror.position, let last = end.last else { return }
        guard mine.position.number >= last.reached.number else {
            throw Stale(
                description:
                    "the mirror is at \(mine.position.number), and the stream ends at \(last.reached.number)"
            )
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
        _ consumer: PullConsumer, _ jetStream: JetStream, into mirror: Mirror, until end: UInt64?,
        _ succeeded: () -> Void
    ) throws -> Need? {
        var assembler = GroupAssembler(position: mirror.position)
        let folder = following.folder
        var body = GroupBody(spoolingIn: folder)
        var space = 0
        var before: (sequence: UInt64, id: String)?
        var last: GroupHeader?
        while true {
            guard let message = try consumer.nextInTime() else {
                if let need = try compare(mirror, jetStream) { return need }
                continue
            }
            switch message.content.checked(message, behind: before) {
            case .failure(let reason):
                note([ForeignNote(stream: names.history, sequence: message.sequence, reason: reason)])
            case .success(let header):
                guard mirror.isThere else {
                    throw SessionOver(description: "the mirror was removed or replaced")
                }
                last = header
                let step = assembler.take(header, session: GroupHeader.session(of: message.messageID))
                switch step {
                case .ignore: break
                case .needSnapshot(let reason): return Need(reason: reason, isRepair: false)
                case .keep, .apply:
                    if header.part == 0 {
                        body = GroupBody(spoolingIn: folder)
                        space = header.isLast ? .max : FreeSpace.half(of: folder)
                    }
                    try message.withBody { try body.append($0) }
                    guard body.count <= GroupLimit.most else {
                        return refuse(message, "a group is larger than \(GroupLimit.most) bytes")
                    }
                    // To fill the mirror again makes no space: the group is awaited where it is, and status says why.
                    guard body.count <= space else { throw FreeSpace.Lack(needed: body.count, folder: folder) }
                    guard step == .apply else { break }
                    let position = MirrorPosition(
                        store: header.store, epoch: header.epoch, position: header.through,
                        sequence: message.sequence, messageID: message.messageID)
                    do {
                        try mirror.apply(body.chunks(), isSnapshot: false, to: position)
                    } catch let error as MirrorError {
                        return refuse(message, "\(error)")
                    }
                    assembler.position = position
                    status.moved(position, bytes: body.count)
                    body = GroupBody(spoolingIn: folder)
                    succeeded()
                }
            }
            before = (message.sequence, message.messageID)
            note(isLevel: message.pending == 0, mirror, last)
            if let end, message.sequence >= end { return nil }
        }
    }

    private func refuse(_ message: PullConsumer.Delivered, _ reason: String) -> Need {
        logger.report(
            .mirrorGroupRefused, "\(names.history), message \(message.sequence): \(reason)", metadata: metadata)
        status.refused()
        return Need(reason: "a group could not be applied (\(reason))", isRepair: true)
    }

    /// Compares a mirror with its stream while nothing comes.
    private func compare(_ mirror: Mirror, _ jetStream: JetStream) throws -> Need? {
        guard mirror.isThere else { throw SessionOver(description: "the mirror was removed or replaced") }
        let end = try StreamEnd(names, jetStream)
        switch decision(mirror, end) {
        case .refuse(let reason): throw Stale(description: reason)
        case .refill(let reason), .awaitSnapshot(let reason): return Need(reason: reason, isRepair: false)
        case .goOn:
            if let last = end.last, last.epoch == mirror.position?.epoch,
                last.reached.number > mirror.position?.position.number ?? 0
            {
                throw SessionOver(description: "the stream's end, \(last.reached.number), was not delivered")
            }
            return nil
        }
    }
}

extension Result<GroupHeader, ForeignMessage> {
    /// What stands behind a message that it does not continue is of somebody else.
    fileprivate func checked(
        _ message: PullConsumer.Delivered, behind before: (sequence: UInt64, id: String)?
    ) -> Self {
        guard case .success(let header) = self else { return self }
        let id = before.flatMap { $0.sequence + 1 == message.sequence ? $0.id : nil }
        return header.fits(message.messageID, behind: id) ? self : .failure(.unchained)
    }
}
