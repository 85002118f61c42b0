import Foundation
import HistoryConfiguration
import Logging
import HistoryMirrors
import PersistentHistory

/// A publisher's session: one connection, starting from the end of the stream.
final class PublishSession {
    let jetStream: JetStream
    let source: MirrorSource
    let publication: NATSConfiguration.Publication
    let names: StreamName
    private let memory: MemoryFile?
    let pending: PendingSnapshot
    let folder: String
    let logger: Logger
    /// What the messages say of the store.
    let described: GroupHeader.Source

    var store = ""
    var epoch: Int64 = 1
    var position = StreamPosition(number: 0, fingerprint: nil, schema: "-")
    /// The schema at the position, if it is known.
    var schema: MirrorSchema?
    var head: GroupHeader?
    var writer: StreamWriter
    /// As of the last check.
    private var state: StreamState
    /// When the stream of snapshots was created.
    private let snapshotsCreated: String
    var beginning = StreamBeginning()
    var bytesSinceSnapshot = 0
    var snapshotPause = GrowingPause(first: .seconds(60), longest: .seconds(3600))
    /// Not before this time is a failed snapshot retried.
    var nextAttempt: ContinuousClock.Instant?
    private var nextComparison = ContinuousClock.now + StreamSight.interval
    private var lastSent = ContinuousClock.now

    init(
        jetStream: JetStream, source: MirrorSource, publication: NATSConfiguration.Publication,
        names: StreamName, memory: MemoryFile?, pending: PendingSnapshot, folder: String, logger: Logger
    ) throws {
        self.jetStream = jetStream
        self.source = source
        self.publication = publication
        self.names = names
        self.memory = memory
        self.pending = pending
        self.folder = folder
        self.logger = logger
        described = GroupHeader.Source(
            entities: try EntityChoice(publication.entities).digest, promotion: try source.promotion())
        state = try jetStream.state(of: names.history)
        snapshotsCreated = try jetStream.state(of: names.snapshots).created
        writer = try StreamWriter(
            jetStream.connection, names.history, after: state.last, window: publication.window)
    }

    /// Finds the end of the stream and fences off every other publisher.
    ///
    /// - Returns: The foreign messages that were found.
    func begin(wantsNewEpoch: Bool) throws -> [ForeignNote] {
        do {
            return try beginAtEnd(wantsNewEpoch: wantsNewEpoch)
        } catch let error as JetStreamError where !error.isOvertaken {
            // Leftovers may be what fills the server.
            try purgeLeftovers()
            throw error
        }
    }

    private func beginAtEnd(wantsNewEpoch: Bool) throws -> [ForeignNote] {
        let found = try StreamEnd(names, jetStream)
        (head, state) = (found.head?.header, found.state)
        let known = memory?.read(logger)
        let decision = try PublishDecision(
            .init(last: found.last, head: head, memory: known), of: described,
            at: HistoryTimestamp.now.milliseconds, wantsNewEpoch: wantsNewEpoch
        ) { try source.loss(at: $0, of: $1) }
        writer = try StreamWriter(
            jetStream.connection, names.history, after: state.last, window: publication.window)
        let (store, end, schema) = try source.end()
        self.store = store
        var foreign = found.foreign
        switch decision {
        case .refuse(let reason):
            throw Publisher.Refusal(
                description:
                    "\(reason). Restore the store, or declare it to be right: historyd-nats publish --new-epoch \(names.name)"
            )
        case .retire(let reason):
            throw Publisher.Refusal(
                description:
                    "\(reason). Move its file aside and follow the stream, or, if the store is right after all, run: historyd-nats publish --new-epoch \(names.name)"
            )
        case .startOver(let epoch, let reason):
            // A snapshot that an earlier session left incomplete has started this epoch already.
            let latest = max(found.last?.epoch ?? 0, head?.epoch ?? 0)
            let begun = pending.upload.flatMap { upload in
                known?.epoch == upload.epoch && upload.epoch > latest && !wantsNewEpoch ? upload.epoch : nil
            }
            foreign += try jump(reason, epoch: begun ?? epoch)
        case .goOn(let epoch, let position):
            (self.epoch, self.position) = (epoch, position)
            self.schema = end.schema == position.schema ? schema : nil
            remember(position)
            foreign += try fence()
        }
        try purgeLeftovers()
        try lookAtBeginning()
        return foreign
    }

    /// Saves the epoch before any follower can see it.
    func remember(_ position: StreamPosition) {
        memory?.write(PublisherMemory(store: store, epoch: epoch, position: position), logger)
    }

    // MARK: Checks

    /// Checks that the stream is as this session left it. Its content is compared at intervals.
    ///
    /// - Returns: The foreign messages that were found.
    func check() throws -> [ForeignNote] {
        let new = try jetStream.state(of: names.history)
        guard new.created == state.created, new.last >= state.last else {
            throw SessionOver(description: "\(names.history) was made again, or set back")
        }
        guard new.messages > 0 else { throw SessionOver(description: "\(names.history) has no messages left") }
        // Followers need both, and a session makes what is missing.
        guard try jetStream.state(of: names.snapshots).created == snapshotsCreated else {
            throw SessionOver(description: "\(names.snapshots) was made again")
        }
        state = new
        try lookAtBeginning()
        if new.last != writer.lastSequence { return try fenceAgain() }
        guard .now >= nextComparison else { return [] }
        nextComparison = .now + StreamSight.interval
        let found = try StreamEnd(names, jetStream)
        // There may be none: then a snapshot is due.
        head = found.head?.header
        try checkEpoch(head)
        return found.foreign
    }

