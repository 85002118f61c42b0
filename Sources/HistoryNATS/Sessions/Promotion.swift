import FoundationEssentials
package import HistoryConfiguration
import HistoryDaemon
import HistoryMirrors
package import Logging
import PersistentHistory

/// Makes the source of a stream out of a mirror.
package struct Promotion: Sendable {
    private let connect: Connect
    private let configuration: NATSConfiguration
    private let following: NATSConfiguration.Following
    /// The old source's file.
    private let source: String?
    /// The folder with the publisher's memory.
    private let stateFolder: String?
    private let logger: Logger

    package init(
        connect: @escaping Connect, configuration: NATSConfiguration,
        following: NATSConfiguration.Following, source: String?, stateFolder: String?, logger: Logger
    ) {
        self.connect = connect
        self.configuration = configuration
        self.following = following
        self.source = source
        self.stateFolder = stateFolder
        self.logger = logger
    }

    /// - Returns: Whether the mirror is a store now, with which a new epoch has begun.
    package func run(acceptsLoss: Bool) -> Bool {
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
            // A publisher of the old source may still run.
            try publisher.takeOver(newEpoch: false)
            logger.notice("A new epoch of \(StreamName(following.name).history) begins with it.")
            return true
        } catch {
            logger.error(
                "The new epoch has not begun, and begins when the store is published: \(sentence(error)) Until then, its old source must not publish."
            )
            return false
        }
    }

    private static let attempts = 8

    private func promote(acceptsLoss: Bool) throws -> Bool {
        for _ in 0..<Self.attempts {
            if let isPromoted = try attempt(acceptsLoss: acceptsLoss) { return isPromoted }
        }
        throw SessionOver(description: "its source publishes all the time: stop its publisher")
    }

    /// Follows what there is, says what may be lost, and promotes the mirror if that is accepted.
    ///
    /// - Returns: Whether it was promoted; nil if the source has published more meanwhile.
    private func attempt(acceptsLoss: Bool) throws -> Bool? {
        var losses: [String] = []
        do {
            if try !isFenced() { try follower.runOnce() }
        } catch let error as MirrorLock.Taken {
            throw error
        } catch {
            losses.append("The mirror cannot take what the stream has: \(sentence(error))")
        }
        let lock = try MirrorLock(following.path)
        defer { withExtendedLifetime(lock) {} }
        let mirror = try mirror()
        defer { try? mirror.close() }
        guard let position = mirror.position else {
            throw SessionOver(description: "it has received nothing yet")
        }
        let end = streamEnd()
        losses += try Self.losses(of: following, end)
        if let source {
            losses += Self.losses(of: source, behind: position.position.number)
        } else if end?.hidesSome(from: position) ?? false {
            losses.append(
                "Messages of the stream have expired, and whether the mirror had all of them is not known; --source counts it."
            )
        }
        for loss in losses { logger.warning("\(loss)") }
        let unknown =
            source == nil
            ? " What its source committed behind that, and had not published, is lost; --source counts it." : ""
        logger.notice("The mirror shows \(position.store):\(position.position.number).\(unknown)")
        guard losses.isEmpty || acceptsLoss else {
            logger.error("Nothing was done. Solve this, or accept it: --accept-loss")
            return false
        }
        var epoch: Int64?
        do {
            epoch = try fence(position, isWhole: losses.isEmpty)
        } catch {
            guard acceptsLoss else { throw error }
            logger.warning("The old source is not fenced off yet: \(sentence(error))")
            epoch = Self.epoch(after: position.epoch, end)
        }
        guard let epoch else { return nil }
        try mirror.promote(in: epoch)
        return true
    }

    private func mirror() throws -> Mirror {
        try Mirror(following.path, of: following.name, entities: EntityChoice(following.entities))
    }

    /// Whether an earlier attempt has fenced the old source off.
    private func isFenced() throws -> Bool {
        let mirror = try mirror()
        defer { try? mirror.close() }
        return mirror.position.flatMap { streamEnd()?.fence(at: $0) } != nil
    }

    /// Whether a mirror has everything that was in the stream and its snapshots.
    private func isReached(_ end: StreamEnd, by mirror: MirrorPosition) -> Bool {
        follower.decision(mirror, end) == .goOn && end.last?.reached.number ?? 0 <= mirror.position.number
            && (source != nil || !end.hidesSome(from: mirror))
    }

    /// Begins an epoch in the stream, right behind what the mirror has: the old source publishes nothing there.
    ///
    /// - Parameter isWhole: Whether the mirror must have everything that the stream has.
    /// - Returns: The epoch; nil if the source has published more than the mirror has.
    private func fence(_ mine: MirrorPosition, isWhole: Bool) throws -> Int64? {
        let names = StreamName(following.name)
        var epoch: Int64?
        try follower.withJetStream { jetStream in
            let end = try StreamEnd(names, jetStream)
            epoch = end.fence(at: mine)
            if epoch != nil || isWhole && !isReached(end, by: mine) { return }
            let next = Self.epoch(after: mine.epoch, end)
            var header = GroupHeader(
                .begin, store: mine.store, epoch: next, after: mine.position, through: mine.position)
            header.source.promotion = next
            header.time = HistoryTimestamp.now.milliseconds
            var writer = try StreamWriter(
                jetStream.connection, names.history, after: end.state.last, window: 1)
            do {
                try writer.send(names.begin, header)
                try writer.drain()
                epoch = next
            } catch let error as JetStreamError where error.isOvertaken {}
        }
        return epoch
    }

    private static func losses(of mirror: NATSConfiguration.Following, _ end: StreamEnd?) throws -> [String] {
        let store = try MirrorSource(mirror.path, spoolingIn: mirror.folder)
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
            connect: connect, configuration: configuration, following: following, wakeUp: WorkerSignal(),
            status: WorkerStatus(.follow, name: following.name, path: following.path) {}, logger: logger)
    }

    private var publisher: Publisher {
        Publisher(
            connect: connect, configuration: configuration,
            publication: NATSConfiguration.Publication(store: following.path, name: following.name),
            folder: stateFolder ?? following.folder, memory: MemoryFile(in: stateFolder, of: following.name),
            wakeUp: WorkerSignal(),
            status: WorkerStatus(.publish, name: following.name, path: following.path) {}, logger: logger)
    }
}

extension StreamEnd {
    /// The epoch in which a mirror with this position is to be the source; nil if none has begun.
    fileprivate func fence(at mirror: MirrorPosition) -> Int64? {
        guard let last, last.kind == .begin, last.source.promotion == last.epoch, last.store == mirror.store,
            last.epoch > mirror.epoch, last.through == mirror.position
        else { return nil }
        return last.epoch
    }

    /// Whether messages are gone that a mirror may not have had.
    fileprivate func hidesSome(from mirror: MirrorPosition) -> Bool {
        last == nil && state.last > mirror.sequence
    }
}
