import GRDB

/// Several values in one text, which triggers write and readers read back exactly:
/// `1,T'C3A9',X'00FF',2.5,NULL`.
///
/// Text is written as the hexadecimal digits of its bytes, in the store's encoding, because SQLite's
/// quote() ends at a NUL character.
package enum ValueList {
    /// The SQL expression that writes a list.
    static func sql(_ values: [String]) -> String {
        SQLText.balanced(
            values.enumerated().flatMap { index, value in
                (index == 0 ? [] : ["','"])
                    + [
                        "CASE typeof(\(value)) WHEN 'text' THEN 'T''' || hex(\(value)) || '''' ELSE quote(\(value)) END"
                    ]
            }, "||")
    }

    /// Reads a list; nil if the text is not one.
    package static func values(_ text: String, encoding: StoreEncoding) -> [HistoryValue]? {
        var values: [HistoryValue] = []
        for item in text.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) {
            guard let value = value(item, encoding: encoding) else { return nil }
            values.append(value)
        }
        return values
    }

    private static func value(_ item: Substring.UTF8View, encoding: StoreEncoding) -> HistoryValue? {
        switch item.first {
        case UInt8(ascii: "T"): return bytes(item).map { encoding.value($0) }
        case UInt8(ascii: "X"): return bytes(item).map { .blob($0) }
        case UInt8(ascii: "N"): return .null
        default:
            let number = String(decoding: item, as: UTF8.self)
            return Int64(number).map { .integer($0) } ?? Double(number).map { .real($0) }
        }
    }

    /// The bytes of `X'00FF'`.
    private static func bytes(_ item: Substring.UTF8View) -> [UInt8]? {
        Hexadecimal.bytes(item.dropFirst(2).dropLast())
    }
}

/// The encoding of a store's text (https://www.sqlite.org/pragma.html#pragma_encoding).
package enum StoreEncoding: String, Sendable {
    case utf8 = "UTF-8"
    case utf16LittleEndian = "UTF-16le"
    case utf16BigEndian = "UTF-16be"

    init(_ db: Database) throws {
        self = try String.fetchOne(db, sql: "PRAGMA encoding").flatMap(Self.init) ?? .utf8
    }

    /// The text of these bytes in this encoding.
    func value(_ bytes: [UInt8]) -> HistoryValue {
        self == .utf8 ? HistoryValue(textOf: bytes) : .text(decode(bytes))
    }

    private func decode(_ bytes: [UInt8]) -> String {
        func units(_ combine: (UInt8, UInt8) -> UInt16) -> [UInt16] {
            stride(from: 0, to: bytes.count - 1, by: 2).map { combine(bytes[$0], bytes[$0 + 1]) }
        }
        switch self {
        case .utf8: return String(decoding: bytes, as: UTF8.self)
        case .utf16LittleEndian:
            return String(decoding: units { UInt16($0) | UInt16($1) << 8 }, as: UTF16.self)
        case .utf16BigEndian:
            return String(decoding: units { UInt16($0) << 8 | UInt16($1) }, as: UTF16.self)
        }
    }
}
