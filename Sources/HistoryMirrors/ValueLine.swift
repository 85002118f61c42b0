import PersistentHistory
internal import FoundationEssentials
import GRDB
import GRDBSQLite
internal import Glibc

enum LineValue {
    case value(HistoryValue)
    /// ASCII text, in the line's memory.
    case plain(UnsafeBufferPointer<UInt8>)

    /// A copy that outlives the line.
    var copy: HistoryValue {
        switch self {
        case .value(let value): value
        case .plain(let text): .text(String(decoding: text, as: UTF8.self))
        }
    }
}

/// Reads an array of values in the history's form: `[42,"text",2.5,null,{"base64":"AAE="}]`; see `HistoryJSON`.
///
/// It parses bytes and builds no tree, because a snapshot has millions of values. The line comes from the
/// network, so nothing in it can be trusted.
struct ValueLine {
    private let bytes: UnsafeBufferPointer<UInt8>
    private var place = 0

    /// - Parameter most: The maximum number of values.
    /// - Throws: `MirrorError.malformed`.
    static func append(
        _ bytes: UnsafeBufferPointer<UInt8>, to values: inout [LineValue], atMost most: Int = .max
    ) throws(MirrorError) {
        var line = ValueLine(bytes: bytes)
        try line.expect("[")
        if line.take("]") { return try line.end() }
        let start = values.count
        repeat {
            guard values.count - start < most else { throw .malformed("a line has more than \(most) values") }
            if let text = line.plainText() {
                values.append(.plain(text))
            } else {
                values.append(.value(try line.value()))
            }
        } while line.take(",")
        try line.expect("]")
        try line.end()
    }

