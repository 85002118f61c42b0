package import HistoryMirrors
import PersistentHistory

/// The headers of a message.
package struct GroupHeader: Hashable, Sendable {
    package enum Kind: String, Sendable {
        /// A session starts, at the position where the stream continues.
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
    /// When a group or a beginning was sent, by the publisher's clock, in milliseconds since 1970.
    package var time: Int64?
    /// Within how many milliseconds another message follows; nil if the publisher does not promise that.
    package var beat: Int64?
    package var source = Source()

    /// What a publisher says of its store.
    package struct Source: Hashable, Sendable {
        /// The digest of the list of tables that are published; nil for all.
        package var entities: String?
        /// The epoch in which the store was promoted from a mirror; nil if it never was.
        package var promotion: Int64?

        package init(entities: String? = nil, promotion: Int64? = nil) {
            (self.entities, self.promotion) = (entities, promotion)
        }
    }

    /// How to find and verify a snapshot.
    package struct SnapshotHead: Hashable, Sendable {
        /// The sequence of its first part.
        package var firstSequence: UInt64
        package var parts: Int
        package var bytes: Int
        /// SHA-256 of the whole body, in hexadecimal digits.
        package var digest: String
        /// When it was made, in milliseconds since 1970.
        package var time: Int64
        /// The first sequences of the snapshots that are kept, this one included.
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

    /// Whether it is ahead of the mirror, but in an epoch that the mirror has left.
    package func isOvertaken(by mirror: MirrorPosition) -> Bool {
        epoch < mirror.epoch && reached.number > mirror.position.number
    }

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
        if let time { fields.append(("Historyd-Time", String(time))) }
        if let beat { fields.append(("Historyd-Beat", String(beat))) }
        if let entities = source.entities { fields.append(("Historyd-Entities", entities)) }
        if let promotion = source.promotion { fields.append(("Historyd-Promoted", String(promotion))) }
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

    /// Reads a message's headers. Any client with the permission to publish may have written them.
    ///
    /// - Parameters:
    ///   - now: In milliseconds since 1970.
    ///   - value: Returns a header's value.
    /// - Throws: `ForeignMessage` if it is not a message of historyd-nats.
    package init(
        at now: Int64 = HistoryTimestamp.now.milliseconds, _ value: (String) -> String?
    ) throws(ForeignMessage) {
        guard let format = value("Historyd-Format") else { throw ForeignMessage("it has no Historyd-Format") }
        guard format == Self.format else {
            throw ForeignMessage("its format is \(format.prefix(20)), and this program knows \(Self.format)")
        }
        func number<Number: FixedWidthInteger>(
            _ name: String, in range: ClosedRange<Number>
        ) throws(ForeignMessage)
            -> Number
        {
            guard let number = value(name).flatMap({ Number($0) }), range.contains(number) else {
                throw ForeignMessage("its \(name) is none")
            }
            return number
        }
        guard let kind = value("Historyd-Kind").flatMap(Kind.init) else {
            throw ForeignMessage("its Historyd-Kind is none")
        }
        guard let store = value("Historyd-Store"), StoreID(store) != nil else {
            throw ForeignMessage("its Historyd-Store is none")
        }
        let epoch = try number("Historyd-Epoch", in: Epoch.range(at: now))
        guard let after = value("Historyd-After").flatMap({ StreamPosition($0) }),
            let through = value("Historyd-Through").flatMap({ StreamPosition($0) }),
            after.number <= through.number
        else { throw ForeignMessage("its Historyd-After and Historyd-Through are no ends of a group") }
        self.init(
            kind, store: store, epoch: epoch, after: after, through: through,
            part: try number("Historyd-Part", in: 0...Limits.parts), isLast: value("Historyd-Last") == "1")
        source = Source(
            entities: value("Historyd-Entities").flatMap { (1...64).contains($0.utf8.count) ? $0 : nil },
            promotion: value("Historyd-Promoted").flatMap { Int64($0) })
        guard kind == .head else {
            // Earlier versions of the publisher send neither.
            time = value("Historyd-Time").flatMap { Int64($0) }.flatMap {
                HistoryTimestamp.range.contains($0) ? $0 : nil
            }
            beat = value("Historyd-Beat").flatMap { Int64($0) }.flatMap { Limits.beat.contains($0) ? $0 : nil }
            return
        }
        guard let digest = value("Historyd-SHA-256"), digest.utf8.count == 64 else {
            throw ForeignMessage("its Historyd-SHA-256 is none")
        }
        let kept = (value("Historyd-Kept") ?? "").prefix(Limits.kept * 20).split(separator: " ")
        head = SnapshotHead(
            firstSequence: try number("Historyd-First", in: 1...(1 << 62)),
            parts: try number("Historyd-Parts", in: 1...Limits.parts),
            bytes: try number("Historyd-Bytes", in: 1...Limits.bytes), digest: digest,
            time: try number("Historyd-Time", in: 0...HistoryTimestamp.range.upperBound),
            kept: kept.prefix(Limits.kept).compactMap { UInt64($0) })
    }

    package static func read(_ value: (String) -> String?) -> Result<GroupHeader, ForeignMessage> {
        do {
            return .success(try GroupHeader(value))
        } catch {
            return .failure(error)
        }
    }

    /// More than a publisher ever needs.
    private enum Limits {
        static let parts = 1 << 30
        static let bytes = 1 << 46
        static let kept = 100
        static let beat: ClosedRange<Int64> = 1...86_400_000
    }

    /// Whether a message may follow another one in the stream. A session's first message may follow any; each
    /// further one is chained to the message before it, even a `begin` after a snapshot.
    ///
    /// - Parameters:
    ///   - id: The message's id.
    ///   - before: The id of the message before it; nil if that is no longer in the stream.
    package func fits(_ id: String, behind before: String?) -> Bool {
        guard let number = Self.number(of: id) else { return false }
        if kind == .begin, number == 0 { return true }
        guard let before else { return number > 0 }
        return Self.number(of: before) == number - 1 && Self.session(of: before) == Self.session(of: id)
    }

    private static func number(of messageID: String) -> Int? {
        messageID.utf8.lastIndex(of: UInt8(ascii: "/")).flatMap {
            Int(messageID[messageID.index(after: $0)...])
        }
        .flatMap { (0...Limits.parts).contains($0) ? $0 : nil }
    }

    /// The session in a message's id: `<session>/<number>`.
    package static func session(of messageID: String) -> String {
        messageID.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(messageID[..<$0]) } ?? messageID
    }
}

/// Why a message of the stream is not one of historyd-nats.
package struct ForeignMessage: Error, Hashable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }

    package static let unchained = ForeignMessage("it does not continue the message before it")
    package static let withoutParts = ForeignMessage("it does not follow the parts that it names")
}

extension SHA256 {
    /// Whether count and digest match a snapshot's head. Call it once, instead of `hexadecimal`.
    package func matches(_ head: GroupHeader.SnapshotHead) -> Bool {
        count == head.bytes && (try? hexadecimal()) == head.digest
    }
}
