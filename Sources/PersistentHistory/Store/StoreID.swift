public import FoundationEssentials

/// The identity of a tracked store: created when the store is first tracked, and kept in the store itself.
///
/// A store that is moved or renamed keeps its id. A store that is untracked and tracked again gets another.
///
/// The text must be a canonical UUID (RFC 9562, section 4), because any program that can write to the store can
/// change it, and it becomes part of file names, tokens and URLs.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
    /// The text in the store.
    public let text: String

    /// Nil if the text is not a canonical UUID: 36 characters, hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    public init?(_ text: String) {
        guard Self.isCanonical(text.utf8) else { return nil }
        self.text = text
    }

    /// The id of a newly tracked store.
    public init(_ uuid: UUID) { text = uuid.uuidString.lowercased() }

    /// Stands where no store is known yet; no store has it.
    package static let none = StoreID(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)))

    public var description: String { text }

    private static func isCanonical(_ text: String.UTF8View) -> Bool {
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
