import Foundation
import HistoryNATS
import PersistentHistory

/// Publishes a snapshot, and begins with it while the store is still read.
///
/// The read transaction holds up a checkpoint, or the writers of a rollback journal, and must not last as long as a slow
/// network takes. So while it lasts, no acknowledgement is waited for, and no more time goes into sending than into
/// reading. What is read faster goes into the spool folder.
final class SnapshotSender {
    private static let part = 512 << 10
    /// How many parts are under way while the store is read.
    private static let partsAhead = 4

    private let jetStream: JetStream
    private let names: StreamName
    private let epoch: Int64
    private let partSize: Int
    /// The stream before the snapshot.
    private let state: JetStream.StreamState
    private var writer: StreamWriter
    private let digest = SnapshotDigest()
    /// The sequence of the first part; nil until the beginning was sent.
    private var first: UInt64?
    private var parts = 0
    private var sent = 0
    private let start = ContinuousClock.now
    /// In which parts were sent while the store was read.
    private var timeOfSending: Duration = .zero

    init(_ jetStream: JetStream, _ names: StreamName, epoch: Int64, window: Int) throws {
        self.jetStream = jetStream
        self.names = names
        self.epoch = epoch
        state = try jetStream.state(of: names.snapshots)
        writer = try StreamWriter(jetStream.connection, names.snapshots, after: state.last, window: window)
        partSize = try writer.partSize(atMost: Self.part, on: names.snapshotPart)
    }

    /// Sends parts that are there, as far as that does not make the reading last much longer.
    func sendWhatFits(of group: MirrorSource.Group) throws {
        _ = try begin(group)
        var now = ContinuousClock.now
        while group.body.count - sent >= partSize, timeOfSending * 2 <= now - start,
            try writer.hasFewer(than: Self.partsAhead)
        {
            let before = now
            try sendPart(of: group)
            now = .now
            timeOfSending += now - before
        }
    }

    /// Sends the rest, and the head, and removes snapshots that are no longer kept.
    ///
    /// - Parameters:
    ///   - earlier: The first sequences of the snapshots before.
    ///   - count: How many are kept.
    /// - Returns: The head, when the server has everything.
    func finish(_ group: MirrorSource.Group, earlier: [UInt64], keeping count: Int) throws -> GroupHeader {
        let first = try begin(group)
        while sent < group.body.count { try sendPart(of: group) }
        guard let digest = digest.hexadecimal() else {
            throw NATSError(call: "publish a snapshot", reason: "OpenSSL does not calculate its SHA-256")
        }
        var head = header(.head, of: group)
        head.isLast = true
        let kept = Array((earlier.filter { $0 >= state.first && $0 < first } + [first]).suffix(count))
        head.head = GroupHeader.SnapshotHead(
            firstSequence: first, parts: parts, bytes: sent, digest: digest,
            time: Int64(Date.now.timeIntervalSince1970 * 1000), kept: kept)
        try writer.send(names.snapshotHead, head)
        try writer.drain()
        // Only now, because a follower must always find a complete snapshot.
        if let oldest = kept.first { try jetStream.purge(names.snapshots, before: oldest) }
        return head
    }

    /// - Returns: The sequence of the first part.
    private func begin(_ group: MirrorSource.Group) throws -> UInt64 {
        if let first { return first }
        // So that two publishers cannot mix their parts.
        try writer.send(names.snapshotBegin, header(.begin, of: group))
        let first = writer.lastSequence + 1
        self.first = first
        return first
    }

    private func sendPart(of group: MirrorSource.Group) throws {
        let bytes = try group.body.bytes(at: sent, atMost: partSize)
        bytes.withUnsafeBytes { digest.update($0) }
        var header = header(.snapshot, of: group)
        header.part = parts
        try writer.send(names.snapshotPart, header, bytes)
        parts += 1
        sent += bytes.count
        group.body.forget(before: sent)
    }

    private func header(_ kind: GroupHeader.Kind, of group: MirrorSource.Group) -> GroupHeader {
        GroupHeader(
            kind, store: group.store, epoch: epoch, after: group.after, through: group.through, isLast: false)
    }
}
