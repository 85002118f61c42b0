package import HistoryConfiguration
import HistoryDaemon
package import Logging
import HistoryMirrors
import PersistentHistory

/// Follows one stream into a mirror.
package struct Follower: Worker {
    package let connect: Connect
    package let configuration: NATSConfiguration
    package let following: NATSConfiguration.Following
    package let wakeUp: WorkerSignal
    package let status: WorkerStatus
    package let logger: Logger

    package init(
        connect: @escaping Connect, configuration: NATSConfiguration,
        following: NATSConfiguration.Following, wakeUp: WorkerSignal, status: WorkerStatus, logger: Logger
    ) {
        self.connect = connect
        self.configuration = configuration
        self.following = following
        self.wakeUp = wakeUp
        self.status = status
        self.logger = logger
    }

    package var names: StreamName { StreamName(following.name) }

    /// Neither the stream nor its snapshots are a later state of the mirror.
    struct Stale: Error, CustomStringConvertible {
        let description: String
    }

    /// Why a snapshot is needed.
    struct Need {
        let reason: String
        var isRepair = false
        /// Whether the stream does not continue at the mirror's position.
        var isGap = false
    }

    /// Follows until the program stops.
    package func run() {
        var repairs = RepairPause()
        let pending = PendingDownload()
        repeatSessions(
            "Following \(names.history) into \"\(following.path)\"",
            refusal: { $0 is Stale ? .mirrorStale : nil },
            { try session($0, pending, isOnce: false, &repairs, $1) }, hasFailed: moveAside)
    }

    /// Follows everything there is, once.
    ///
    /// - Throws: The error that prevented it.
    package func runOnce() throws {
        var repairs = RepairPause()
        try withJetStream { try session($0, PendingDownload(), isOnce: true, &repairs) {} }
    }

    /// A mirror is a copy: a damaged one is moved aside and filled again.
    private func moveAside(_ error: any Error) {
        if let lack = error as? FreeSpace.Lack { status.lacks(lack) }
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
        _ jetStream: JetStream, _ pending: PendingDownload, isOnce: Bool, _ repairs: inout RepairPause,
        _ succeeded: () -> Void
    ) throws {
        let lock = try MirrorLock(following.path)
        defer { withExtendedLifetime(lock) {} }
        let mirror = try Mirror(
            following.path, of: following.name, entities: EntityChoice(following.entities))
        defer { try? mirror.close() }
        if !isOnce { try awaitSpace(for: mirror, jetStream) }
        var snapshots = SnapshotFetcher(
            jetStream: jetStream, names: names, folder: following.folder, logger: logger, pending: pending,
            unlessStopped: unlessStopped
        ) {
            status.waits($0)
        }
        var need: Need?
        var readsFromFirst = false
        while true {
            let end = try StreamEnd(names, jetStream)
            note(end.foreign)
            switch decision(mirror.position, end) {
            case .refuse(let reason): throw Stale(description: reason)
            case .refill(let reason), .awaitSnapshot(let reason):
                need = Need(reason: reason, isRepair: need?.isRepair ?? false)
            case .goOn:
                if need == nil, mirror.hasOtherEntities {
                    // An older snapshot helps as well: the stream goes on behind it.
                    need = Need(reason: "the configuration names other entities", isRepair: true)
                }
            }
            if let missing = need {
                need = nil
                if mirror.position != nil {
                    guard try pauses(before: missing.reason, &repairs, isOnce: isOnce) else { return }
                }
                try snapshots.fetch(into: mirror, waiting: !isOnce, isRepair: missing.isRepair, missing.reason)
                if let position = mirror.position { status.moved(position, bytes: 0) }
                noteMissing(mirror.missingEntities, in: following.path)
                continue
            }
            guard let position = mirror.position else { continue }
            if status.connected(position.position, of: position.store, epoch: position.epoch) != nil {
                logger.report(
                    .natsResumed, "\(names.history) is followed into \"\(following.path)\" again.",
                    metadata: metadata)
            }
            let start =
                readsFromFirst
                ? max(1, end.state.first) : try Self.start(in: end.state, position, jetStream, names.history)
            readsFromFirst = false
            note(isLevel: start > end.state.last, mirror, end.last)
            if let last = end.last { status.heard(last, isLevel: start > end.state.last) }
            if isOnce, start > end.state.last { return try checkLevel(mirror, end) }
            let consumer = try PullConsumer(jetStream, of: names.history, from: start)
            var sight = StreamSight(state: try jetStream.state(of: names.history), seen: start - 1)
            guard sight.state.continues(end.state) else {
                throw SessionOver(description: "\(names.history) was made again meanwhile")
            }
            status.compared()
            need = try follow(consumer, &sight, jetStream, into: mirror, until: isOnce ? end.state.last : nil) {
                repairs.applied()
                succeeded()
            }
            guard let found = need else { return try checkLevel(mirror, end) }
            if found.isGap, start > end.state.first, mirror.position == position {
                // The search for the position relies on the messages' own headers.
                logger.notice("\(names.history) is read from its first message, because \(found.reason).")
                need = nil
                readsFromFirst = true
            }
            // Messages that the server still sends are discarded with the connection.
        }
    }

    /// Data that do not fit are not fetched again and again: this waits for space, or, where a group does not fit, until
    /// the stream goes on without it.
    private func awaitSpace(for mirror: Mirror, _ jetStream: JetStream) throws {
        guard let lack = status.lack else { return }
        var seen: StreamState?
        while FreeSpace.half(of: following.folder) < lack.needed {
            guard mirror.isThere else {
                throw SessionOver(description: "the mirror was removed or replaced")
            }
            if !lack.isOfSnapshot, case let state = try jetStream.state(of: names.history), state != seen {
                seen = state
                let end = try StreamEnd(names, jetStream)
                guard decision(mirror.position, end) == .goOn else { break }
            }
            if try isStopped(waitingFor: [], until: .now + Self.spaceInterval) { return }
        }
        status.lacks(nil)
    }

    /// With less free space, a failed write has failed for lack of space.
    static let nearlyFull = 1 << 20
    private static let spaceInterval: Duration = .seconds(3)

    /// Waits before a mirror is filled again.
    ///
    /// - Returns: Whether to continue.
    private func pauses(before reason: String, _ repairs: inout RepairPause, isOnce: Bool) throws -> Bool {
        let wait = repairs.take(at: .now)
        guard wait > .zero else { return true }
        if isOnce, wait > .seconds(4) { throw Stale(description: reason) }
        status.waits("The mirror is filled again in \(wait.components.seconds + 1) s: \(reason)")
        return try !isStopped(waitingFor: [], until: .now + wait)
    }

    func decision(_ mirror: MirrorPosition?, _ end: StreamEnd) -> FollowDecision {
        FollowDecision(
            mirror, last: end.last, head: end.head?.header, lastSequence: end.state.last,
            name: following.name)
    }

    /// - Parameter last: The last message of the stream.
    func note(isLevel: Bool, _ mirror: Mirror, _ last: GroupHeader?) {
        let isOvertaken = mirror.position.flatMap { last?.isOvertaken(by: $0) } ?? false
        status.isLevel(
            isLevel,
            obstacle: isLevel && isOvertaken
                ? "The publisher goes on in an epoch that is over for the mirror; it begins a later one within minutes"
                : nil)
    }

    /// Checks that the mirror has what the stream has, after everything was followed.
    private func checkLevel(_ mirror: Mirror, _ end: StreamEnd) throws {
        guard let mine = mirror.position, let last = end.last else { return }
        guard mine.position.number >= last.reached.number else {
            throw Stale(
                description:
                    "the mirror is at \(mine.position.number), and the stream ends at \(last.reached.number)"
            )
        }
    }

    /// The sequence from which the mirror continues in the stream.
    private static func start(
        in state: StreamState, _ position: MirrorPosition, _ jetStream: JetStream, _ stream: String
    ) throws -> UInt64 {
        guard state.messages > 0, state.first <= state.last else { return state.last + 1 }
        let range = state.first...state.last
        if range.contains(position.sequence),
            try jetStream.message(position.sequence, of: stream)?.messageID == position.messageID
        {
            return position.sequence + 1
        }
        return try StreamSearch.start(in: range, for: position) { sequence in
            guard let message = try jetStream.message(sequence, of: stream) else { return nil }
            // A copy of an old message would make all messages before it look old.
            let before =
                sequence > range.lowerBound
                ? try jetStream.message(sequence - 1, of: stream)?.messageID : nil
            return message.header.flatMap { $0.fits(message.messageID, behind: before) ? $0 : nil }
        }
    }
}
