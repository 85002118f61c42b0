package import FoundationEssentials

/// JSON (RFC 8259), written directly as bytes: no tree, no encoder, no intermediate text.
///
/// Commas are inserted automatically. The caller must close objects and arrays, preferably with `object`
/// and `array`. The bytes are always valid UTF-8, and contain no line breaks except those of `endLine`.
@usableFromInline package struct JSONBytes: ~Copyable {
    @usableFromInline package internal(set) var bytes: ByteBuffer
    /// Whether a comma comes before the next value: it is neither the first of its object, array or line,
    /// nor a member's value.
    @usableFromInline var needsComma = false
    /// The last timestamp and its text, because it is often written again.
    private var lastTimestamp: HistoryTimestamp?
    private var timestampText = ByteBuffer()
    /// How to write a value that is an integer beyond 2^53.
    package var largeIntegers = LargeIntegers.number

    package init(reservingCapacity capacity: Int = 0) {
        bytes = ByteBuffer(reservingCapacity: capacity)
    }

    package var count: Int { bytes.count }

    /// Appends lines, or the rest of some, that were written elsewhere.
    package mutating func lines(_ json: [UInt8]) { bytes.append(json) }

    /// Drops the beginning of what was written.
    package mutating func removeFirst(_ count: Int) { bytes.removeFirst(count) }

    /// Drops what was written, and keeps the memory.
    package mutating func removeAll() {
        bytes.removeAll()
        needsComma = false
    }

    // MARK: Structure

    @inlinable @inline(__always) package mutating func object(_ members: (inout JSONBytes) -> Void) {
        begin(UInt8(ascii: "{"))
        members(&self)
        end(UInt8(ascii: "}"))
    }

    @inlinable @inline(__always) package mutating func array(_ elements: (inout JSONBytes) -> Void) {
        begin(UInt8(ascii: "["))
        elements(&self)
        end(UInt8(ascii: "]"))
    }

    @inlinable @inline(__always) mutating func begin(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        needsComma = false
    }

    @inlinable @inline(__always) mutating func end(_ bracket: UInt8) {
        bytes.append(bracket)
        needsComma = true
    }

    /// Writes a member's name of plain characters. Its value must follow.
    @inlinable @inline(__always) package mutating func name(_ name: StaticString) {
        bytes.append(name: name, comma: needsComma)
        needsComma = false
    }

    /// Writes a member's name. Its value must follow.
    @_disfavoredOverload
    package mutating func name(_ name: String) {
        string(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Ends a line: what follows is a separate document.
    @inlinable package mutating func endLine() {
        bytes.append(UInt8(ascii: "\n"))
        needsComma = false
    }

    /// Writes a value that is already JSON.
    @inlinable package mutating func raw(_ json: [UInt8]) {
        separate()
        bytes.append(json)
    }

    /// Writes members that are already JSON, up to a name whose value must follow.
    @inlinable package mutating func members(_ json: [UInt8]) {
        separate()
        bytes.append(json)
        needsComma = false
    }

    /// Writes text that is already JSON, up to where a value must follow.
    @inlinable @inline(__always) package mutating func beginning(_ json: StaticString) {
        separate()
        bytes.append(json)
        needsComma = false
    }

    /// Writes text that is already JSON after a value.
    @inlinable @inline(__always) package mutating func end(_ json: StaticString) {
        bytes.append(json)
        needsComma = true
    }

    /// Writes an object of one member, whose beginning is already JSON.
    @inlinable package mutating func object(beginning json: [UInt8], value: (inout JSONBytes) -> Void) {
        members(json)
        value(&self)
        bytes.append(UInt8(ascii: "}"))
    }

    // MARK: Values

    @inlinable @inline(__always) package mutating func null() {
        separate()
        bytes.append("null")
    }

    @inlinable package mutating func bool(_ value: Bool) {
        separate()
        bytes.append(value ? "true" : "false")
    }

    @usableFromInline package mutating func integer(_ value: Int64) {
        separate()
        bytes.append(decimal: value)
    }

    @inlinable package mutating func integer(_ value: Int) { integer(Int64(value)) }

    /// Writes the shortest text that reads back as the same number, and shows that it is a real (`3.0`).
    ///
    /// JSON has no infinities. They are written as `9e999` and `-9e999`, as SQLite writes them: every
    /// reader takes those for infinite or refuses them, and none reads another number. Not-a-number,
    /// which SQLite stores as null, is null.
    package mutating func real(_ value: Double) {
        separate()
        bytes.append(value.shortestText)
    }

    package mutating func timestamp(_ timestamp: HistoryTimestamp) {
        if lastTimestamp != timestamp {
            lastTimestamp = timestamp
            timestampText.removeAll()
            timestampText.append(UInt8(ascii: "\""))
            timestamp.withText { timestampText.append($0) }
            timestampText.append(UInt8(ascii: "\""))
        }
        separate()
        timestampText.withBytes { bytes.append($0) }
    }

    @usableFromInline package mutating func string(_ text: String) { string(text, end: { _ in }) }

    /// Writes a string piece by piece, of characters that need no escape.
    @inlinable @inline(__always) package mutating func plainString(_ write: (inout ByteBuffer) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        write(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    /// Writes a text followed by pieces of characters that need no escape.
    @inlinable @inline(__always) mutating func string(_ text: String, end write: (inout ByteBuffer) -> Void) {
        var text = text
        text.withUTF8 { string($0, end: write) }
    }

    /// Writes a text of valid UTF-8.
    @inlinable @inline(__always) package mutating func string(
        _ utf8: UnsafeBufferPointer<UInt8>, end write: (inout ByteBuffer) -> Void = { _ in }
    ) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        appendEscaped(utf8)
        write(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    @usableFromInline package mutating func string(_ text: String?) {
        if let text { string(text) } else { null() }
    }

    /// Writes a string of base64 (RFC 4648, section 4, padded).
    package mutating func base64(_ blob: [UInt8]) {
        plainString { Base64.append(blob, to: &$0) }
    }

    /// Writes the same string as `uuidString`, without its detour through printf(3): every call has one.
    package mutating func uuid(_ uuid: UUID) {
        plainString { bytes in
            withUnsafeBytes(of: uuid.uuid) { Hexadecimal.append(uuid: $0, to: &bytes) }
        }
    }

    // MARK: Members

    @inlinable package mutating func member(_ name: StaticString, _ value: String?) {
        self.name(name)
        string(value)
    }

    @inlinable package mutating func member(_ name: StaticString, _ value: some BinaryInteger) {
        self.name(name)
        integer(Int64(value))
    }

    @inlinable package mutating func member(_ name: StaticString, _ value: Bool) {
        self.name(name)
        bool(value)
    }

    package mutating func member(_ name: StaticString, _ token: HistoryToken?) {
        self.name(name)
        if let token { HistoryJSON.write(token, to: &self) } else { null() }
    }

    @inlinable package mutating func member(_ name: StaticString, _ texts: some Sequence<String>) {
        self.name(name)
        array { json in for text in texts { json.string(text) } }
    }

    // MARK: Pieces

    /// Writes a comma if required. The next value then needs one.
    @inlinable @inline(__always) mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    @usableFromInline mutating func appendEscaped(_ utf8: UnsafeBufferPointer<UInt8>) {
        // Runs that need no escape are copied as a whole.
        var start = 0
        var index = 0
        while index < utf8.count {
            if Self.needsEscape(utf8[index]) {
                bytes.append(UnsafeBufferPointer(rebasing: utf8[start..<index]))
                appendEscape(utf8[index])
                start = index + 1
            }
            index += 1
        }
        bytes.append(UnsafeBufferPointer(rebasing: utf8[start...]))
    }

    /// A text's characters as they are written in a string.
    package static func escaped(_ text: String) -> [UInt8] {
        var json = JSONBytes()
        json.string(text)
        return Array(json.bytes.array.dropFirst().dropLast())
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
            bytes.append("u00")
            bytes.append(Hexadecimal.digit(byte >> 4))
            bytes.append(Hexadecimal.digit(byte & 15))
        }
    }
}

extension Double {
    /// The shortest text that reads back as the same number and shows that it is a real. For infinities
    /// and not-a-number see `JSONBytes.real`.
    package var shortestText: String {
        if isNaN { return "null" }
        if isInfinite { return self < 0 ? "-9e999" : "9e999" }
        return description
    }
}
