import Foundation
import HistoryConfiguration
import Logging
import HistoryMirrors
import PersistentHistory

/// Snapshots of the whole store: when one is due, how it is sent, and what is left of an incomplete one.
extension PublishSession {
    /// Publishes a snapshot, after which the stream continues.
    func jump(_ reason: String, epoch: Int64) throws -> [ForeignNote] {
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

    /// When a snapshot is due by its age, or is retried.
    var nextSnapshot: ContinuousClock.Instant? { nextAttempt ?? timeOfSnapshot }

    private var timeOfSnapshot: ContinuousClock.Instant? {
        guard let time = head?.head?.time else { return nil }
        let age = Date.now.timeIntervalSince1970 - Double(time) / 1000
        // A time in the future says nothing about when the next snapshot is due.
        guard age > -60 else { return .now }
        return .now - .seconds(age) + publication.snapshotInterval
    }

    /// Publishes the whole store.
    ///
    /// - Parameter between: Called between the parts; may publish groups.
    func makeSnapshot(between: () throws -> Void) throws {
        _ = try send(snapshotSender(), between)
        nextAttempt = nil
        snapshotPause.reset()
    }

    /// Postpones a failed snapshot.
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

    /// Creates the sender. It checks the epoch: behind this session's snapshot, a later epoch would go
    /// unnoticed.
    private func snapshotSender() throws -> SnapshotSender {
        let most = try writer.partSize(atMost: SnapshotSender.part, on: names.allSnapshotParts)
        if let upload = pending.upload, try !isUsable(upload, most) { pending.upload = nil }
        let upload = pending.upload ?? SnapshotUpload(epoch: epoch, source: described, partSize: most)
        pending.upload = upload
        // A snapshot that another publisher adds after this check conflicts with the new one.
        let sender: SnapshotSender
        do {
            sender = try SnapshotSender(jetStream, names, upload, window: publication.window)
        } catch is SnapshotSender.Lost {
            pending.upload = nil
            return try snapshotSender()
        }
        try checkEpoch(SnapshotHeads(names, jetStream).newest?.header)
        return sender
    }

    /// Whether an unfinished snapshot still belongs to this store and epoch.
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

    /// Reads the store into the snapshot, on a separate connection, because groups are read at the same time.
    private func read(
        _ upload: SnapshotUpload, _ sender: SnapshotSender, _ between: () throws -> Void
    ) throws -> MirrorSource.Group {
        if upload.isRead, let group = upload.group { return group }
        let reader = try MirrorSource(
            publication.store, spoolingIn: folder, entities: EntityChoice(publication.entities))
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

    /// Removes the parts of snapshots that were never completed. A publisher that still sends one is fenced
    /// off.
    func purgeLeftovers() throws {
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
                // A full server accepts nothing from other publishers either.
                logger.debug("\(names.snapshots): \(error)")
            }
        }
        for subject in leftovers { try jetStream.purge(names.snapshots, subject: subject) }
        logger.info(
            "Parts of snapshots that were not completed were removed from \(names.snapshots): \(leftovers.count)."
        )
    }
}
