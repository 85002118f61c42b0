package import HistoryConfiguration
import HistoryDaemon
package import Logging
import PersistentHistory

/// A publisher or a follower, on its own thread: it runs one session with a server after the other. Any error
/// ends a session.
package protocol Worker: Sendable {
    var connect: Connect { get }
    var configuration: NATSConfiguration { get }
    var names: StreamName { get }
    var wakeUp: WorkerSignal { get }
    var status: WorkerStatus { get }
    var logger: Logger { get }
}

/// The session ends, and the next one determines how to continue.
package struct SessionOver: Error, CustomStringConvertible {
    package let description: String
}

extension Worker {
    var metadata: Logger.Metadata { ["store": .string(names.name)] }

    /// Runs sessions until the program stops.
    ///
    /// - Parameters:
    ///   - task: The worker's task, as in "Publishing … to …".
    ///   - refusal: The message code of an error that only an operator can resolve.
    ///   - session: Runs one session, and calls its argument once it works.
    ///   - hasFailed: Called after a failed session.
    func repeatSessions(
        _ task: String, refusal: (any Error) -> MessageCode?,
        _ session: (_ jetStream: JetStream, _ succeeded: () -> Void) throws -> Void,
        hasFailed: (any Error) -> Void = { _ in }
    ) {
        var pause = GrowingPause(longest: .seconds(5))
        while !wakeUp.isStopped {
            do {
                try withJetStream { try session($0) { pause.reset() } }
            } catch {
                if wakeUp.isStopped { return }
                let refusal = refusal(error)
                let text: Logger.Message = "\(task) stopped: \(sentence(error))"
                let isNew = status.failed(error, isRefusal: refusal != nil)
                if isNew, let unreported = status.report(error) {
                    let more =
                        unreported > 0 ? " (and \(unreported, "time") more since this was last reported)" : ""
                    logger.report(refusal ?? .natsInterrupted, "\(text)\(more)", metadata: metadata)
                } else {
                    logger.debug(text, metadata: metadata)
                }
                hasFailed(error)
            }
            _ = wakeUp.wait(for: [], until: .now + pause.next())
        }
    }

    /// Says which of the tables that the configuration names are not there: they may come.
    func noteMissing(_ entities: [String], in path: String) {
        guard !entities.isEmpty else { return }
        logger.notice("\"\(path)\" does not have, or not yet: \(entities.quoted).", metadata: metadata)
    }

    func withJetStream(_ session: (JetStream) throws -> Void) throws {
        let connection = try connect(configuration, wakeUp)
        wakeUp.use(connection)
        defer {
            wakeUp.use(nil)
            connection.close()
        }
        try session(JetStream(connection: connection, prefix: configuration.jetStreamPrefix))
    }

    func note(_ foreign: [ForeignNote]) {
        for note in foreign where status.isForeign(note) {
            logger.report(
                .natsMessageForeign,
                "\(note.stream), message \(note.sequence) on \(note.subject): it is not one of historyd-nats, because \(note.reason). It is skipped.",
                metadata: metadata)
        }
    }

    /// Waits until one of the reasons is signaled, or the time is up.
    ///
    /// - Returns: Whether the program stops.
    /// - Throws: `SessionOver` if the connection is lost.
    func isStopped(waitingFor reasons: WorkerSignal.Reasons, until deadline: ContinuousClock.Instant?) throws
        -> Bool
    {
        let reasons = wakeUp.wait(for: reasons.union(.disconnected), until: deadline)
        if reasons.contains(.disconnected) { throw SessionOver(description: "the connection was lost") }
        return reasons.contains(.stop)
    }
}
