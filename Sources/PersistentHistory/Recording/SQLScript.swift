/// What can be found out about SQL text without SQLite.
enum SQLScript {
    /// The first word of each statement, in upper case. Those of the statements within a trigger
    /// are among them.
    static func firstWords(_ sql: String) -> [String] {
        var words: [String] = []
        var isAtStart = true
        var rest = sql.utf8[...]
        while let character = rest.first {
            if skipQuoted(&rest) {
                isAtStart = false
            } else if skipComment(&rest) {
                continue
            } else if character == UInt8(ascii: ";") {
                isAtStart = true
                rest.removeFirst()
            } else if character <= UInt8(ascii: " ") {
                rest.removeFirst()
            } else {
                let word = rest.prefix { isLetter($0) }
                if isAtStart { words.append(String(decoding: word, as: UTF8.self).uppercased()) }
                isAtStart = false
                rest = rest.dropFirst(max(word.count, 1))
            }
        }
        return words
    }

    /// Whether a statement sets up the connection, and does not belong to a transaction.
    static func isPreparation(_ firstWord: String) -> Bool { firstWord == "PRAGMA" || firstWord == "ATTACH" }

    private static func isLetter(_ character: UInt8) -> Bool {
        switch character {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
        default: false
        }
    }

    private static func skipQuoted(_ rest: inout Substring.UTF8View) -> Bool {
        let end: UInt8
        switch rest.first {
        case UInt8(ascii: "'"), UInt8(ascii: "\""), UInt8(ascii: "`"): end = rest[rest.startIndex]
        case UInt8(ascii: "["): end = UInt8(ascii: "]")
        default: return false
        }
        rest = rest.dropFirst().drop { $0 != end }.dropFirst()
        return true
    }

    private static func skipComment(_ rest: inout Substring.UTF8View) -> Bool {
        if rest.starts(with: "--".utf8) {
            rest = rest.drop { $0 != UInt8(ascii: "\n") }
        } else if rest.starts(with: "/*".utf8) {
            rest = rest.dropFirst(2)
            while !rest.isEmpty, !rest.starts(with: "*/".utf8) { rest.removeFirst() }
            rest = rest.dropFirst(2)
        } else {
            return false
        }
        return true
    }
}
