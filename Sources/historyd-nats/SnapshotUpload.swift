import HistoryNATS
import HistoryMirrors

/// A snapshot that is on its way into the stream.
///
/// It outlives the session that began it: the next one sends what the server has not.
final class SnapshotUpload {
    /// Where its parts are.
    struct Place {
        /// When the stream was made.
        let created: String
        /// The sequence of the first part.
        let first: UInt64
    }

    let epoch: Int64
    let partSize: Int
    /// Nil until its reading has begun.
    var group: MirrorSource.Group?
    /// Whether all of the store is in the group.
    var isRead = false
    var place: Place?
    private let digest = SHA256()
    private var hexadecimal: String?
    /// The bytes before it were given up, because the server has them.
    private var forgotten = 0

    init(epoch: Int64, partSize: Int) { (self.epoch, self.partSize) = (epoch, partSize) }

    func part(_ number: Int, of group: MirrorSource.Group) throws -> [UInt8] {
        let start = number * partSize
        let bytes = try group.body.bytes(at: start, atMost: partSize)
        // A part that is sent again is in it already.
        if start == digest.count { bytes.withUnsafeBytes { digest.update($0) } }
        return bytes
    }

    /// Whether the parts from a number on can still be read.
    func has(from part: Int) -> Bool { part * partSize >= forgotten }

    /// The server has acknowledged so many parts.
    func forget(parts: Int, of group: MirrorSource.Group) {
        forgotten = max(forgotten, parts * partSize)
        group.body.forget(before: forgotten)
    }

    func header(_ kind: GroupHeader.Kind, of group: MirrorSource.Group) -> GroupHeader {
        GroupHeader(
            kind, store: group.store, epoch: epoch, after: group.after, through: group.through, isLast: false)
    }

    /// The SHA-256 of all of it, once all parts were read.
    func digestText() throws -> String {
        if let hexadecimal { return hexadecimal }
        let text = try digest.hexadecimal()
        hexadecimal = text
        return text
    }
}

/// The snapshot that a publisher has begun and not completed, if any.
final class PendingSnapshot {
    var upload: SnapshotUpload?
}
