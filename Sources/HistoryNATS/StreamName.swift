package import PersistentHistory

/// The streams and subjects of a store's history; the page *NATS* lists them.
package struct StreamName: Hashable, Sendable {
    package let name: String

    package init(_ name: String) { self.name = name }

    /// Groups, in order.
    package var history: String { "HISTORY_\(name)" }
    /// Snapshots, in parts, each followed by its head.
    package var snapshots: String { "HISTORY_\(name)_SNAPSHOT" }

    /// The subject of `begin` messages.
    package var begin: String { "history.\(name)._begin" }
    package var allHistory: String { "history.\(name).>" }

    package var snapshotBegin: String { "history_snapshot.\(name).begin" }
    /// The subject of one snapshot's parts, by which the server can delete those of an incomplete one.
    ///
    /// - Parameter first: The sequence of the first part.
    package func snapshotPart(_ first: UInt64) -> String { "history_snapshot.\(name).part.\(first)" }
    package var allSnapshotParts: String { "history_snapshot.\(name).part.>" }

    /// The sequence of the first part, from the subject of the parts of a snapshot.
    package func firstPart(inSubject subject: String) -> UInt64? {
        let start = "history_snapshot.\(name).part."
        return subject.hasPrefix(start) ? UInt64(subject.dropFirst(start.count)) : nil
    }
    package var snapshotHead: String { "history_snapshot.\(name).head" }
    package var allSnapshots: String { "history_snapshot.\(name).>" }

    /// The subject for groups of these authors; nil stands for an undeclared author.
    package func group(of authors: Set<BinaryText?>) -> String {
        guard authors.count < 2 else { return "history.\(name)._many" }
        // A group of which all changes were left out has no author.
        let author = authors.first ?? nil
        return "history.\(name).\(author.map { Self.escaped($0.text) } ?? "_none")"
    }

    /// Text as one token of a subject, with `=XX` for each byte that is not a letter, a digit, `-` or `_`, and
    /// for a leading `_`.
    package static func escaped(_ text: String) -> String {
        var token: [UInt8] = []
        for (index, byte) in text.utf8.enumerated() {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"):
                token.append(byte)
            case UInt8(ascii: "_") where index > 0: token.append(byte)
            default:
                let digits = Array("0123456789ABCDEF".utf8)
                token += [UInt8(ascii: "="), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: token, as: UTF8.self)
    }
}
