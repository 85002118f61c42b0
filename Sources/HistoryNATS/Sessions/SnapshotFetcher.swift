import HistoryDaemon
import Logging
import HistoryMirrors
import PersistentHistory

/// Loads the newest snapshot into a mirror: it verifies the snapshot, and replaces the mirror's content in one
/// transaction.
struct SnapshotFetcher {
    let jetStream: JetStream
    let names: StreamName
    /// The mirror's folder.
    let folder: String
    let logger: Logger
    let pending: PendingDownload
    /// Ends a long transaction when the program stops.
    let unlessStopped: (@escaping () throws -> [UInt8]?) -> () throws -> [UInt8]?
    /// Whether a snapshot may be fetched while it is published. After a failed attempt, it waits until one is
    /// complete.
    var isEarly = true
    /// Called while there is no suitable snapshot.
    let waits: (_ reason: String) -> Void

    private typealias Failure = SnapshotParts.Failure

    /// How long to wait for a snapshot before searching again: the request for its head may be lost.
    private static let pause: Duration = .seconds(10)

    /// - Parameters:
    ///   - waiting: Whether to wait for a snapshot if there is no suitable one.
    ///   - isRepair: Whether an older snapshot is suitable as well, because the stream continues after it.
    ///   - reason: Why it is needed.
    mutating func fetch(into mirror: Mirror, waiting: Bool, isRepair: Bool = false, _ reason: String) throws {
        logger.info("The mirror \"\(mirror.path)\" needs a snapshot: \(reason).")
        var consumer: PullConsumer?
        var next: PullConsumer.Delivered?
        var isAtHead = true
        while true {
            var last: UInt64 = 0
            if isAtHead, try applyStored(into: mirror, isRepair, last: &last) { return }
            guard waiting else {
                throw Failure(description: "\(reason), and \(names.snapshots) has no snapshot that helps")
            }
            waits("The mirror waits for a snapshot: \(reason)")
            // The publisher makes a snapshot, which is applied as it arrives.
            let coming =
                try consumer
                ?? PullConsumer(jetStream, of: names.snapshots, from: last + 1, timeout: Self.pause)
            consumer = coming
            guard let message = try next ?? coming.nextInTime() else {
                isAtHead = true
                continue
            }
            next = nil
            isAtHead = message.header?.kind == .head
            guard let header = message.header, header.kind == .begin, isEarly,
                FollowDecision.helps(header, mirror.position, isRepair: isRepair)
            else { continue }
            let parts = try parts(
                header, from: message.sequence + 1, coming, atMost: FreeSpace.half(of: folder))
            do {
                return try apply(parts, to: mirror)
            } catch is SnapshotParts.Interrupted {
                logger.info("The snapshot at \(header.through.number) was not completed.")
                isEarly = parts.next != nil
            } catch let error as MirrorError {
                logger.error("The snapshot at \(header.through.number) cannot be applied: \(error)")
            } catch let error as Failure {
                logger.error("\(error).")
            }
            next = parts.next
        }
    }

    /// Applies the newest suitable snapshot that is complete.
    ///
    /// - Parameter last: Set to the sequence of the last head.
    /// - Returns: Whether there was one.
    private func applyStored(into mirror: Mirror, _ isRepair: Bool, last: inout UInt64) throws -> Bool {
        var failure: (any Error)?
        var tried: Set<UInt64> = []
        for isComplete in [false, true] {
            let heads = try SnapshotHeads(names, jetStream, isComplete: isComplete)
            last = max(last, heads.last)
            for head in heads.heads.reversed()
            where tried.insert(head.sequence).inserted
                && FollowDecision.helps(head.header, mirror.position, isRepair: isRepair)
            {
                do {
                    try apply(head, to: mirror)
                    return true
                } catch let error where error is MirrorError || error is Failure || error is FreeSpace.Lack {
                    logger.error(
                        "The snapshot at \(head.header.through.number) cannot be used: \(sentence(error))")
                    failure = error
                }
            }
            // There is another one only if the last head is foreign.
            if failure == nil { break }
        }
        if let failure { throw failure }
        return false
    }

    private func apply(_ head: SnapshotHeads.Head, to mirror: Mirror) throws {
        let bytes = head.content.bytes
        guard bytes <= FreeSpace.half(of: folder) else {
            throw FreeSpace.Lack(needed: bytes, folder: folder, isOfSnapshot: true)
        }
        try apply(parts(head.header, from: head.content.firstSequence, nil, atMost: bytes), to: mirror)
    }

    /// The parts of a snapshot, after those that an earlier session fetched.
    ///
    /// - Parameter coming: A consumer that delivers the first part next; nil creates a consumer.
    private func parts(
        _ header: GroupHeader, from first: UInt64, _ coming: PullConsumer?, atMost limit: Int
    ) throws -> SnapshotParts {
        let created = try jetStream.state(of: names.snapshots).created
        if let download = pending.download, download.isOf(header, from: first, created: created),
            header.head.map({ _ in download.head != nil || download.complete(header) }) ?? true
        {
            let start = first + UInt64(download.count)
            logger.info(
                "\(download.name.prefix(1).uppercased())\(download.name.dropFirst()) is fetched from part \(download.count) on."
            )
            let consumer = try PullConsumer(jetStream, of: names.snapshots, from: start, timeout: Self.pause)
            return SnapshotParts(download, consumer, atMost: limit)
        }
        let download = SnapshotDownload(header, from: first, created: created, spoolingIn: folder)
        pending.download = download
        let consumer =
            try coming ?? PullConsumer(jetStream, of: names.snapshots, from: first, timeout: Self.pause)
        return SnapshotParts(download, consumer, atMost: limit)
    }

    private func fetchSlowly(_ parts: SnapshotParts) throws {
        waits("The mirror waits for \(parts.download.name), which comes slowly")
        try parts.fetchAll()
    }

    /// Applies parts, while they arrive if they arrive fast enough. The transaction commits only if all of them
    /// are valid.
    private func apply(_ parts: SnapshotParts, to mirror: Mirror) throws {
        let header = parts.download.header
        let position = MirrorPosition(
            store: header.store, epoch: header.epoch, position: header.through, sequence: 0, messageID: "")
        func apply() throws {
            parts.rewind()
            try mirror.apply(unlessStopped(parts.body), isSnapshot: true, to: position)
        }
        do {
            try parts.fetchSome()
            if !parts.isFast { try fetchSlowly(parts) }
            do {
                try apply()
            } catch is SnapshotParts.TooSlow {
                try fetchSlowly(parts)
                try apply()
            }
        } catch let error where !(error is NATSError || error is SessionOver) {
            // The fetched parts are of no further use, except after a lost connection.
            pending.download = nil
            throw error
        }
        pending.download = nil
        logger.report(
            .mirrorFilled,
            "The mirror \"\(mirror.path)\" was filled from a snapshot and shows \(header.store):\(header.through.number).",
            metadata: ["store": .string(names.name)])
    }
}
