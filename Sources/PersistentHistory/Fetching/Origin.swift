import GRDB
import Glibc

/// The author, process and time of a transaction: the value of `historyd_change.origin`.
struct Origin: Equatable, Sendable {
    var author: String?
    var context: String?
    var processID: Int32?
    var timestamp: HistoryTimestamp

    /// In bytes. Author and context have 255 at most.
    static let longest = 1024

    static func undeclared(milliseconds: Int64) -> Origin {
        Origin(timestamp: HistoryTimestamp(milliseconds: milliseconds))
    }

    /// Reads `key TAB process TAB milliseconds TAB author [TAB context]`, as the extension writes it.
    ///
    /// What is not written so comes from a binding that declares itself wrongly; its change is
    /// recorded all the same, and belongs to no author.
    static func declared(_ text: UnsafeBufferPointer<UInt8>) -> Origin {
        guard text.count <= longest else { return .undeclared(milliseconds: 0) }
        // As bytes: each transaction is read so, and characters take ten times as long to tell apart.
        var rest = text[...]
        func field() -> Slice<UnsafeBufferPointer<UInt8>>? {
            guard let start = rest.base.baseAddress,
                let found = memchr(start + rest.startIndex, 0x09, rest.count)
            else { return nil }
            let tab = UnsafeRawPointer(found) - UnsafeRawPointer(start)
            defer { rest = rest[(tab + 1)...] }
            return rest[..<tab]
        }
        guard let key = field(), !key.isEmpty, let process = field(), let time = field().flatMap(decimal) else {
            return .undeclared(milliseconds: 0)
        }
        let author = field()
        let name = author ?? rest
        guard !name.isEmpty else { return .undeclared(milliseconds: 0) }
        return Origin(
            author: String(decoding: name, as: UTF8.self),
            context: author == nil || rest.isEmpty ? nil : String(decoding: rest, as: UTF8.self),
            processID: decimal(process).flatMap { Int32(exactly: $0) },
            timestamp: HistoryTimestamp(milliseconds: time))
    }

    static func declared(_ text: String) -> Origin {
        var text = text
        return text.withUTF8 { declared($0) }
    }

    private static func decimal(_ digits: Slice<UnsafeBufferPointer<UInt8>>) -> Int64? {
        // Larger numbers would not fit, and no process has them.
        guard !digits.isEmpty, digits.count < 19 else { return nil }
        var value: Int64 = 0
        for digit in digits {
            guard digit >= UInt8(ascii: "0"), digit <= UInt8(ascii: "9") else { return nil }
            value = value * 10 + Int64(digit - UInt8(ascii: "0"))
        }
        return value
    }
}

extension Origin {
    /// The value of the column.
    init(_ value: DatabaseValue) {
        switch value.storage {
        case .string(let text): self = .declared(text)
        case .int64(let milliseconds): self = .undeclared(milliseconds: milliseconds)
        default: self = .undeclared(milliseconds: 0)
        }
    }
}
