package import PersistentHistory

/// The headers of a message.
package struct GroupHeader: Hashable, Sendable {
    package enum Kind: String, Sendable {
        /// A session begins, at the position where the stream continues.
        case begin
        /// Part of a group.
        case group
        /// Part of a snapshot.
        case snapshot
        /// A snapshot is complete.
        case head
    }

    package var kind: Kind
    /// The id of the store.
    package var store: String
    /// Increases when the stream does not continue its earlier content.
    package var epoch: Int64
    package var after: StreamPosition
    package var through: StreamPosition
    /// From 0 on.
    package var part = 0
    package var isLast = true
    package var head: SnapshotHead?

    /// How a snapshot is found and verified.
    package struct SnapshotHead: Hashable, Sendable {
        /// The sequence of its first part.
        package var firstSequence: UInt64
        package var parts: Int
        package var bytes: Int
        /// SHA-256 of the whole body, in hexadecimal digits.
        package var digest: String
        /// When it was made, in milliseconds since 1970.
        package var time: Int64
        /// The first sequences of this snapshot and of those before it that are kept.
        package var kept: [UInt64]

        package init(firstSequence: UInt64, parts: Int, bytes: Int, digest: String, time: Int64, kept: [UInt64])
        {
            self.firstSequence = firstSequence
            self.parts = parts
            self.bytes = bytes
            self.digest = digest
            self.time = time
            self.kept = kept
        }
    }

    package init(
        _ kind: Kind, store: String, epoch: Int64, after: StreamPosition, through: StreamPosition,
        part: Int = 0,
        isLast: Bool = true, head: SnapshotHead? = nil
    ) {
        self.kind = kind
        self.store = store
        self.epoch = epoch
        self.after = after
        self.through = through
        self.part = part
        self.isLast = isLast
        self.head = head
    }

    /// The position of the stream with this message, without an unfinished group.
    package var reached: StreamPosition { kind == .group && !isLast ? after : through }

    // MARK: As headers

    /// The only format version so far.
    private static let format = "1"

    package var fields: [(name: String, value: String)] {
        var fields = [
            ("Historyd-Format", Self.format), ("Historyd-Kind", kind.rawValue), ("Historyd-Store", store),
            ("Historyd-Epoch", String(epoch)), ("Historyd-After", after.text),
            ("Historyd-Through", through.text),
            ("Historyd-Part", String(part)),
        ]
        if isLast { fields.append(("Historyd-Last", "1")) }
        if let head {
            fields += [
                ("Historyd-First", String(head.firstSequence)), ("Historyd-Parts", String(head.parts)),
                ("Historyd-Bytes", String(head.bytes)), ("Historyd-SHA-256", head.digest),
                ("Historyd-Time", String(head.time)),
                ("Historyd-Kept", head.kept.map(String.init).joined(separator: " ")),
            ]
        }
        return fields.map { (name: $0.0, value: $0.1) }
    }

    /// Nil if it is not a message of historyd-nats.
    package init?(_ value: (String) -> String?) {
        guard value("Historyd-Format") == Self.format, let kind = value("Historyd-Kind").flatMap(Kind.init),
            let store = value("Historyd-Store"), StoreID(store) != nil,
            let epoch = value("Historyd-Epoch").flatMap({ Int64($0) }), epoch > 0,
            let after = value("Historyd-After").flatMap({ StreamPosition($0) }),
            let through = value("Historyd-Through").flatMap({ StreamPosition($0) }),
            let part = value("Historyd-Part").flatMap({ Int($0) }), part >= 0, after.number <= through.number
        else { return nil }
        self.init(
            kind, store: store, epoch: epoch, after: after, through: through, part: part,
            isLast: value("Historyd-Last") == "1")
        guard kind == .head else { return }
        guard let first = value("Historyd-First").flatMap({ UInt64($0) }), first > 0,
            let parts = value("Historyd-Parts").flatMap({ Int($0) }), parts > 0,
            let bytes = value("Historyd-Bytes").flatMap({ Int($0) }), bytes > 0,
            let digest = value("Historyd-SHA-256"), digest.utf8.count == 64,
            let time = value("Historyd-Time").flatMap({ Int64($0) })
        else { return nil }
        let kept = (value("Historyd-Kept") ?? "").split(separator: " ").compactMap { UInt64($0) }
        head = SnapshotHead(
            firstSequence: first, parts: parts, bytes: bytes, digest: digest, time: time, kept: kept)
    }

    /// The session in a message's id: `<session>/<number>`.
    package static func session(of messageID: String) -> String {
        messageID.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(messageID[..<$0]) } ?? messageID
    }
}
