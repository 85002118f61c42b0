import Foundation
import HistoryConfiguration
import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// Publishes the history of one store.
///
/// It keeps no state: each session reads its position from the end of the stream.
struct Publisher: Worker {
    let configuration: NATSConfiguration
    let publication: NATSConfiguration.Publication
    /// The folder for groups that do not fit into memory.
    let folder: String
    let memory: MemoryFile?
    let wakeUp: WorkerSignal
    let status: WorkerStatus
    let logger: Logger
    /// Called with the position that the server has acknowledged.
    let acknowledged: @Sendable (Int64) -> Void

    var names: StreamName { StreamName(publication.name) }

    /// A decision that only an operator can make.
    struct Refusal: Error, CustomStringConvertible {
        let description: String
    }

    /// Publishes until the program ends.
    func run() {
        repeatSessions(
            "Publishing \"\(publication.store)\" to \(names.history)",
            refusal: { $0 is Refusal ? .natsDiverged : nil }
        ) { try session($0, isOnce: false, wantsNewEpoch: false, $1) }
    }

    /// Publishes everything there is, once.
    ///
    /// - Throws: What kept it from doing so.
    func runOnce(newEpoch: Bool) throws {
        try withJetStream { try session($0, isOnce: true, wantsNewEpoch: newEpoch) {} }
    }

    private func session(
        _ jetStream: JetStream, isOnce: Bool, wantsNewEpoch: Bool, _ succeeded: () -> Void
    ) throws {
        if publication.stream.create {
            try jetStream.make(names.history, names.allHistory, publication.stream, isPurged: false)
            try jetStream.make(names.snapshots, names.allSnapshots, publication.stream, isPurged: true)
        }
        let source = try MirrorSource(publication.store, spoolingIn: folder)
        defer { try? source.close() }
        var session = PublishSession(
            jetStream: jetStream, source: source, publication: publication, names: names, memory: memory,
            logger: logger)
        note(try session.begin(wantsNewEpoch: wantsNewEpoch))
        if status.connected(session.position, of: session.store, epoch: session.epoch) != nil {
            logger.report(
                .natsResumed, "\"\(publication.store)\" is published to \(names.history) again.",
                metadata: metadata)
        }
        acknowledged(session.position.number)
        // A look comes before each wait: for commits from before the store was watched.
        var rule = VisibilityRule()
        var nextCheck = ContinuousClock.now + Self.checkInterval
        var step = rule.woke()
        while true {
            switch step {
            case .ask: step = rule.asked(writerActive: try source.isWriterActive())
            case .look:
                if session.isSnapshotDue { try session.makeSnapshot() }
                let isNew = try look(source, &session)
                if isNew { succeeded() }
                // Once, a transaction that is still open is not waited for.
                step = isOnce && !isNew ? .rest : rule.looked(foundNew: isNew)
            case .wait(let delay):
                if try isStopped(waitingFor: [], until: .now + delay) { return }
                step = rule.waited()
            case .rest:
                guard source.isThere else { throw SessionOver(description: "the store was replaced") }
                if isOnce { return }
                if try isStopped(waitingFor: .commit, until: min(nextCheck, session.nextSnapshot ?? nextCheck))
                {
                    return
                }
                if .now >= nextCheck {
                    note(try session.check())
                    nextCheck = .now + Self.checkInterval
                }
                step = rule.woke()
            }
        }
    }

    /// How often the stream is looked at while nothing is published.
    private static let checkInterval: Duration = .seconds(240)

    /// Publishes what is new.
    ///
    /// - Returns: Whether there was anything.
    private func look(_ source: MirrorSource, _ session: inout PublishSession) throws -> Bool {
        switch try source.next(after: session.position, of: session.store, knowing: session.schema) {
        case .nothing: return false
        case .lost(.schemaUnknown):
            try session.jump("the schema has changed", epoch: session.epoch)
            status.moved(session.position, of: session.store, epoch: session.epoch, bytes: 0)
        case .lost(let loss): throw SessionOver(description: "the store is \(loss)")
        case .group(let group):
            if group.body.count > GroupLimit.published {
                try session.jump("what is new is too large for a group", epoch: session.epoch)
            } else {
                try session.publish(group)
            }
            status.moved(
                session.position, of: session.store, epoch: session.epoch, bytes: group.body.count)
            acknowledged(session.position.number)
        }
        return true
    }
}

/// A publisher's session: one connection, from the end of the stream on.
struct PublishSession {
    let jetStream: JetStream
    let source: MirrorSource
    let publication: NATSConfiguration.Publication
    let names: StreamName
    let memory: MemoryFile?
    let logger: Logger

    private(set) var store = ""
    private(set) var epoch: Int64 = 1
    private(set) var position = StreamPosition(number: 0, fingerprint: nil, schema: "-")
    /// The fingerprint at the position, if it is known.
    private(set) var schema: MirrorSchema?
    private var head: GroupHeader?
    private var writer: StreamWriter?
    private var bytesSinceSnapshot = 0

    /// The maximum size of a group's part: below a message's default limit, 1 MiB.
    private static let groupPart = 900_000

    init(
        jetStream: JetStream, source: MirrorSource, publication: NATSConfiguration.Publication,
        names: StreamName, memory: MemoryFile?, logger: Logger
    ) {
        self.jetStream = jetStream
        self.source = source
        self.publication = publication
        self.names = names
        self.memory = memory
        self.logger = logger
    }

