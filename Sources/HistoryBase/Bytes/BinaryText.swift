public import Glibc

/// Text that identifies something of a store, compared byte by byte, as SQLite's collation BINARY does.
///
/// Swift's `String` treats two texts of the same canonical form as equal: `é` may be one character or
/// two. SQLite treats them as two keys, two columns, two tables and two authors. So use `String` for
/// display, and `BinaryText` for comparisons and look-ups.
public struct BinaryText: Sendable {
    /// The text, for display.
    public let text: String

    /// The text that a string holds.
    public init(_ text: String) { self.text = text }
}

extension BinaryText: Hashable, Comparable {
    /// Whether two texts have the same bytes.
    @inlinable public static func == (a: Self, b: Self) -> Bool { a.text.hasSameBytes(as: b.text) }

    /// Orders by bytes.
    public static func < (a: Self, b: Self) -> Bool { a.text.precedes(b.text) }

    /// Hashes the bytes.
    @inlinable public func hash(into hasher: inout Hasher) { hasher.combine(bytesOf: text) }
}

extension BinaryText: ExpressibleByStringLiteral, ExpressibleByStringInterpolation, CustomStringConvertible {
    /// The text of a literal.
    public init(stringLiteral text: String) { self.init(text) }

    /// The text.
    public var description: String { text }
}

extension BinaryText: Codable {
    /// Reads the text.
    public init(from decoder: any Decoder) throws {
        self.init(try decoder.singleValueContainer().decode(String.self))
    }

    /// Writes the text.
    public func encode(to encoder: any Encoder) throws {
        var value = encoder.singleValueContainer()
        try value.encode(text)
    }
}

extension String {
    /// Whether two texts have the same bytes. `==` does not tell.
    @inlinable package func hasSameBytes(as other: String) -> Bool {
        let (mine, its) = (utf8, other.utf8)
        guard mine.count == its.count else { return false }
        let isSame = mine.withContiguousStorageIfAvailable { mine in
            its.withContiguousStorageIfAvailable { mine.hasSameBytes(as: $0) }
        }
        return isSame.flatMap { $0 } ?? mine.elementsEqual(its)
    }

    /// Whether the text comes first in byte order.
    package func precedes(_ other: String) -> Bool { utf8.lexicographicallyPrecedes(other.utf8) }

    /// Whether the text begins with these bytes. (`hasPrefix` compares characters: a combining accent
    /// after the prefix belongs to its last one.)
    package func hasBytePrefix(_ prefix: String) -> Bool { utf8.starts(with: prefix.utf8) }

    /// The text with ASCII letters in upper case, as for SQLite's keywords.
    package var asciiUppercased: String {
        String(decoding: utf8.map { (0x61...0x7a).contains($0) ? $0 & 0xdf : $0 }, as: UTF8.self)
    }
}

extension UnsafeBufferPointer<UInt8> {
    @inlinable package func hasSameBytes(as other: Self) -> Bool {
        guard count == other.count else { return false }
        guard let mine = baseAddress, let its = other.baseAddress else { return true }
        return memcmp(mine, its, count) == 0
    }
}

extension Optional where Wrapped == String {
    /// Whether both are nil, or two texts of the same bytes.
    package func hasSameBytes(as other: String?) -> Bool {
        switch (self, other) {
        case (nil, nil): true
        case (let mine?, let other?): mine.hasSameBytes(as: other)
        default: false
        }
    }
}

extension [String] {
    /// Whether both have the same names in the same order.
    package func haveSameBytes(as others: [String]) -> Bool {
        elementsEqual(others) { $0.hasSameBytes(as: $1) }
    }
}

extension Sequence<String> {
    /// The texts as names for look-ups.
    package var asBinary: [BinaryText] { map { BinaryText($0) } }
}

extension Hasher {
    /// Hashes a text's bytes, because texts with different bytes are different.
    @inlinable package mutating func combine(bytesOf text: String) {
        let isDone: Void? = text.utf8.withContiguousStorageIfAvailable {
            combine(bytes: UnsafeRawBufferPointer($0))
        }
        if isDone == nil { for byte in text.utf8 { combine(byte) } }
        combine(0xff as UInt8)
    }
}

// A name from elsewhere, such as a column of a schema, is looked up as it comes.

extension Set<BinaryText> {
    /// A set of these names.
    public init(names: some Sequence<String>) { self.init(names.lazy.map { BinaryText($0) }) }

    /// Whether a name is in the set, compared byte by byte.
    public func contains(_ name: String) -> Bool { contains(BinaryText(name)) }

    /// Adds a name, compared byte by byte.
    @discardableResult
    public mutating func insert(_ name: String) -> Bool { insert(BinaryText(name)).inserted }
}

extension Dictionary where Key == BinaryText {
    /// The value of a name, compared byte by byte; nil if there is none.
    public subscript(name: String) -> Value? {
        get { self[BinaryText(name)] }
        set { self[BinaryText(name)] = newValue }
    }

    /// The value of a name, compared byte by byte, or a default if there is none.
    public subscript(name: String, default value: @autoclosure () -> Value) -> Value {
        get { self[BinaryText(name), default: value()] }
        _modify { yield &self[BinaryText(name), default: value()] }
    }

    @discardableResult
    package mutating func updateValue(_ value: Value, forKey name: String) -> Value? {
        updateValue(value, forKey: BinaryText(name))
    }
}
