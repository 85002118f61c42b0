/// A value with SQLite's own types (https://www.sqlite.org/datatype3.html).
public enum HistoryValue: Hashable, Sendable {
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

    /// Text of these bytes, kept exactly.
    init(textOf bytes: some Collection<UInt8>) {
        self = String(validating: bytes, as: UTF8.self).map { .text($0) } ?? .invalidText(Array(bytes))
    }

    /// The same value for all values that SQLite regards as the same key: -0.0 and 0.0 are one.
    var asKey: HistoryValue { if case .real(let real) = self, real == 0 { .real(0) } else { self } }
}
