import HistoryMirrors

/// The received parts of a snapshot, in a file in the mirror's folder.
///
/// It outlives a session: the next one continues after the last received part.
final class SnapshotDownload {
    /// The header of the snapshot's `begin` or `head` message.
    let header: GroupHeader
    /// The sequence of the first part.
    let first: UInt64
    /// When the stream was created.
    let created: String
    let body: GroupBody
    /// How many parts were received.
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
    /// Whether all parts were received.
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

    /// Notes that the snapshot is complete in the stream.
    ///
    /// - Returns: Whether the head belongs to this snapshot.
    func complete(_ end: GroupHeader) -> Bool {
        guard let found = end.head, found.firstSequence == first, end.store == header.store,
            end.epoch == header.epoch, end.through == header.through
        else { return false }
        head = found
        return true
    }

    /// Whether everything matches the head. Read it only once all parts were received.
    private(set) lazy var isRight = head.map { digest.matches($0) } ?? false
}

/// The snapshot that a follower has started to fetch and has not applied, if any.
final class PendingDownload {
    var download: SnapshotDownload?
}
