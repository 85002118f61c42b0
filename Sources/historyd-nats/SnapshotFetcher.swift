import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// Loads the newest snapshot into a mirror: verifies it, and replaces the mirror's content in one transaction.
struct SnapshotFetcher {
    let jetStream: JetStream
    let names: StreamName
    let logger: Logger

    private typealias Failure = SnapshotParts.Failure

    /// - Parameters:
    ///   - waits: Whether to wait for a snapshot if there is no suitable one.
    ///   - isRepair: Whether an older snapshot is suitable as well, because the stream continues after it.
    ///   - reason: Why it is needed.
    func fetch(into mirror: Mirror, waits: Bool, isRepair: Bool = false, _ reason: String) throws {
        logger.info("The mirror \"\(mirror.path)\" needs a snapshot: \(reason).")
        var found = try newest()
        var consumer: PullConsumer?
        var next: PullConsumer.Delivered?
        while true {
            if let header = found?.header, let head = header.head,
                Self.helps(header, mirror.position, isRepair: isRepair)
            {
                let parts = try PullConsumer(jetStream, of: names.snapshots, from: head.firstSequence)
                return try apply(SnapshotParts(header, from: head.firstSequence, parts), to: mirror)
            }
            guard waits else {
                throw Failure(description: "\(names.snapshots) has no snapshot that is newer than the mirror")
            }
            // The publisher makes one, which is applied as it comes.
            let coming =
                try consumer
                ?? PullConsumer(
                    jetStream, of: names.snapshots, from: (found?.sequence ?? 0) + 1, timeout: Self.pause)
            consumer = coming
            guard let message = try next ?? coming.nextInTime() else {
                found = try newest()
                continue
            }
            next = nil
            guard let header = message.header, Self.helps(header, mirror.position, isRepair: isRepair) else {
                continue
            }
            if header.kind == .head { found = (message.sequence, header) }
            guard header.kind == .begin else { continue }
            let parts = SnapshotParts(header, from: message.sequence + 1, coming)
            do {
                return try apply(parts, to: mirror)
            } catch is SnapshotParts.Interrupted {
                logger.info("The snapshot at \(header.through.number) was not completed.")
                next = parts.next
            }
        }
    }

    /// How long a snapshot is waited for before it is looked for again: a request for its head may be lost.
    private static let pause: Duration = .seconds(10)

    /// The head of the newest snapshot.
    private func newest() throws -> (sequence: UInt64, header: GroupHeader?)? {
        try jetStream.last(names.snapshotHead, of: names.snapshots).map { ($0.sequence, $0.header) }
    }

    private static func helps(_ snapshot: GroupHeader, _ mirror: MirrorPosition?, isRepair: Bool) -> Bool {
        guard let mirror else { return true }
        if snapshot.epoch != mirror.epoch { return snapshot.epoch > mirror.epoch }
        return isRepair || snapshot.through.number > mirror.position.number
            || snapshot.through.contradicts(mirror.position)
    }

    /// Applies parts as they come; the transaction ends only if all of them are right.
    private func apply(_ parts: SnapshotParts, to mirror: Mirror) throws {
        let header = parts.header
        try mirror.apply(
            parts.body, isSnapshot: true,
            to: MirrorPosition(
                store: header.store, epoch: header.epoch, position: header.through, sequence: 0, messageID: ""))
        logger.report(
            .mirrorFilled,
            "The mirror \"\(mirror.path)\" was filled from a snapshot and shows \(header.store):\(header.through.number).",
            metadata: ["store": .string(names.name)])
    }
}
