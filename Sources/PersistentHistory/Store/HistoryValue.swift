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
    /// Bytes.
    case blob([UInt8])
}
