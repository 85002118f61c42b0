import Foundation
package import HistoryConfiguration
import HistoryDaemon
package import Logging
import HistoryMirrors
import PersistentHistory

/// Publishes the history of one store.
///
/// It keeps no state: each session reads its position from the end of the stream.
package struct Publisher: Worker {
    package let connect: Connect
    package let configuration: NATSConfiguration
    package let publication: NATSConfiguration.Publication
    /// The folder for groups that do not fit into memory.
    let folder: String
    let memory: MemoryFile?
    package let wakeUp: WorkerSignal
    package let status: WorkerStatus
    package let logger: Logger
    /// Called with the position that the server has acknowledged.
    let acknowledged: @Sendable (Int64) -> Void

    package init(
        connect: @escaping Connect, configuration: NATSConfiguration,
        publication: NATSConfiguration.Publication, folder: String, memory: MemoryFile?,
        wakeUp: WorkerSignal, status: WorkerStatus, logger: Logger,
        acknowledged: @escaping @Sendable (Int64) -> Void = { _ in }
    ) {
        self.connect = connect
        self.configuration = configuration
        self.publication = publication
        self.folder = folder
        self.memory = memory
        self.wakeUp = wakeUp
        self.status = status
        self.logger = logger
        self.acknowledged = acknowledged
    }

    package var names: StreamName { StreamName(publication.name) }

    /// A decision that only an operator can make.
    struct Refusal: Error, CustomStringConvertible {
        let description: String
    }

    /// Publishes until the program stops.
    package func run() {
        let pending = PendingSnapshot()
        repeatSessions(
            "Publishing \"\(publication.store)\" to \(names.history)",
            refusal: { $0 is Refusal ? .natsDiverged : nil }
        ) { try session($0, pending, isOnce: false, wantsNewEpoch: false, $1) }
    }

    /// Publishes everything there is, once.
    ///
    /// - Throws: The error that prevented it.
    package func runOnce(newEpoch: Bool = false) throws {
        try withJetStream { try session($0, PendingSnapshot(), isOnce: true, wantsNewEpoch: newEpoch) {} }
    }

    /// The same, beside another publisher, which ends as soon as it finds itself fenced off.
    package func takeOver(newEpoch: Bool) throws {
        for _ in 0..<Self.attempts {
            do {
                return try runOnce(newEpoch: newEpoch)
            } catch let error as JetStreamError where error.isOvertaken {}
        }
        try runOnce(newEpoch: newEpoch)
    }

    private static let attempts = 4

    private func session(
        _ jetStream: JetStream, _ pending: PendingSnapshot, isOnce: Bool, wantsNewEpoch: Bool,
        _ succeeded: () -> Void
    ) throws {
        let difference = publication.stream.create ? try makeStreams(jetStream) : nil
        let source = try MirrorSource(
            publication.store, spoolingIn: folder, entities: EntityChoice(publication.entities))
        defer { try? source.close() }
        let session = try PublishSession(
            jetStream: jetStream, source: source, publication: publication, names: names, memory: memory,
            pending: pending, folder: folder, logger: logger)
        note(try session.begin(wantsNewEpoch: wantsNewEpoch))
        connected(session)
        noteMissing(try source.missingEntities(), in: publication.store)
        warn(difference)
        acknowledged(session.position.number)
        // It looks before each wait, for commits from before the store was watched.
        var rule = VisibilityRule()
        var nextCheck = ContinuousClock.now + Self.checkInterval
        var step = rule.woke()
        while true {
            switch step {
            case .ask: step = rule.asked(writerActive: try source.isWriterActive())
            case .look:
                if .now >= nextCheck {
                    note(try session.check())
                    status.compared()
                    nextCheck = .now + Self.checkInterval
                }
                if session.isSnapshotDue { try makeSnapshot(session, difference) }
                let isNew = try look(session)
                if isNew { succeeded() }
                // A single run does not wait for an open transaction.
                step = isOnce && !isNew ? .idle : rule.looked(foundNew: isNew)
            case .wait(let delay):
                if try isStopped(waitingFor: [], until: .now + delay) { return }
                step = rule.waited()
            case .idle:
                guard source.isThere else { throw SessionOver(description: "the store was replaced") }
                if isOnce { return }
                let times = [nextCheck, session.nextSnapshot, session.nextBeat].compactMap(\.self)
                if try isStopped(waitingFor: .commit, until: times.min()) { return }
                try session.beatIfDue()
                step = rule.woke()
            }
        }
    }

    /// How often the stream is checked, regardless of what is published.
    private static let checkInterval: Duration = .seconds(10)

    /// Creates missing streams.
    ///
    /// - Returns: How the stream's limits differ from the configuration.
    private func makeStreams(_ jetStream: JetStream) throws -> String? {
        let found = try jetStream.make(names.history, names.allHistory, publication.stream, isPurged: false)
        _ = try jetStream.make(names.snapshots, names.allSnapshots, publication.stream, isPurged: true)
        return found?.difference(fromAge: publication.stream.maxAge, bytes: publication.stream.maxBytes).map {
            "\(names.history) has other limits than the configuration: \($0). Change them at the server: nats stream edit \(names.history)"
        }
    }

    private func connected(_ session: PublishSession) {
        status.compared()
        if status.connected(session.position, of: session.store, epoch: session.epoch) != nil {
            logger.report(
                .natsResumed, "\"\(publication.store)\" is published to \(names.history) again.",
                metadata: metadata)
        }
    }

    private func warn(_ warning: String?) {
        if status.warns(warning), let warning { logger.warning("\(warning).", metadata: metadata) }
    }

    /// Publishes a snapshot, and groups between its parts. If it fails, groups continue without it.
    private func makeSnapshot(_ session: PublishSession, _ difference: String?) throws {
        do {
            var last = ContinuousClock.now
            try session.makeSnapshot {
                if wakeUp.isStopped { throw SessionOver(description: "the program stops") }
                guard .now - last >= Self.lookInterval else { return }
                // One look each time: parts and groups alternate.
                _ = try look(session)
                last = .now
            }
            warn(difference)
        } catch let error as JetStreamError where !error.isOvertaken {
            session.snapshotFailed()
            warn("No snapshot can be published, and new mirrors wait for one: \(error)")
        } catch let error as SystemError {
            session.snapshotFailed()
            warn("No snapshot can be read, and new mirrors wait for one: \(error)")
        }
    }

    /// Publishes what is new, again if other clients have sent messages: no signal comes for that a second time.
    private func publishBehindOthers(_ session: PublishSession) throws -> Int {
        var inVain = 0
        while true {
            do {
                return try session.publishNew()
            } catch let error as JetStreamError where error.isOvertaken {
                if wakeUp.isStopped { throw SessionOver(description: "the program stops") }
                let found = try session.fenceAgain(after: error)
                note(found)
                // No other client has sent anything in between: a server whose last message expired no longer knows its id.
                inVain = found.isEmpty ? inVain + 1 : 0
                guard inVain < Self.mostInVain else { throw error }
            }
        }
    }

    private static let mostInVain = 3

    /// How often to look at the store while a snapshot is sent.
    private static let lookInterval: Duration = .milliseconds(20)

    /// Publishes new transactions.
    ///
    /// - Returns: Whether there were any.
    private func look(_ session: PublishSession) throws -> Bool {
        let position = session.position
        let bytes = try publishBehindOthers(session)
        guard bytes > 0 || session.position != position else { return false }
        status.moved(session.position, of: session.store, epoch: session.epoch, bytes: bytes)
        acknowledged(session.position.number)
        return true
    }
}
