package import FoundationEssentials

/// JSON (RFC 8259), written straight into bytes: no tree, no encoder, no intermediate text.
///
/// Commas are put where they belong; that objects and arrays are closed is the caller's duty, best
/// met with `object` and `array`. The bytes are always valid UTF-8, and hold no line break but
/// those of `endLine`.
package struct JSONBytes: Sendable {
    package private(set) var bytes: [UInt8]
    /// Whether what comes next is not the first of its object, array or line, nor a member's value.
    private var needsComma = false
    /// The last time that was written: it is often written again.
    private var lastTimestamp: (HistoryTimestamp, text: [UInt8])?

    package init(reservingCapacity capacity: Int = 0) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    package var count: Int { bytes.count }

    /// Forgets the beginning of what was written.
    package mutating func removeFirst(_ count: Int) { bytes.removeFirst(count) }

    /// Forgets what was written, and keeps the memory.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        needsComma = false
    }

    // MARK: Structure

    package mutating func object(_ members: (inout JSONBytes) -> Void) {
        begin(UInt8(ascii: "{"))
        members(&self)
        end(UInt8(ascii: "}"))
    }

    package mutating func array(_ elements: (inout JSONBytes) -> Void) {
        begin(UInt8(ascii: "["))
        elements(&self)
        end(UInt8(ascii: "]"))
    }

    private mutating func begin(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
    }

    private mutating func end(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    /// A member's name, of plain characters; its value follows.
    package mutating func name(_ name: StaticString) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(name)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// A member's name; its value follows.
    @_disfavoredOverload
    package mutating func name(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Ends a line, so that what follows is a document of its own.
    package mutating func endLine() {
        bytes.append(UInt8(ascii: "\n"))
        needsComma = false
    }

    /// A value that is JSON already.
    package mutating func raw(_ json: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
    }

    /// Members that are JSON already, up to a name whose value follows.
    mutating func members(_ json: [UInt8]) {
        separate()
        bytes.append(contentsOf: json)
        needsComma = false
    }

    /// What is JSON already, up to where a value follows.
    package mutating func beginning(_ json: StaticString) {
        separate()
        bytes.append(json)
        needsComma = false
    }

    /// What is JSON already, behind a value.
    package mutating func end(_ json: StaticString) {
        bytes.append(json)
        needsComma = true
    }

    /// An object of one member, whose beginning is JSON already.
    mutating func object(beginning json: [UInt8], value: (inout JSONBytes) -> Void) {
        members(json)
        value(&self)
        bytes.append(UInt8(ascii: "}"))
    }

    // MARK: Values

    package mutating func null() {
        separate()
        bytes.append("null")
    }

    package mutating func bool(_ value: Bool) {
        separate()
        bytes.append(value ? "true" : "false")
    }

    package mutating func integer(_ value: some FixedWidthInteger) {
        separate()
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        bytes.append(decimal: UInt64(value.magnitude))
    }

    /// The shortest text that reads back as the same number, and that shows it is a real (`3.0`).
    ///
    /// JSON has no infinities: they are `9e999` and `-9e999`, as SQLite itself writes them, which
    /// every reader takes for infinite or refuses, and none for another number. Not-a-number,
    /// which SQLite stores as null, is null.
    package mutating func real(_ value: Double) {
        separate()
        bytes.append(contentsOf: value.shortestText.utf8)
    }

    mutating func timestamp(_ timestamp: HistoryTimestamp) {
        if lastTimestamp?.0 != timestamp { lastTimestamp = (timestamp, timestamp.withText { Array($0) }) }
        plainString { [lastTimestamp] in $0.append(contentsOf: lastTimestamp?.text ?? []) }
    }

    package mutating func string(_ text: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        appendEscaped(text)
        bytes.append(UInt8(ascii: "\""))
    }

    /// A string that is written piece by piece, of characters that need no escape.
    mutating func plainString(_ write: (inout [UInt8]) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        write(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// A text, and behind it what is written piece by piece, of characters that need no escape.
    mutating func string(_ text: String, end write: (inout [UInt8]) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        appendEscaped(text)
        write(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    package mutating func string(_ text: String?) {
        if let text { string(text) } else { null() }
    }

    /// A string of base64 (RFC 4648, section 4, padded).
    package mutating func base64(_ blob: [UInt8]) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        Base64.append(blob, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// The string that `uuidString` gives, without its detour by printf(3): every call has one.
    package mutating func uuid(_ uuid: UUID) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        withUnsafeBytes(of: uuid.uuid) { octets in
            for (place, octet) in octets.enumerated() {
                if place == 4 || place == 6 || place == 8 || place == 10 { bytes.append(UInt8(ascii: "-")) }
                bytes.append(Hexadecimal.digit(octet >> 4, upperCase: true))
                bytes.append(Hexadecimal.digit(octet & 15, upperCase: true))
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    // MARK: Pieces

    /// A comma where one is due; the next value needs one.
    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func appendEscaped(_ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            // Runs that need no escape are copied whole.
            var start = 0
            var index = 0
            while index < utf8.count {
                if Self.needsEscape(utf8[index]) {
                    bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start..<index]))
                    appendEscape(utf8[index])
                    start = index + 1
                }
                index += 1
            }
            bytes.append(contentsOf: UnsafeBufferPointer(rebasing: utf8[start...]))
        }
    }

    /// A text's characters as they stand in a string.
    static func escaped(_ text: String) -> [UInt8] {
        var json = JSONBytes()
        json.appendEscaped(text)
        return json.bytes
    }

    private static func needsEscape(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    private mutating func appendEscape(_ byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(byte)
        case UInt8(ascii: "\n"): bytes.append(UInt8(ascii: "n"))
        case UInt8(ascii: "\r"): bytes.append(UInt8(ascii: "r"))
        case UInt8(ascii: "\t"): bytes.append(UInt8(ascii: "t"))
        default:
            bytes.append(contentsOf: "u00".utf8)
            bytes.append(Hexadecimal.digit(byte >> 4))
            bytes.append(Hexadecimal.digit(byte & 15))
        }
    }
}

extension [UInt8] {
    mutating func append(_ text: StaticString) {
        append(contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    /// In decimal digits.
    mutating func append(decimal value: Int64) {
        if value < 0 { append(UInt8(ascii: "-")) }
        append(decimal: value.magnitude)
    }

    /// In decimal digits.
    mutating func append(decimal value: UInt64) {
        var rest = value
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var first = digits.count
            repeat {
                first -= 1
                digits[first] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            } while rest > 0
            append(contentsOf: UnsafeBufferPointer(rebasing: digits[first...]))
        }
    }
}

extension Double {
    /// The shortest text that reads back as the same number and shows that it is a real; for an
    /// infinity and for not-a-number see `JSONBytes.real`.
    var shortestText: String {
        if isNaN { return "null" }
        if isInfinite { return self < 0 ? "-9e999" : "9e999" }
        return description
    }
}

enum Hexadecimal {
    static func digit(_ value: UInt8, upperCase: Bool = false) -> UInt8 {
        value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: upperCase ? "A" : "a") + value - 10
    }
}

enum Base64 {
    static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    static func append(_ blob: [UInt8], to bytes: inout [UInt8]) {
        for start in stride(from: 0, to: blob.count, by: 3) {
            let three = blob[start..<min(start + 3, blob.count)]
            var bits: UInt32 = 0
            for place in 0..<3 {
                bits = bits << 8 | (place < three.count ? UInt32(three[start + place]) : 0)
            }
            for place in 0..<4 {
                let sextet = Int(bits >> (18 - 6 * UInt32(place)) & 63)
                bytes.append(place <= three.count ? alphabet[sextet] : UInt8(ascii: "="))
            }
        }
    }

    static func text(_ blob: [UInt8]) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity((blob.count + 2) / 3 * 4)
        append(blob, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }
}