    private init(bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    private var next: UInt8? { place < bytes.count ? bytes[place] : nil }

    /// The index of the next such byte, or of the line's end. A blob has millions of bytes.
    private func index(of byte: UInt8, from start: Int) -> Int {
        guard let base = bytes.baseAddress, let found = memchr(base + start, Int32(byte), bytes.count - start)
        else {
            return bytes.count
        }
        return UnsafeRawPointer(found) - UnsafeRawPointer(base)
    }

    private func malformed() -> MirrorError { .malformed("a line is no list of values, at its byte \(place)") }

    private mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: character) else { return false }
        place += 1
        return true
    }

    private mutating func expect(_ character: Unicode.Scalar) throws(MirrorError) {
        guard take(character) else { throw malformed() }
    }

    private mutating func expect(text: StaticString) throws(MirrorError) {
        for index in 0..<text.utf8CodeUnitCount {
            guard next == text.utf8Start[index] else { throw malformed() }
            place += 1
        }
    }

    private func end() throws(MirrorError) {
        guard place == bytes.count else { throw malformed() }
    }

    // MARK: Values

    /// Text without escapes, in the line's memory; nil if anything else follows.
    private mutating func plainText() -> UnsafeBufferPointer<UInt8>? {
        guard next == UInt8(ascii: "\"") else { return nil }
        var end = place + 1
        while end < bytes.count, bytes[end] != UInt8(ascii: "\"") {
            // Bytes of other characters must be validated.
            guard bytes[end] < 0x80, bytes[end] != UInt8(ascii: "\\") else { return nil }
            end += 1
        }
        guard end < bytes.count else { return nil }
        defer { place = end + 1 }
        return UnsafeBufferPointer(rebasing: bytes[place + 1..<end])
    }

    private mutating func value() throws(MirrorError) -> HistoryValue {
        switch next {
        case UInt8(ascii: "n"):
            try expect(text: "null")
            return .null
        case UInt8(ascii: "\""): return .text(try text())
        case UInt8(ascii: "{"): return try binary()
        default: return try number()
        }
    }

    private mutating func number() throws(MirrorError) -> HistoryValue {
        let start = place
        var isInteger = true
        while let byte = next {
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "+"): break
            case UInt8(ascii: "."), UInt8(ascii: "e"), UInt8(ascii: "E"): isInteger = false
            default:
                if isInteger { return try integer(start..<place) }
                return try real(start..<place)
            }
            place += 1
        }
        throw malformed()
    }

    private func integer(_ range: Range<Int>) throws(MirrorError) -> HistoryValue {
        var value: Int64 = 0
        // Most have so few digits that they cannot overflow.
        if (1..<19).contains(range.count),
            bytes[range].allSatisfy({ byte in
                let digit = byte &- UInt8(ascii: "0")
                value = value &* 10 &+ Int64(digit)
                return digit < 10
            })
        {
            return .integer(value)
        }
        guard let integer = Int64(String(decoding: bytes[range], as: UTF8.self)) else { throw malformed() }
        return .integer(integer)
    }

    /// `9e999` is infinite.
    private func real(_ range: Range<Int>) throws(MirrorError) -> HistoryValue {
        guard let real = Double(String(decoding: bytes[range], as: UTF8.self)), !real.isNaN else {
            throw malformed()
        }
        return .real(real)
    }

    private mutating func text() throws(MirrorError) -> String {
        try expect("\"")
        let start = place
        while let byte = next, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") { place += 1 }
        guard next != nil else { throw malformed() }
        var text = try valid(bytes[start..<place])
        while !take("\"") {
            if take("\\") {
                text.unicodeScalars.append(try escape())
            } else {
                let start = place
                while let byte = next, byte != UInt8(ascii: "\""), byte != UInt8(ascii: "\\") { place += 1 }
                guard next != nil else { throw malformed() }
                text += try valid(bytes[start..<place])
            }
        }
        return text
    }

    private func valid(_ bytes: Slice<UnsafeBufferPointer<UInt8>>) throws(MirrorError) -> String {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw malformed() }
        return text
    }

    private mutating func escape() throws(MirrorError) -> Unicode.Scalar {
        defer { place += 1 }
        switch next {
        case UInt8(ascii: "\""): return "\""
        case UInt8(ascii: "\\"): return "\\"
        case UInt8(ascii: "/"): return "/"
        case UInt8(ascii: "n"): return "\n"
        case UInt8(ascii: "r"): return "\r"
        case UInt8(ascii: "t"): return "\t"
        case UInt8(ascii: "b"): return "\u{8}"
        case UInt8(ascii: "f"): return "\u{c}"
        case UInt8(ascii: "u"):
            // Only control characters are written as escapes, never a surrogate pair.
            let digits = bytes[min(place + 1, bytes.count)..<min(place + 5, bytes.count)]
            guard digits.count == 4, let number = UInt32(String(decoding: digits, as: UTF8.self), radix: 16),
                let scalar = Unicode.Scalar(number)
            else { throw malformed() }
            place += 4
            return scalar
        default: throw malformed()
        }
    }

    /// `{"base64":"…"}`, or `{"base64Text":"…"}`, which is text that is not valid UTF-8.
    private mutating func binary() throws(MirrorError) -> HistoryValue {
        try expect(text: "{\"base64")
        let isText = next == UInt8(ascii: "T")
        if isText { try expect(text: "Text") }
        try expect(text: "\":\"")
        let start = place
        place = index(of: UInt8(ascii: "\""), from: start)
        let text = Data(bytes[start..<place])
        // Foundation accepts more than canonical base64.
        guard let data = Data(base64Encoded: text), data.base64EncodedData() == text else { throw malformed() }
        let decoded = [UInt8](data)
        try expect(text: "\"}")
        return isText ? .invalidText(decoded) : .blob(decoded)
    }
}

extension OpaquePointer {
    /// Binds the values, which must be cleared before the lines' memory is released.
    fileprivate func bind(_ values: ArraySlice<LineValue>) {
        for (index, value) in values.enumerated() {
            switch value {
            case .value(let value): bind(value, Int32(index + 1))
            case .plain(let text): bindText(UnsafeRawBufferPointer(text), Int32(index + 1), nil)
            }
        }
    }
}

extension Statement {
    /// Runs a statement without result rows, with values of lines, which SQLite copies only where it must.
    func write(_ db: Database, _ values: ArraySlice<LineValue>) throws {
        sqlite3_reset(sqliteStatement)
        defer {
            sqlite3_reset(sqliteStatement)
            sqlite3_clear_bindings(sqliteStatement)
        }
        sqliteStatement.bind(values)
        _ = try sqliteStatement.step(db)
    }
}
