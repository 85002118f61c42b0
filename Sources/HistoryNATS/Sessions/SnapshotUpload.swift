import HistoryMirrors

/// A snapshot that is being published.
///
/// It outlives the session that started it: the next one sends what the server lacks.
final class SnapshotUpload {
    /// Where its parts are in the stream.
    struct Place {
        /// When the stream was created.
        let created: String
        /// The sequence of the first part.
        let first: UInt64
    }

    let epoch: Int64
    let source: GroupHeader.Source
    let partSize: Int
    /// Nil until reading has started.
    var group: MirrorSource.Group?
    /// Whether the group contains the whole store.
    var isRead = false
    var place: Place?
    private let digest = SHA256()
    private var hexadecimal: String?
    /// The bytes before this offset were dropped, because the server has them.
    private var forgotten = 0

    init(epoch: Int64, source: GroupHeader.Source, partSize: Int) {
        (self.epoch, self.source, self.partSize) = (epoch, source, partSize)
    }

    func part(_ number: Int, of group: MirrorSource.Group) throws -> [UInt8] {
        let start = number * partSize
        let bytes = try group.body.bytes(at: start, atMost: partSize)
        // A part that is sent again is already in the digest.
        if start == digest.count { bytes.withUnsafeBytes { digest.update($0) } }
        return bytes
    }

    /// Whether the parts from a number on can still be read.
    func has(from part: Int) -> Bool { part * partSize >= forgotten }

    /// Drops the parts that the server has acknowledged.
    func forget(parts: Int, of group: MirrorSource.Group) {
        forgotten = max(forgotten, parts * partSize)
        group.body.forget(before: forgotten)
    }

    func header(_ kind: GroupHeader.Kind, of group: MirrorSource.Group) -> GroupHeader {
        var header = GroupHeader(
            kind, store: group.store, epoch: epoch, after: group.after, through: group.through, isLast: false)
        header.source = source
        return header
    }

    /// The SHA-256 of everything, once all parts were read.
    func digestText() throws -> String {
        if let hexadecimal { return hexadecimal }
        let text = try digest.hexadecimal()
        hexadecimal = text
        return text
    }
}

/// The snapshot that a publisher has started and not completed, if any.
final class PendingSnapshot {
    var upload: SnapshotUpload?
}
