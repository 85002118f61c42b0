/// The bytes of a document, the current reading position, and basic steps from there.
struct JSONInput {
    private let bytes: [UInt8]
    var index = 0
    /// A position already converted to line and column, from which counting continues: each byte is counted
    /// once.
    private var counted = (index: 0, line: 1, column: 1)

    init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    var peek: UInt8? { index < bytes.count ? bytes[index] : nil }

    var position: SourcePosition {
        mutating get {
            if index < counted.index { counted = (0, 1, 1) }
            let end = min(index, bytes.count)
            while counted.index < end {
                let byte = bytes[counted.index]
                if byte == UInt8(ascii: "\n") {
                    counted.line += 1
                    counted.column = 1
                } else if byte & 0xC0 != 0x80 {
                    // Counts the first byte of each scalar; continuation bytes start with the bits 10.
                    counted.column += 1
                }
                counted.index += 1
            }
            return SourcePosition(line: counted.line, column: counted.column)
        }
    }

    var firstInvalidByte: Int? {
        do throws(UTF8.ValidationError) {
            _ = try UTF8Span(validating: bytes.span)
            return nil
        } catch {
            return error.byteOffsets.lowerBound
        }
    }

    // MARK: Steps

    mutating func skipByteOrderMark() -> Bool {
        guard bytes.starts(with: [0xEF, 0xBB, 0xBF]) else { return false }
        index = 3
        counted.index = 3
        return true
    }

    mutating func skipWhitespace() {
        while let byte = peek, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
    }

    /// Moves past the ASCII text if it is next.
    mutating func take(_ text: String) -> Bool {
        guard bytes[min(index, bytes.count)...].starts(with: text.utf8) else { return false }
        index += text.utf8.count
        return true
    }

    mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard let byte = peek, UInt32(byte) == scalar.value else { return false }
        index += 1
        return true
    }

    /// Moves past digits, and returns their number.
    mutating func digits() -> Int {
        let start = index
        while let byte = peek, UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte { index += 1 }
        return index - start
    }

    /// Moves past the letter of `\n` and the like.
    mutating func simpleEscape() -> Unicode.Scalar? {
        let scalar: Unicode.Scalar
        switch peek {
        case UInt8(ascii: "\""): scalar = "\""
        case UInt8(ascii: "\\"): scalar = "\\"
        case UInt8(ascii: "/"): scalar = "/"
        case UInt8(ascii: "b"): scalar = "\u{8}"
        case UInt8(ascii: "f"): scalar = "\u{C}"
        case UInt8(ascii: "n"): scalar = "\n"
        case UInt8(ascii: "r"): scalar = "\r"
        case UInt8(ascii: "t"): scalar = "\t"
        default: return nil
        }
        index += 1
        return scalar
    }

    /// Moves past four hexadecimal digits if they are next.
    mutating func hexUnit() -> UInt16? {
        guard index + 4 <= bytes.count else { return nil }
        var unit: UInt16 = 0
        for byte in bytes[index..<index + 4] {
            guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else { return nil }
            unit = unit << 4 | UInt16(digit)
        }
        index += 4
        return unit
    }

    // MARK: Looking

    func text(from start: Int) -> String {
        String(decoding: bytes[start..<index], as: UTF8.self)
    }

    /// The letters, digits and underscores that follow.
    var word: String {
        let rest = bytes[min(index, bytes.count)...]
        return String(
            decoding: rest.prefix { Character(Unicode.Scalar($0)).isASCIIWordCharacter }, as: UTF8.self)
    }

    /// What follows, for a message.
    var found: String {
        guard index < bytes.count else { return "the end of the file" }
        // A scalar has at most four bytes, and the document is known to be UTF-8.
        let text = String(decoding: bytes[index..<min(index + 4, bytes.count)], as: UTF8.self)
        guard let scalar = text.unicodeScalars.first else { return "the end of the file" }
        switch scalar {
        case "/", "#": return "\"\(scalar)\" (JSON has no comments)"
        case "'": return "\"'\" (a string needs double quotes)"
        default: return String(scalar).quoted
        }
    }
}

extension Character {
    fileprivate var isASCIIWordCharacter: Bool { isASCII && (isLetter || isNumber || self == "_") }
}