    private func lookAtBeginning() throws {
        try beginning.look(state, epoch: epoch) { try jetStream.message($0, of: names.history)?.header }
    }

    /// Throws if the stream has a later epoch: a session that was fenced off behind its snapshot has started
    /// one. Mirrors have seen it, and accept no earlier one.
    func checkEpoch(_ head: GroupHeader?) throws {
        if let latest = head?.epoch, latest > epoch {
            throw SessionOver(description: "\(names.snapshots) has a later epoch, \(latest)")
        }
    }

    // MARK: Fences

    /// How long to try a fence, each time behind the messages that arrived in between: long enough to meet a pause
    /// of a busy client on a busy machine.
    private static let longestFencing: Duration = .seconds(5)
    /// How many of those messages to examine, the newest first.
    private static let examined: UInt64 = 32

    /// Writes the session's first message to the stream.
    ///
    /// - Returns: The foreign messages that were found.
    func fence() throws -> [ForeignNote] {
        do {
            try sendBegin()
            return []
        } catch let error as JetStreamError where error.isOvertaken {
            return try fenceAgain(after: error)
        }
    }

    /// Fences again at the position, behind messages of other clients.
    ///
    /// - Parameter refusal: What the server said to the last message. It tells where the stream ends: asking
    ///   would take time in which more messages may arrive.
    /// - Throws: `SessionOver` if they are from another publisher.
    func fenceAgain(after refusal: JetStreamError? = nil) throws -> [ForeignNote] {
        var foreign: [ForeignNote] = []
        var refusal = refusal
        let end = ContinuousClock.now + Self.longestFencing
        repeat {
            let (own, known) = (writer.session, writer.lastAcknowledged)
            let last = try refusal?.lastSequence ?? jetStream.state(of: names.history).last
            guard last >= known else { throw SessionOver(description: "\(names.history) was set back") }
            if last > known {
                let first = max(known + 1, last - min(last, Self.examined))
                foreign += try (first...last).compactMap { try examine($0, own) }
            }
            writer = try StreamWriter(
                jetStream.connection, names.history, after: last, window: publication.window)
            do {
                try sendBegin()
                return foreign
            } catch let error as JetStreamError where error.isOvertaken {
                refusal = error
            }
        } while .now < end
        throw SessionOver(
            description:
                "others publish to \(names.history) all the time, the last message on \(foreign.last?.subject ?? names.allHistory)"
        )
    }

    private func examine(_ sequence: UInt64, _ own: String) throws -> ForeignNote? {
        guard let message = try jetStream.message(sequence, of: names.history),
            GroupHeader.session(of: message.messageID) != own
        else { return nil }
        switch message.content {
        case .failure(let reason): return message.foreign(reason, in: names.history)
        case .success(let header):
            let before = try jetStream.message(sequence - 1, of: names.history)?.messageID
            guard header.fits(message.messageID, behind: before) else {
                return message.foreign(.unchained, in: names.history)
            }
            // A publisher that continues in an ended epoch is fenced off by this.
            guard header.epoch < epoch else {
                throw SessionOver(
                    description:
                        "another publisher has taken \(names.history) over, with message \(sequence) on \(message.subject)"
                )
            }
            return nil
        }
    }

    func sendBegin() throws {
        var header = GroupHeader(.begin, store: store, epoch: epoch, after: position, through: position)
        stamp(&header)
        try writer.send(names.begin, header)
        try writer.drain()
    }

    /// Sets what is published, when the message is sent, and when the next one is due.
    private func stamp(_ header: inout GroupHeader) {
        header.source = described
        header.time = HistoryTimestamp.now.milliseconds
        header.beat = publication.beat.map { $0.milliseconds }
        lastSent = .now
    }

    // MARK: Groups

    /// Publishes new transactions.
    ///
    /// - Returns: The bytes of the group; 0 if there was none.
    /// - Throws: `JetStreamError.isOvertaken`: the group is not in the stream then.
    func publishNew() throws -> Int {
        switch try source.next(after: position, of: store, knowing: schema) {
        case .nothing: return 0
        case .lost(.schemaUnknown):
            _ = try jump("the schema has changed", epoch: epoch)
            return 0
        case .lost(.gap):
            // The rows contain the effect of the missing changes.
            _ = try jump("changes are missing in the store's history", epoch: epoch)
            return 0
        case .lost(let loss): throw SessionOver(description: "the store is \(loss)")
        case .group(let group):
            if group.body.count > GroupLimit.published {
                _ = try jump("what is new is too large for a group", epoch: epoch)
            } else {
                try publish(group)
            }
            return group.body.count
        }
    }

    private func publish(_ group: MirrorSource.Group) throws {
        let subject = names.group(of: group.authors)
        var template = GroupHeader(
            .group, store: store, epoch: epoch, after: group.after, through: group.through)
        stamp(&template)
        try writer.send(group.body, to: subject, atMost: SnapshotSender.part) { part, isLast in
            var header = template
            (header.part, header.isLast) = (part, isLast)
            return header
        }
        try writer.drain()
        (position, schema) = (group.through, group.schema)
        bytesSinceSnapshot += group.body.count
        lastSent = .now
    }

    /// When the next beat is due; nil without one.
    var nextBeat: ContinuousClock.Instant? { publication.beat.map { lastSent + $0 } }

    /// Sends a beat if it is due: there is nothing new.
    func beatIfDue() throws {
        guard let nextBeat, nextBeat <= .now else { return }
        do {
            try sendBegin()
        } catch let error as JetStreamError where error.isOvertaken {
            _ = try fenceAgain(after: error)
        }
    }
}