    /// Finds the end of the stream and fences off every other publisher.
    ///
    /// - Returns: The foreign messages that were found.
    mutating func begin(wantsNewEpoch: Bool) throws -> [ForeignNote] {
        let found = try StreamEnd(names, jetStream)
        head = found.head?.header
        let decision = try PublishDecision(
            .init(last: found.last, head: head, memory: memory?.read(logger)),
            at: HistoryTimestamp.now.milliseconds, wantsNewEpoch: wantsNewEpoch
        ) { try source.loss(at: $0, of: $1) }
        writer = try StreamWriter(
            jetStream.connection, names.history, after: found.state.last, window: publication.window)
        let (store, end, schema) = try source.end()
        self.store = store
        switch decision {
        case .refuse(let reason):
            throw Publisher.Refusal(
                description:
                    "\(reason). Restore the store, or declare it to be right: historyd-nats publish --new-epoch \(names.name)"
            )
        case .startOver(let epoch, let reason): try jump(reason, epoch: epoch)
        case .goOn(let epoch, let position):
            (self.epoch, self.position) = (epoch, position)
            self.schema = end.schema == position.schema ? schema : nil
            remember(position)
            try sendBegin()
        }
        return found.foreign
    }

    /// Before anyone can see the epoch.
    private func remember(_ position: StreamPosition) {
        memory?.write(PublisherMemory(store: store, epoch: epoch, position: position), logger)
    }

    /// Whether the stream is as this session left it.
    ///
    /// - Returns: The foreign messages that were found.
    mutating func check() throws -> [ForeignNote] {
        let found = try StreamEnd(names, jetStream)
        guard found.state.messages > 0 else {
            throw SessionOver(description: "\(names.history) has no messages left")
        }
        guard found.state.last == writer?.lastSequence else {
            throw SessionOver(description: "\(names.history) has messages of somebody else")
        }
        // Of which there may be none: then a snapshot is due.
        head = found.head?.header
        try checkEpoch(head)
        return found.foreign
    }

    /// A session that was fenced off behind its snapshot has begun a later epoch. Mirrors have seen it, and take no
    /// earlier one.
    private func checkEpoch(_ head: GroupHeader?) throws {
        if let latest = head?.epoch, latest > epoch {
            throw SessionOver(description: "\(names.snapshots) has a later epoch, \(latest)")
        }
    }

    /// Publishes a snapshot, after which the stream continues.
    mutating func jump(_ reason: String, epoch: Int64) throws {
        logger.notice("\(names.history) goes on from a new snapshot, in epoch \(epoch): \(reason).")
        self.epoch = epoch
        let sender = try snapshotSender()
        remember(try source.end().position)
        (position, schema) = try makeSnapshot(sender)
        try sendBegin()
    }

    private mutating func sendBegin() throws {
        try writer?.send(
            names.begin, GroupHeader(.begin, store: store, epoch: epoch, after: position, through: position))
        try writer?.drain()
    }

    mutating func publish(_ group: MirrorSource.Group) throws {
        let subject = names.group(of: group.authors)
        let (store, epoch) = (store, epoch)
        try writer?.send(group.body, to: subject, atMost: Self.groupPart) { part, isLast in
            GroupHeader(
                .group, store: store, epoch: epoch, after: group.after, through: group.through, part: part,
                isLast: isLast)
        }
        try writer?.drain()
        (position, schema) = (group.through, group.schema)
        bytesSinceSnapshot += group.body.count
    }

    // MARK: Snapshots

    var isSnapshotDue: Bool {
        if let limit = publication.stream.maxBytes, Int64(bytesSinceSnapshot) > limit / 2 { return true }
        guard let head, head.epoch == epoch, head.store == store else { return true }
        return nextSnapshot.map { $0 <= .now } ?? true
    }

    var nextSnapshot: ContinuousClock.Instant? {
        guard let time = head?.head?.time else { return nil }
        let age = Date.now.timeIntervalSince1970 - Double(time) / 1000
        // One of the future says nothing about when the next one is due.
        guard age > -60 else { return .now }
        return .now - .seconds(age) + publication.snapshotInterval
    }

    /// Publishes the whole store.
    mutating func makeSnapshot() throws { _ = try makeSnapshot(snapshotSender()) }

    /// Behind this one's snapshot, nobody would see a later epoch any more.
    private func snapshotSender() throws -> SnapshotSender {
        // A snapshot that comes after this is in the way of the new one.
        let sender = try SnapshotSender(jetStream, names, epoch: epoch, window: publication.window)
        try checkEpoch(SnapshotHeads(names, jetStream).newest?.header)
        return sender
    }

    /// - Returns: The position that it shows, and the schema.
    private mutating func makeSnapshot(_ sender: SnapshotSender) throws -> (StreamPosition, MirrorSchema) {
        let group = try source.snapshot { try sender.sendWhatFits(of: $0) }
        let head = try sender.finish(
            group, earlier: self.head?.head?.kept ?? [], keeping: publication.keptSnapshots)
        self.head = head
        bytesSinceSnapshot = 0
        remember(group.through)
        logger.info(
            "A snapshot of \"\(publication.store)\" at \(group.through.number) is in \(names.snapshots): \(group.body.count) bytes."
        )
        return (group.through, group.schema)
    }
}
