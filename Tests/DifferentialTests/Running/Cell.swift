import PersistentHistory

/// A value as it lies in a table, told apart exactly: text by its bytes, numbers by their class.
enum Cell: Hashable, CustomStringConvertible {
    case null
    case integer(Int64)
    case real(Double)
    case text([UInt8])
    case blob([UInt8])

    init(_ value: HistoryValue) {
        switch value {
        case .null: self = .null
        case .integer(let integer): self = .integer(integer)
        case .real(let real): self = Self.number(real)
        case .text(let text): self = .text(Array(text.utf8))
        case .invalidText(let bytes): self = .text(bytes)
        case .blob(let bytes): self = .blob(bytes)
        }
    }

    /// SQLite takes the least integer and the real of its value for the same, and so changes between them for none.
    static func number(_ real: Double) -> Cell {
        real == Double(Int64.min) ? .integer(.min) : .real(real)
    }

    var isNull: Bool { self == .null }

    /// The number that a text is, as a numeric affinity takes it.
    var asNumber: Cell {
        guard case .text(let bytes) = self else { return self }
        let text = String(decoding: bytes, as: UTF8.self)
        return Int64(text).map(Cell.integer) ?? Double(text).map(Cell.number) ?? self
    }

    var description: String {
        switch self {
        case .null: "NULL"
        case .integer(let integer): "\(integer)"
        case .real(let real): "\(real)"
        case .text(let bytes): "'\(String(decoding: bytes.map { $0 == 0 ? 0x24 : $0 }, as: UTF8.self))'"
        case .blob(let bytes): "x'\(bytes.map { String($0, radix: 16) }.joined(separator: "."))'"
        }
    }
}
