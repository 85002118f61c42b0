/// How far a stream of history, or a mirror, shows a store: a position, with proofs that two processes that name it mean
/// the same.
package struct StreamPosition: Hashable, Sendable {
    /// The number of the last change.
    package var number: Int64
    /// A digest of that change's origin; nil where the change was deleted, or there is none.
    package var fingerprint: String?
    /// The digest of the schema: see `MirrorSchema.digest`.
    package var schema: String

    package init(number: Int64, fingerprint: String?, schema: String) {
        self.number = number
        self.fingerprint = fingerprint
        self.schema = schema
    }

    /// As it stands in a message's header and in a mirror: `42 1f8e… 90ab…`, with `-` for what is not known.
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

    /// Whether both name one number and cannot be the same position.
    package func contradicts(_ other: StreamPosition) -> Bool {
        guard number == other.number, let fingerprint, let theirs = other.fingerprint else { return false }
        return fingerprint != theirs
    }

    /// The digest of a history's own fingerprint: an author's name need not be in each message.
    struct Digest {
        private var last: (fingerprint: String, digest: String)?

        /// What is asked for is mostly what was calculated last, because a position that was reached is where the next
        /// look begins.
        mutating func of(_ fingerprint: String?) -> String? {
            guard let fingerprint else { return nil }
            if let last, last.fingerprint == fingerprint { return last.digest }
            let digest = String(SHA256.of(fingerprint.utf8).prefix(16))
            last = (fingerprint, digest)
            return digest
        }
    }
}
