import PersistentHistory
import GRDB

/// How far a stream of history, or a mirror, shows a store: a position, with proof that two processes mean the
/// same one.
package struct StreamPosition: Hashable, Sendable {
    /// The number of the last change.
    package var number: Int64
    /// A digest of that change's origin; nil if the change was deleted, or there is none.
    package var fingerprint: String?
    /// The digest of the schema; see `MirrorSchema.digest`.
    package var schema: String

    package init(number: Int64, fingerprint: String?, schema: String) {
        self.number = number
        self.fingerprint = fingerprint
        self.schema = schema
    }

    /// The text in a message's header and in a mirror: `42 1f8e… 90ab…`, with `-` for what is not known.
    package var text: String { "\(number) \(fingerprint ?? "-") \(schema)" }

    package init?(_ text: String) {
        let parts = text.utf8.split(
            separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: false
        ).map { String(Substring($0)) }
        guard parts.count == 3, let number = Int64(parts[0]), HistoryPosition.range.contains(number),
            parts.dropFirst().allSatisfy({ (1...64).contains($0.utf8.count) }),
            !parts[2].utf8.contains(UInt8(ascii: " "))
        else { return nil }
        self.init(
            number: number, fingerprint: parts[1] == "-" ? nil : parts[1], schema: parts[2])
    }

    /// Whether both have the same number but cannot be the same position.
    package func contradicts(_ other: StreamPosition) -> Bool {
        guard number == other.number, let fingerprint, let theirs = other.fingerprint else { return false }
        return fingerprint != theirs
    }

    /// Calculates the digest of a history's fingerprint, so that messages need not contain an author's name.
    struct Digest {
        private var last: (fingerprint: String, digest: String)?

        /// Mostly the same as the last one calculated, because a read starts at the position that the last one
        /// reached.
        mutating func of(_ fingerprint: String?) throws -> String? {
            guard let fingerprint else { return nil }
            if let last, last.fingerprint == fingerprint { return last.digest }
            let digest = String(try SHA256.of(Array(fingerprint.utf8)).prefix(16))
            last = (fingerprint, digest)
            return digest
        }
    }
}

/// A mirror's position: what it shows, and where in the stream that was found.
package struct MirrorPosition: Hashable, Sendable {
    /// The id of the mirrored store.
    package var store: String
    package var epoch: Int64
    package var position: StreamPosition
    /// The sequence of the last applied message; 0 after a snapshot.
    package var sequence: UInt64
    /// Its `Nats-Msg-Id`.
    package var messageID: String

    package init(store: String, epoch: Int64, position: StreamPosition, sequence: UInt64, messageID: String) {
        self.store = store
        self.epoch = epoch
        self.position = position
        self.sequence = sequence
        self.messageID = messageID
    }

    /// Nil if the mirror never received anything.
    init?(_ db: Database) throws {
        let row = try Row.fetchOne(
            try db.cachedStatement(
                sql: "SELECT store, epoch, position, sequence, message FROM historyd_mirror WHERE id = 1"))
        guard let row else { return nil }
        guard let position = StreamPosition(try row.text("position", atMost: 256)) else {
            throw UnexpectedValue("\"position\" is not what a mirror writes there")
        }
        self.init(
            store: try row.text("store", atMost: 64), epoch: try row.integer("epoch", in: 0 ... .max),
            position: position, sequence: UInt64(try row.integer("sequence", in: 0 ... .max)),
            messageID: try row.text("message", atMost: 256))
    }

    func write(name: String, _ db: Database) throws {
        try db.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO historyd_mirror (id, name, store, epoch, position, sequence, message)
                VALUES (1, ?, ?, ?, ?, ?, ?)
                """
        ).write(
            db,
            [
                .text(name), .text(store), .integer(epoch), .text(position.text),
                .integer(Int64(clamping: sequence)), .text(messageID),
            ])
    }
}
