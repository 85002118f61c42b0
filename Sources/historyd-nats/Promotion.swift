import ArgumentParser
import Foundation
import HistoryConfiguration
import HistoryDaemon
import HistoryMirrors
import HistoryNATS
import Logging
import PersistentHistory

struct Promote: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "promote",
        abstract: "Make a store of a mirror: the stream goes on from it, and no more from its old source.",
        discussion: """
            The mirror first takes what the stream has. Then it says what may be lost, and does nothing if that is \
            not known to be nothing, unless --accept-loss is given. The page "Mirrors on other machines" has a \
            runbook.
            """)

    @OptionGroup var options: ConfigurationOption

    @Argument(help: "The stream's name, which the configuration follows.")
    var name: String

    @Option(
        help:
            "The old source's file, if it can be read here: the transactions that the mirror lacks are counted."
    )
    var source: String?

    @Flag(help: "Promote the mirror even if transactions may be lost.")
    var acceptLoss = false

    func run() throws {
        try HistoryLoop.carry {
            let (logger, _) = makeLogger()
            let configuration = try options.load(logger)
            guard let following = configuration.follow.first(where: { $0.name == name }) else {
                logger.error("The configuration follows nothing as \"\(name)\".")
                throw ExitCode(ExitStatus.noInput.rawValue)
            }
            let promotion = Promotion(
                configuration: configuration, following: following, source: source, logger: logger)
            guard await onPool({ promotion.run(acceptsLoss: acceptLoss) }) else {
                throw ExitCode(ExitStatus.temporary.rawValue)
            }
        }
    }
}

/// Makes the source of a stream out of a mirror.
struct Promotion: Sendable {
    let configuration: NATSConfiguration
    let following: NATSConfiguration.Following
    /// The old source's file.
    let source: String?
    let logger: Logger

    /// - Returns: Whether the mirror is a store now, with which a new epoch has begun.
    func run(acceptsLoss: Bool) -> Bool {
        do {
            let store = try MirrorSource(following.path, spoolingIn: following.folder)
            let isPromoted = try store.promotion() != nil
            try store.close()
            guard try isPromoted || promote(acceptsLoss: acceptsLoss) else { return false }
            logger.notice(
                "\"\(following.path)\" is a store now. Take it out of \"follow\", name it in \"publish\" and, without \"mirror\", in the daemon's configuration."
            )
        } catch {
            logger.error("\"\(following.path)\" is not promoted: \(sentence(error))")
            return false
        }
        do {
            try begin()
            logger.notice("A new epoch of \(StreamName(following.name).history) begins with it.")
            return true
        } catch {
            logger.error(
                "The new epoch has not begun, and begins when the store is published: \(sentence(error)) Until then, its old source must not publish."
            )
            return false
        }
    }

    /// Begins the epoch. A publisher of the old source that still runs may get in between, until it finds itself
    /// fenced off.
    private func begin() throws {
        for _ in 0..<Self.attempts {
            do {
                return try publisher.runOnce(newEpoch: false)
            } catch let error as JetStreamError where error.isOvertaken {}
        }
        try publisher.runOnce(newEpoch: false)
    }

    private static let attempts = 4

    /// Follows what there is, says what may be lost, and promotes the mirror if that is accepted.
    ///
    /// - Returns: Whether it was promoted.
    private func promote(acceptsLoss: Bool) throws -> Bool {
        var losses: [String] = []
        do {
            try follower.runOnce()
        } catch let error as MirrorLock.Taken {
            throw error
        } catch {
            losses.append("The mirror cannot take what the stream has: \(sentence(error))")
        }
        let lock = try MirrorLock(following.path)
        defer { withExtendedLifetime(lock) {} }
        let mirror = try Mirror(following.path, of: following.name, entities: EntityChoice(following.entities))
        defer { try? mirror.close() }
        guard let position = mirror.position else {
            throw SessionOver(description: "it has received nothing yet")
        }
        let end = streamEnd()
        losses += try Self.losses(of: following.path, end)
        if let source { losses += Self.losses(of: source, behind: position.position.number) }
        for loss in losses { logger.warning("\(loss)") }
        let unknown =
            source == nil
            ? " What its source committed behind that, and had not published, is lost; --source counts it." : ""
        logger.notice("The mirror shows \(position.store):\(position.position.number).\(unknown)")
        guard losses.isEmpty || acceptsLoss else {
            logger.error("Nothing was done. Solve this, or accept it: --accept-loss")
            return false
        }
        try mirror.promote(in: Self.epoch(after: position.epoch, end))
        return true
    }

    private static func losses(of mirror: String, _ end: StreamEnd?) throws -> [String] {
        let store = try MirrorSource(mirror, spoolingIn: NSTemporaryDirectory())
        defer { try? store.close() }
        let isPublishedInPart = [end?.last, end?.head?.header].contains { $0?.source.entities != nil }
        return try isPublishedInPart || store.hasSomeTables() ? ["The mirror has only some of the tables."] : []
    }

    /// What the old source has that the mirror lacks.
    private static func losses(of source: String, behind number: Int64) -> [String] {
        do {
            let backlog = try HistoryReader.backlog(of: source, after: number)
            let count = "\(backlog.isWhole ? "" : "at least ")\(backlog.entries.count, "transaction")"
            return backlog.entries.isEmpty ? [] : ["The source has \(count) that the mirror lacks."]
        } catch {
            return ["The source cannot be read: \(sentence(error))"]
        }
    }

    /// Later than every epoch that is known here.
    private static func epoch(after mine: Int64, _ end: StreamEnd?) -> Int64 {
        let known = [mine, end?.last?.epoch, end?.head?.header.epoch].compactMap(\.self)
        return Epoch.next(after: known.max(), at: HistoryTimestamp.now.milliseconds)
    }

    /// Nil if the server cannot be asked. That the mirror could not follow was said then.
    private func streamEnd() -> StreamEnd? {
        var end: StreamEnd?
        try? follower.withJetStream { end = try StreamEnd(StreamName(following.name), $0) }
        return end
    }

    private var follower: Follower {
        Follower(
            configuration: configuration, following: following, wakeUp: WorkerSignal(),
            status: WorkerStatus(.follow, name: following.name, path: following.path) {}, logger: logger)
    }

    private var publisher: Publisher {
        let folder = ProcessInfo.processInfo.environment["STATE_DIRECTORY"]?.split(separator: ":").first.map(
            String.init)
        return Publisher(
            configuration: configuration,
            publication: NATSConfiguration.Publication(store: following.path, name: following.name),
            folder: folder ?? NSTemporaryDirectory(), memory: MemoryFile(in: folder, of: following.name),
            wakeUp: WorkerSignal(),
            status: WorkerStatus(.publish, name: following.name, path: following.path) {},
            logger: logger
        ) { _ in }
    }
}
