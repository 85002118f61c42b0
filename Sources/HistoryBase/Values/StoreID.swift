public import FoundationEssentials

/// The identity of a tracked store: created when the store is first tracked, and kept in the store itself.
///
/// A store that is moved or renamed keeps its id. A store that is untracked and tracked again gets
/// another id.
///
/// The text must be a canonical UUID (RFC 9562, section 4), because any program that can write to the store can
/// change it, and it becomes part of file names, tokens and URLs.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
    /// The text's characters, stored inline without reference counting: each transaction, token and URL
    /// has an id.
    @usableFromInline let characters: InlineArray<36, UInt8>

    /// The text in the store.
    public var text: String { withBytes { String(decoding: $0, as: UTF8.self) } }

    /// Nil if the text is not a canonical UUID: 36 characters, hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    public init?(_ text: String) {
        var text = text
        guard let id = text.withUTF8({ StoreID($0) }) else { return nil }
        self = id
    }

    package init?(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard Self.isCanonical(bytes) else { return nil }
        characters = InlineArray { bytes[$0] }
    }

    /// The id of a newly tracked store.
    public init(_ uuid: UUID) {
        let text = Array(uuid.uuidString.lowercased().utf8)
        characters = InlineArray { text[$0] }
    }

    /// A placeholder while no store is known. No store has it.
    package static let none = StoreID(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))

    /// The id that a program gives to a store if it makes a random UUID without a descriptor for the
    /// source of randomness. It does not identify a store.
    package static let withoutEntropy = StoreID(
        UUID(uuid: (0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 0)))

    /// As text.
    public var description: String { text }

    /// Whether two are equal.
    public static func == (a: Self, b: Self) -> Bool {
        a.withBytes { a in b.withBytes { b in a.elementsEqual(b) } }
    }

    /// Feeds what makes it equal to another into a hasher.
    public func hash(into hasher: inout Hasher) {
        withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    /// Whether both are the same UUID, which may be written in either case (RFC 9562, section 4).
    package func isSame(as other: StoreID) -> Bool {
        // This bit makes a letter lower case, and is already set in digits and hyphens.
        withBytes { a in other.withBytes { b in a.elementsEqual(b) { $0 | 0x20 == $1 | 0x20 } } }
    }

    /// Passes the text's bytes to a closure.
    @inlinable @inline(__always) package func withBytes<T>(_ body: (UnsafeBufferPointer<UInt8>) -> T) -> T {
        characters.span.withUnsafeBufferPointer(body)
    }

    private static func isCanonical(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        var count = 0
        for byte in text {
            switch count {
            case 8, 13, 18, 23: guard byte == UInt8(ascii: "-") else { return false }
            case 36...: return false
            default:
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                    UInt8(ascii: "A")...UInt8(ascii: "F"):
                    break
                default: return false
                }
            }
            count += 1
        }
        return count == 36
    }
}

/// A position in the history of one store, written `<store id>:<number>`.
///
/// The number is that of the last change of a transaction. Numbers only grow, in the order of commits,
/// and are never reused, so a token is a cursor that no clock can affect.
///
/// Tokens of one store are ordered as their commits. Tokens of several stores are ordered by the stores'
/// ids, so that they can be sorted; that order says nothing about time.
public struct HistoryToken: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The store that the position is in.
    public let store: StoreID
    /// Grows in the order of the commits, with gaps.
    public let number: Int64

    /// A position in a store's history.
    public init(store: StoreID, number: Int64) {
        self.store = store
        self.number = number
    }

    /// Parses `<store id>:<number>`; nil if the text has another form.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
            let number = Int64(text[text.index(after: colon)...]), HistoryPosition.range.contains(number),
            let store = StoreID(String(text[..<colon]))
        else { return nil }
        self.init(store: store, number: number)
    }

    /// Whether the first was committed before the second, if both belong to one store.
    public static func < (a: Self, b: Self) -> Bool {
        a.store == b.store ? a.number < b.number : a.store.text < b.store.text
    }

    /// As text.
    public var description: String { "\(store.text):\(number)" }
}
