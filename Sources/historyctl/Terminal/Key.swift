/// A key press, as a terminal sends it.
enum Key: Equatable {
    case byte(UInt8)
    case up, down
    /// An escape sequence that is not used here.
    case other

    private static let escape: UInt8 = 27

    /// The keys in one read: several if they were pressed quickly.
    static func keys(of bytes: [UInt8]) -> [Key] {
        var keys: [Key] = []
        var rest = bytes[...]
        while let first = rest.first {
            let length = first == escape ? sequenceLength(rest) : 1
            if length == 1 {
                keys.append(.byte(first))
            } else {
                // CSI in a terminal's normal mode, SS3 in application cursor mode.
                switch rest.dropFirst(2).prefix(length - 2) {
                case [UInt8(ascii: "A")]: keys.append(.up)
                case [UInt8(ascii: "B")]: keys.append(.down)
                default: keys.append(.other)
                }
            }
            rest = rest.dropFirst(length)
        }
        return keys
    }

    /// Whether the bytes may end within an escape sequence.
    static func isIncomplete(_ bytes: [UInt8]) -> Bool {
        guard let begin = bytes.lastIndex(of: escape) else { return false }
        let rest = bytes[begin...]
        return rest.count == 1 || sequenceLength(rest) == rest.count && !isFinal(rest.last ?? 0, at: rest.count)
    }

    /// The length of ESC, "[" or "O", parameters, and a final byte (ECMA-48, 5.4); 1 for the key Escape.
    private static func sequenceLength(_ bytes: ArraySlice<UInt8>) -> Int {
        let kind = bytes.dropFirst().first
        guard kind == UInt8(ascii: "[") || kind == UInt8(ascii: "O") else { return 1 }
        let end = bytes.dropFirst(2).firstIndex { isFinal($0, at: 3) }
        return end.map { $0 - bytes.startIndex + 1 } ?? bytes.count
    }

    private static func isFinal(_ byte: UInt8, at count: Int) -> Bool {
        count > 2 && (0x40...0x7E).contains(byte)
    }
}
