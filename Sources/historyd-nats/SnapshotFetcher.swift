import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// Loads the newest snapshot into a mirror: verifies it, and replaces the mirror's content in one transaction.
struct SnapshotFetcher {
    let jetStream: JetStream
    let names: StreamName
    let logger: Logger

    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// - Parameters:
    ///   - waits: Whether to wait for a snapshot if there is no suitable one.
    ///   - isRepair: Whether an older snapshot is suitable as well, because the stream continues after it.
    ///   - reason: Why it is needed.
    func fetch(into mirror: Mirror, waits: Bool, isRepair: Bool = false, _ reason: String) throws {
        logger.info("The mirror \"\(mirror.path)\" needs a snapshot: \(reason).")
        var found = try newest()
        var consumer: PullConsumer?
        while true {
            if let header = found?.header, Self.helps(header, mirror.position, isRepair: isRepair) {
                return try apply(header, to: mirror)
            }
            guard waits else {
                throw Failure(description: "\(names.snapshots) has no snapshot that is newer than the mirror")
            }
            // The publisher makes one.
            if consumer == nil {
                consumer = try PullConsumer(
                    jetStream, of: names.snapshots, from: (found?.sequence ?? 0) + 1,
                    subject: names.snapshotHead, timeout: Self.pause)
            }
            if let message = try consumer?.nextInTime() {
                found = (sequence: message.sequence, header: message.header)
            } else {
                found = try newest()
            }
        }
    }

    /// How long a snapshot is waited for before it is looked for again: a request for its head may be lost.
    private static let pause: Duration = .seconds(10)

    /// The head of the newest snapshot.
    private func newest() throws -> (sequence: UInt64, header: GroupHeader?)? {
        try jetStream.last(names.snapshotHead, of: names.snapshots).map { ($0.sequence, $0.header) }
    }

    private static func helps(_ head: GroupHeader, _ mirror: MirrorPosition?, isRepair: Bool) -> Bool {
        guard head.head != nil else { return false }
        guard let mirror else { return true }
        if head.epoch != mirror.epoch { return head.epoch > mirror.epoch }
        return isRepair || head.through.number > mirror.position.number
            || head.through.contradicts(mirror.position)
    }

    private func apply(_ header: GroupHeader, to mirror: Mirror) throws {
        guard let head = header.head else { return }
        let digest = SnapshotDigest()
        var consumer = try PullConsumer(jetStream, of: names.snapshots, from: head.firstSequence)
        var (parts, bytes) = (0, 0)
        // Applied as they come; the transaction ends only if all of them are right.
        try mirror.apply(
            {
                guard parts < head.parts else {
                    guard bytes == head.bytes, digest.hexadecimal() == head.digest else {
                        throw Failure(
                            description:
                                "the snapshot at \(header.through.number) is damaged: its digest is another one"
                        )
                    }
                    return nil
                }
                let message = try consumer.next()
                let body = message.withBody { Array($0) }
                guard let found = message.header, found.kind == .snapshot, found.part == parts,
                    message.sequence == head.firstSequence + UInt64(parts), bytes + body.count <= head.bytes
                else {
                    throw Failure(description: "the snapshot at \(header.through.number) is not whole any more")
                }
                body.withUnsafeBytes { digest.update($0) }
                parts += 1
                bytes += body.count
                return body
            }, isSnapshot: true,
            to: MirrorPosition(
                store: header.store, epoch: header.epoch, position: header.through, sequence: 0, messageID: ""))
        logger.report(
            .mirrorFilled,
            "The mirror \"\(mirror.path)\" was filled from a snapshot and shows \(header.store):\(header.through.number).",
            metadata: ["store": .string(names.name)])
    }
}
