import Foundation
import HistoryConfiguration
import HistoryNATS
import Logging
import PersistentHistory

/// A publisher's session: one connection, from the end of the stream on.
final class PublishSession {
    private let jetStream: JetStream
    private let source: MirrorSource
    private let publication: NATSConfiguration.Publication
    private let names: StreamName
    private let memory: MemoryFile?
    private let pending: PendingSnapshot
    private let folder: String
    private let logger: Logger

    private(set) var store = ""
    private(set) var epoch: Int64 = 1
    private(set) var position = StreamPosition(number: 0, fingerprint: nil, schema: "-")
    /// The schema at the position, if it is known.
    private var schema: MirrorSchema?
    private var head: GroupHeader?
    private var writer: StreamWriter
    /// As of the last look.
    private var state: StreamState
    private var beginning = StreamBeginning()
    private var bytesSinceSnapshot = 0
    private var snapshotPause = GrowingPause(first: .seconds(60), longest: .seconds(3600))
    /// Before it, a snapshot that failed is not tried again.
    private var nextAttempt: ContinuousClock.Instant?
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
        state = try jetStream.state(of: names.history)
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
            // What is left over may be what fills the server.
            try purgeLeftovers()
            throw error
        }
    }

    private func beginAtEnd(wantsNewEpoch: Bool) throws -> [ForeignNote] {
        let found = try StreamEnd(names, jetStream)
        (head, state) = (found.head?.header, found.state)
        let known = memory?.read(logger)
        let decision = try PublishDecision(
            .init(last: found.last, head: head, memory: known),
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
        case .startOver(let epoch, let reason):
            // A snapshot that an earlier session did not complete began this epoch already.
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

    /// Before anyone can see the epoch.
    private func remember(_ position: StreamPosition) {
        memory?.write(PublisherMemory(store: store, epoch: epoch, position: position), logger)
    }

    // MARK: Checks

    /// Whether the stream is as this session left it. What it contains is compared now and then.
    ///
    /// - Returns: The foreign messages that were found.
    func check() throws -> [ForeignNote] {
        let new = try jetStream.state(of: names.history)
        guard new.created == state.created, new.last >= state.last else {
            throw SessionOver(description: "\(names.history) was made again, or set back")
        }
        guard new.messages > 0 else { throw SessionOver(description: "\(names.history) has no messages left") }
        state = new
        try lookAtBeginning()
        if new.last != writer.lastSequence { return try fenceAgain() }
        guard .now >= nextComparison else { return [] }
        nextComparison = .now + StreamSight.interval
        let found = try StreamEnd(names, jetStream)
        // Of which there may be none: then a snapshot is due.
        head = found.head?.header
        try checkEpoch(head)
        return found.foreign
    }

    private func lookAtBeginning() throws {
        try beginning.look(state, epoch: epoch) { try jetStream.message($0, of: names.history)?.header }
    }

    /// A session that was fenced off behind its snapshot has begun a later epoch. Mirrors have seen it, and take no
    /// earlier one.
    private func checkEpoch(_ head: GroupHeader?) throws {
        if let latest = head?.epoch, latest > epoch {
            throw SessionOver(description: "\(names.snapshots) has a later epoch, \(latest)")
        }
    }

    // MARK: Fences

    /// So often a fence is tried, each time behind the messages that came in between.
    private static let fences = 32
    /// So many of those messages are looked at, the newest first.
    private static let examined: UInt64 = 32

    /// Begins in the stream.
    ///
    /// - Returns: The foreign messages that were found.
    private func fence() throws -> [ForeignNote] {
        do {
            try sendBegin()
            return []
        } catch let error as JetStreamError where error.isOvertaken {
            return try fenceAgain()
        }
    }

    /// Begins again at the position, behind messages of somebody else.
    ///
    /// - Throws: `SessionOver` if they are of another publisher.
    func fenceAgain() throws -> [ForeignNote] {
        var foreign: [ForeignNote] = []
        for _ in 0..<Self.fences {
            let own = writer.session
            let known = writer.lastAcknowledged
            state = try jetStream.state(of: names.history)
            if state.last > known {
                let first = max(known + 1, state.last - min(state.last, Self.examined))
                foreign += try (first...state.last).compactMap { try examine($0, own) }
            }
            // Messages came while those were looked at. If one is of another publisher, this fences it off, and it says so.
            state = try jetStream.state(of: names.history)
            writer = try StreamWriter(
                jetStream.connection, names.history, after: state.last, window: publication.window)
            do {
                try sendBegin()
                return foreign
            } catch let error as JetStreamError where error.isOvertaken {}
        }
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
            // One that goes on in an epoch that is over is fenced off by this.
            guard header.epoch < epoch else {
                throw SessionOver(
                    description:
                        "another publisher has taken \(names.history) over, with message \(sequence) on \(message.subject)"
                )
            }
            return nil
        }
    }

    private func sendBegin() throws {
        var header = GroupHeader(.begin, store: store, epoch: epoch, after: position, through: position)
        stamp(&header)
        try writer.send(names.begin, header)
        try writer.drain()
    }

    /// Says when it is sent, and when the next one will be.
    private func stamp(_ header: inout GroupHeader) {
        header.time = HistoryTimestamp.now.milliseconds
        header.beat = publication.beat.map { $0.milliseconds }
        lastSent = .now
    }

    // MARK: Groups

    /// Publishes what is new.
    ///
    /// - Returns: The bytes of the group; 0 where there was none.
    /// - Throws: `JetStreamError.isOvertaken`: then the group is not in the stream.
    func publishNew() throws -> Int {
        switch try source.next(after: position, of: store, knowing: schema) {
        case .nothing: return 0
        case .lost(.schemaUnknown):
            _ = try jump("the schema has changed", epoch: epoch)
            return 0
        case .lost(.gap):
            // What the missing changes did is in the rows.
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

    /// Says that there is nothing new.
    func beatIfDue() throws {
        guard let nextBeat, nextBeat <= .now else { return }
        do {
            try sendBegin()
        } catch let error as JetStreamError where error.isOvertaken {
            _ = try fenceAgain()
        }
    }

    // MARK: Snapshots

    /// Publishes a snapshot, after which the stream continues.
    private func jump(_ reason: String, epoch: Int64) throws -> [ForeignNote] {
        logger.notice("\(names.history) goes on from a new snapshot, in epoch \(epoch): \(reason).")
        self.epoch = epoch
        let sender = try snapshotSender()
        remember(try source.end().position)
        (position, schema) = try send(sender) {}
        return try fence()
    }

    var isSnapshotDue: Bool {
        if let nextAttempt { return nextAttempt <= .now }
        if pending.upload != nil { return true }
        if let limit = publication.stream.maxBytes, Int64(bytesSinceSnapshot) > limit / 2 { return true }
        guard let head, head.epoch == epoch, head.store == store else { return true }
        return beginning.isBehind(head.through) || timeOfSnapshot.map { $0 <= .now } ?? true
    }

    /// When a snapshot is due by its age, or is tried again.
    var nextSnapshot: ContinuousClock.Instant? { nextAttempt ?? timeOfSnapshot }

    private var timeOfSnapshot: ContinuousClock.Instant? {
        guard let time = head?.head?.time else { return nil }
        let age = Date.now.timeIntervalSince1970 - Double(time) / 1000
        // One of the future says nothing about when the next one is due.
        guard age > -60 else { return .now }
        return .now - .seconds(age) + publication.snapshotInterval
    }

    /// Publishes the whole store.
    ///
    /// - Parameter between: Is called between the parts, and may publish groups.
    func makeSnapshot(between: () throws -> Void) throws {
        _ = try send(snapshotSender(), between)
        nextAttempt = nil
        snapshotPause.reset()
    }

    /// Gives a snapshot up for some time.
    func snapshotFailed() {
        let place = pending.upload?.place
        pending.upload = nil
        nextAttempt = .now + snapshotPause.next()
        do {
            if let place { try jetStream.purge(names.snapshots, subject: names.snapshotPart(place.first)) }
        } catch {
            logger.warning(
                "Parts of a snapshot that failed cannot be removed from \(names.snapshots): \(sentence(error))")
        }
    }

    /// Behind this one's snapshot, nobody would see a later epoch any more.
    private func snapshotSender() throws -> SnapshotSender {
        let most = try writer.partSize(atMost: SnapshotSender.part, on: names.allSnapshotParts)
        if let upload = pending.upload, try !isUsable(upload, most) { pending.upload = nil }
        let upload = pending.upload ?? SnapshotUpload(epoch: epoch, partSize: most)
        pending.upload = upload
        // A snapshot that comes after this is in the way of the new one.
        let sender = try SnapshotSender(jetStream, names, upload, window: publication.window)
        try checkEpoch(SnapshotHeads(names, jetStream).newest?.header)
        return sender
    }

    /// Whether a snapshot that was begun is still one of this store and epoch.
    private func isUsable(_ upload: SnapshotUpload, _ most: Int) throws -> Bool {
        guard upload.epoch == epoch, upload.isRead, upload.partSize <= most, let group = upload.group else {
            return false
        }
        return try group.store == store && source.loss(at: group.through, of: store) == nil
    }

    /// - Returns: The position that it shows, and the schema.
    private func send(
        _ sender: SnapshotSender, _ between: () throws -> Void
    ) throws -> (StreamPosition, MirrorSchema) {
        guard let upload = pending.upload else { throw SessionOver(description: "there is no snapshot") }
        let group = try read(upload, sender, between)
        bytesSinceSnapshot = 0
        let head = try sender.finish(
            group, earlier: self.head?.head?.kept ?? [], keeping: publication.keptSnapshots, between: between)
        pending.upload = nil
        self.head = head
        remember(group.through)
        logger.info(
            "A snapshot of \"\(publication.store)\" at \(group.through.number) is in \(names.snapshots): \(group.body.count) bytes."
        )
        return (group.through, group.schema)
    }

    /// Reads the store into the snapshot, on a connection of its own: groups are read meanwhile.
    private func read(
        _ upload: SnapshotUpload, _ sender: SnapshotSender, _ between: () throws -> Void
    ) throws -> MirrorSource.Group {
        if upload.isRead, let group = upload.group { return group }
        let reader = try MirrorSource(publication.store, spoolingIn: folder)
        defer { try? reader.close() }
        let group = try withoutActuallyEscaping(between) { between in
            try reader.snapshot { group in
                upload.group = group
                sender.sendWhatFits(of: group)
                try between()
            }
        }
        (upload.group, upload.isRead) = (group, true)
        return group
    }

    /// Removes the parts of snapshots that were never completed. Whoever still sends one is fenced off.
    private func purgeLeftovers() throws {
        let kept = (head?.head?.kept ?? []) + [pending.upload?.place?.first].compactMap(\.self)
        let leftovers = SnapshotResumption.leftovers(
            among: try jetStream.subjects(names.allSnapshotParts, of: names.snapshots), names, kept: kept)
        guard !leftovers.isEmpty else { return }
        var fence = try StreamWriter(
            jetStream.connection, names.snapshots, after: jetStream.state(of: names.snapshots).last, window: 1)
        if pending.upload == nil {
            do {
                try fence.send(
                    names.snapshotBegin,
                    GroupHeader(
                        .begin, store: store, epoch: epoch, after: position, through: position, isLast: false))
                try fence.drain()
            } catch let error as JetStreamError where !error.isOvertaken {
                // A server that is full takes nothing from others either.
                logger.debug("\(names.snapshots): \(error)")
            }
        }
        for subject in leftovers { try jetStream.purge(names.snapshots, subject: subject) }
        logger.info(
            "Parts of snapshots that were not completed were removed from \(names.snapshots): \(leftovers.count)."
        )
    }
}
