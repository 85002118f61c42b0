import HistoryNATS
import HistoryMirrors

/// The parts of a snapshot that a follower has, in a file in the mirror's folder.
///
/// It outlives a session: the next one continues behind the last part that came.
final class SnapshotDownload {
    /// Of the snapshot's beginning or head.
    let header: GroupHeader
    /// The sequence of the first part.
    let first: UInt64
    /// When the stream was made.
    let created: String
    let body: GroupBody
    /// How many parts there are.
    private(set) var count = 0
    /// Nil until the snapshot is complete in the stream.
    private(set) var head: GroupHeader.SnapshotHead?
    private let digest = SHA256()

    init(_ header: GroupHeader, from first: UInt64, created: String, spoolingIn folder: String) {
        self.header = header
        self.first = first
        self.created = created
        body = GroupBody(spoolingIn: folder)
        head = header.head
    }

    var name: String { "the snapshot at \(header.through.number)" }
    /// Whether all parts have come.
    var isComplete: Bool { head.map { count >= $0.parts } ?? false }

    func isOf(_ other: GroupHeader, from first: UInt64, created: String) -> Bool {
        self.first == first && self.created == created && header.store == other.store
            && header.epoch == other.epoch && header.through == other.through
    }

    func append(_ bytes: UnsafeRawBufferPointer) throws {
        try body.append(bytes)
        digest.update(bytes)
        count += 1
    }

    /// The snapshot is complete in the stream.
    ///
    /// - Returns: Whether the head is this snapshot's.
    func complete(_ end: GroupHeader) -> Bool {
        guard let found = end.head, found.firstSequence == first, end.store == header.store,
            end.epoch == header.epoch, end.through == header.through
        else { return false }
        head = found
        return true
    }

    /// Whether all of it is what the head says; to be asked when it is complete.
    private(set) lazy var isRight = head.map { digest.matches($0) } ?? false
}

/// The snapshot that a follower has begun to fetch and not applied, if any.
final class PendingDownload {
    var download: SnapshotDownload?
}
