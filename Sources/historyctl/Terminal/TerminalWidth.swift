/// The terminal columns that a text takes.
extension StringProtocol {
    var width: Int {
        utf8.allSatisfy { (0x20...0x7e).contains($0) } ? utf8.count : reduce(0) { $0 + $1.width }
    }

    /// The text, or as much of its start as fits, with a sign that more follows.
    func cut(toWidth limit: Int) -> String {
        guard width > limit else { return String(self) }
        var (cut, taken) = ("", 0)
        for character in self {
            taken += character.width
            if taken > limit - 1 { break }
            cut.append(character)
        }
        return limit > 0 ? cut + "…" : ""
    }

    /// The text, broken into lines that fit.
    func wrapped(toWidth limit: Int) -> [String] {
        guard limit > 0, width > limit else { return [String(self)] }
        var (lines, line, taken) = ([String](), "", 0)
        for character in self {
            if taken + character.width > limit {
                lines.append(line)
                (line, taken) = ("", 0)
            }
            line.append(character)
            taken += character.width
        }
        return lines + [line]
    }

    /// The text, padded with blanks.
    func padded(toWidth width: Int) -> String {
        self + String(repeating: " ", count: Swift.max(0, width - self.width))
    }
}

extension Character {
    /// 0, 1 or 2.
    fileprivate var width: Int {
        if isASCII { return 1 }
        // The other scalars of a character are drawn onto its first one; U+FE0F requests emoji presentation.
        guard let first = unicodeScalars.first else { return 0 }
        if first.isWide || unicodeScalars.contains("\u{FE0F}") { return 2 }
        switch first.properties.generalCategory {
        case .nonspacingMark, .enclosingMark, .format: return 0
        default: return 1
        }
    }
}

extension Unicode.Scalar {
    /// Wide and Fullwidth of https://www.unicode.org/reports/tr11/, by block.
    fileprivate var isWide: Bool {
        switch value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xA960...0xA97F, 0xAC00...0xD7A3,
            0xF900...0xFAFF,
            0xFE10...0xFE19, 0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x16FE0...0x1B2FF,
            0x20000...0x3FFFD:
            true
        default: properties.isEmojiPresentation
        }
    }
}
