import Foundation
import HistoryMirrors

/// Publishes a snapshot, starting while the store is still being read.
///
/// The read transaction delays checkpoints, or the writers of a rollback journal, so it must not last as long
/// as a slow network takes. While it lasts, the sender waits for no acknowledgement, and spends no more time on
/// sending than on reading. What is read faster than sent goes to the spool folder.
final class SnapshotSender {
    /// A link of 16 kB/s carries one in four seconds. An interruption therefore costs little, and the next
    /// message arrives soon.
    static let part = 64 << 10

    /// The server has lost parts that were dropped here: the store must be read again.
    struct Lost: Error {}

    private let jetStream: JetStream
    private let names: StreamName
    private let upload: SnapshotUpload
    /// The stream before this session's first message of the snapshot.
    private let state: StreamState
    private var writer: StreamWriter
    /// The number of the next part.
    private var next = 0
    private let start = ContinuousClock.now
    /// The time spent on sending while the store was read.
    private var timeOfSending: Duration = .zero
    /// The error that stopped the sending while the store was read.
    private var failure: (any Error)?

    /// - Parameter upload: A new upload, or one that an earlier session did not complete.
    init(_ jetStream: JetStream, _ names: StreamName, _ upload: SnapshotUpload, window: Int) throws {
        self.jetStream = jetStream
        self.names = names
        self.upload = upload
        state = try jetStream.state(of: names.snapshots)
        writer = try StreamWriter(jetStream.connection, names.snapshots, after: state.last, window: window)
        try resume()
    }

    /// Determines how many parts the server has. A snapshot that it has lost starts over.
    private func resume() throws {
        guard let group = upload.group, let place = upload.place else { return }
        let last = state.last > 0 ? try jetStream.message(state.last, of: names.snapshots)?.header : nil
        guard place.created == state.created,
            let there = SnapshotResumption.partsThere(
                of: upload.header(.snapshot, of: group), from: place.first, last: last, at: state.last),
            upload.has(from: there)
        else {
            guard upload.has(from: 0) else { throw Lost() }
            upload.place = nil
            return
        }
        next = there
    }

    /// Sends available parts as long as that does not prolong the reading much. If sending fails, reading
    /// continues, because the next session needs everything.
    func sendWhatFits(of group: MirrorSource.Group) {
        guard failure == nil else { return }
        do {
            let first = try begin(group)
            var now = ContinuousClock.now
            while group.body.count >= (next + 1) * upload.partSize, timeOfSending * 2 <= now - start,
                try writer.isReady(for: upload.partSize)
            {
                let before = now
                try sendPart(of: group, first)
                now = .now
                timeOfSending += now - before
            }
        } catch {
            failure = error
        }
    }

    /// Sends the rest, and the head, and removes snapshots that are no longer kept.
    ///
    /// - Parameters:
    ///   - earlier: The first sequences of earlier snapshots.
    ///   - count: How many snapshots are kept.
    ///   - between: Called between the parts.
    /// - Returns: The head, when the server has everything.
    func finish(
        _ group: MirrorSource.Group, earlier: [UInt64], keeping count: Int, between: () throws -> Void
    ) throws -> GroupHeader {
        if let failure { throw failure }
        let first = try begin(group)
        while next * upload.partSize < group.body.count {
            try sendPart(of: group, first)
            try between()
        }
        while writer.lastAcknowledged < writer.lastSequence {
            try writer.awaitOne()
            try between()
        }
        var head = upload.header(.head, of: group)
        head.isLast = true
        let kept = Array((earlier.filter { $0 >= state.first && $0 < first } + [first]).suffix(count))
        head.head = GroupHeader.SnapshotHead(
            firstSequence: first, parts: next, bytes: group.body.count, digest: try upload.digestText(),
            time: Int64(Date.now.timeIntervalSince1970 * 1000), kept: kept)
        try writer.send(names.snapshotHead, head)
        try writer.drain()
        // Only now, because a follower must always find a complete snapshot.
        if let oldest = kept.first { try jetStream.purge(names.snapshots, before: oldest) }
        return head
    }

    /// - Returns: The sequence of the first part.
    private func begin(_ group: MirrorSource.Group) throws -> UInt64 {
        if let place = upload.place { return place.first }
        // A `begin` message keeps two publishers from mixing their parts.
        try writer.send(names.snapshotBegin, upload.header(.begin, of: group))
        let first = writer.lastSequence + 1
        upload.place = SnapshotUpload.Place(created: state.created, first: first)
        next = 0
        return first
    }

    private func sendPart(of group: MirrorSource.Group, _ first: UInt64) throws {
        var header = upload.header(.snapshot, of: group)
        header.part = next
        try writer.send(names.snapshotPart(first), header, try upload.part(next, of: group))
        next += 1
        upload.forget(
            parts: Int(clamping: max(0, Int64(writer.lastAcknowledged) - Int64(first) + 1)), of: group)
    }
}
