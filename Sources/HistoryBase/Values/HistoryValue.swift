/// A value with SQLite's own types (https://www.sqlite.org/datatype3.html).
public enum HistoryValue: Sendable {
    /// NULL.
    case null
    /// A signed integer.
    case integer(Int64)
    /// A floating-point number.
    case real(Double)
    /// Text, whatever the store's encoding.
    case text(String)
    /// Text whose bytes are not valid UTF-8, such as a file name in Latin-1. SQLite stores any bytes as text.
    case invalidText([UInt8])
    /// Bytes.
    case blob([UInt8])

    /// Text of exactly these bytes.
    @inlinable package init(textOf bytes: some Collection<UInt8>) {
        self = String(validating: bytes, as: UTF8.self).map { .text($0) } ?? .invalidText(Array(bytes))
    }

    /// The same value for all values that SQLite treats as the same key: -0.0 and 0.0 are equal.
    @inlinable package var asKey: HistoryValue {
        if case .real(let real) = self, real == 0 { .real(0) } else { self }
    }
}

extension HistoryValue: Hashable {
    /// Whether two values have the same type and are equal. Texts are compared by bytes.
    public static func == (a: Self, b: Self) -> Bool {
        switch (a, b) {
        case (.null, .null): true
        case (.integer(let a), .integer(let b)): a == b
        case (.real(let a), .real(let b)): a == b
        case (.text(let a), .text(let b)): a.hasSameBytes(as: b)
        case (.invalidText(let a), .invalidText(let b)): a == b
        case (.blob(let a), .blob(let b)): a == b
        default: false
        }
    }

    /// Hashes the value, and the bytes of a text.
    public func hash(into hasher: inout Hasher) {
        switch self {
        case .null: hasher.combine(0)
        case .integer(let integer): hasher.combine(integer)
        case .real(let real): hasher.combine(real)
        case .text(let text): hasher.combine(bytesOf: text)
        case .invalidText(let bytes), .blob(let bytes): hasher.combine(bytes)
        }
    }
}

extension HistoryValue {
    /// Where a text may be cut: not inside a character.
    @inlinable package static func textEnd(_ bytes: some RandomAccessCollection<UInt8>, _ limit: Int) -> Int {
        let isContinuation = { (index: Int) in
            bytes[bytes.index(bytes.startIndex, offsetBy: index)] & 0xC0 == 0x80
        }
        var end = limit
        while end > 0, end > limit - 4, isContinuation(end) { end -= 1 }
        // Text that is not valid UTF-8 may be cut at any byte.
        return isContinuation(end) ? limit : end
    }

    /// The length of a text or a blob; 0 for other types.
    @inlinable package var byteCount: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .invalidText(let bytes), .blob(let bytes): bytes.count
        case .null, .integer, .real: 0
        }
    }

    /// The beginning of a text or a blob.
    func prefix(_ limit: Int) -> HistoryValue {
        switch self {
        case .text(let text) where text.utf8.count > limit:
            let bytes = Array(text.utf8.prefix(limit + 1))
            return HistoryValue(textOf: bytes.prefix(Self.textEnd(bytes, limit)))
        case .invalidText(let bytes) where bytes.count > limit: return .invalidText(Array(bytes.prefix(limit)))
        case .blob(let bytes) where bytes.count > limit: return .blob(Array(bytes.prefix(limit)))
        default: return self
        }
    }
}
