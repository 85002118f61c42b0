/// A value with SQLite's own types (https://www.sqlite.org/datatype3.html).
public enum HistoryValue: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])
}
