import GRDB

/// Who made a transaction, when: what stands in `historyd_change.origin`.
struct Origin: Equatable, Sendable {
    var author: String?
    var context: String?
    var processID: Int32?
    var timestamp: HistoryTimestamp

    static func undeclared(milliseconds: Int64) -> Origin {
        Origin(timestamp: HistoryTimestamp(milliseconds: milliseconds))
    }

    /// Reads `key TAB process TAB milliseconds TAB author [TAB context]`, as the extension writes it.
    ///
    /// What is not written so comes from a binding that declares itself wrongly; its change is
    /// recorded all the same, and belongs to no author.
    static func declared(_ text: String) -> Origin {
        // As bytes: each transaction is read so, and characters take ten times as long to tell apart.
        let fields = text.utf8.split(
            separator: UInt8(ascii: "\t"), maxSplits: 4, omittingEmptySubsequences: false
        )
        .map { Substring($0) }
        guard fields.count >= 4, !fields[0].isEmpty, !fields[3].isEmpty, let time = Int64(fields[2]) else {
            return .undeclared(milliseconds: 0)
        }
        return Origin(
            author: String(fields[3]),
            context: fields.count > 4 && !fields[4].isEmpty ? String(fields[4]) : nil,
            processID: Int32(fields[1]), timestamp: HistoryTimestamp(milliseconds: time))
    }
}

extension Origin {
    /// What stands in the column.
    init(_ value: DatabaseValue) {
        switch value.storage {
        case .string(let text): self = .declared(text)
        case .int64(let milliseconds): self = .undeclared(milliseconds: milliseconds)
        default: self = .undeclared(milliseconds: 0)
        }
    }
}
