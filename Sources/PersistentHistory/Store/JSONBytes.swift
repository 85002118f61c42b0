public import FoundationEssentials

/// JSON (RFC 8259), written straight into bytes: no tree, no encoder, no intermediate text.
///
/// Commas are put where they belong; that objects and arrays are closed is the caller's duty, best
/// met with `object` and `array`. The bytes are always valid UTF-8, and hold no line break but
/// those of `endLine`.
public struct JSONBytes: Sendable {
    public private(set) var bytes: [UInt8]

    public init(reservingCapacity capacity: Int = 0) {
        bytes = []
        bytes.reserveCapacity(capacity)
    }

    public var count: Int { bytes.count }

    /// Forgets what was written, and keeps the memory.
    public mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

    // MARK: Structure

    public mutating func object(_ members: (inout JSONBytes) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "{"))
        members(&self)
        bytes.append(UInt8(ascii: "}"))
    }

    public mutating func array(_ elements: (inout JSONBytes) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "["))
        elements(&self)
        bytes.append(UInt8(ascii: "]"))
    }

    /// A member's name; its value follows.
    public mutating func name(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
    }

    /// Ends a line, so that what follows is a document of its own.
    public mutating func endLine() { bytes.append(UInt8(ascii: "\n")) }

    /// A value that is JSON already.
    public mutating func raw(_ json: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
    }

    // MARK: Values

    public mutating func null() { raw("null".utf8) }

    public mutating func bool(_ value: Bool) { raw((value ? "true" : "false").utf8) }

    public mutating func integer(_ value: some FixedWidthInteger) {
        separate()
        appendInteger(value)
    }

    /// The shortest text that reads back as the same number, and that shows it is a real (`3.0`).
    ///
    /// JSON has no infinities: they are `9e999` and `-9e999`, as SQLite itself writes them, which
    /// every reader takes for infinite or refuses, and none for another number. Not-a-number,
    /// which SQLite stores as null, is null.
    public mutating func real(_ value: Double) {
        separate()
        bytes.append(contentsOf: value.shortestText.utf8)
    }

    public mutating func string(_ text: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        appendEscaped(text)
        bytes.append(UInt8(ascii: "\""))
    }

    public mutating func string(_ text: String?) {
        if let text { string(text) } else { null() }
    }

    /// A string of base64 (RFC 4648, section 4, padded).
    public mutating func base64(_ blob: [UInt8]) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        Base64.append(blob, to: &bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// The string that `uuidString` gives, without its detour by printf(3): every call has one.
    public mutating func uuid(_ uuid: UUID) {
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

    /// A comma, unless the value is the first of its object, array or line, or a member's.
    private mutating func separate() {
        switch bytes.last {
        case nil, UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: ":"), UInt8(ascii: "\n"): break
        default: bytes.append(UInt8(ascii: ","))
        }
    }

    private mutating func appendInteger(_ value: some FixedWidthInteger) {
        if value >= 0 && value < 10 {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value))
        } else {
            bytes.append(contentsOf: String(value).utf8)
        }
    }

    private mutating func appendEscaped(_ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            // Runs that need no escape are copied whole.
            var start = 0
            for index in utf8.indices where Self.needsEscape(utf8[index]) {
                bytes.append(contentsOf: utf8[start..<index])
                appendEscape(utf8[index])
                start = index + 1
            }
            bytes.append(contentsOf: utf8[start...])
        }
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
    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

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
