/// A token of SQL, as SQLite's tokenizer splits text (https://www.sqlite.org/lang_keywords.html,
/// https://www.sqlite.org/lang_comment.html). Comments and white space are not tokens.
struct SQLToken: Equatable {
    enum Kind: Equatable {
        /// A keyword or a bare name.
        case word
        /// A name in double quotes, backticks or brackets.
        case quotedName
        case string, blob, number, variable, symbol
    }

    let kind: Kind
    /// The token as it is in the text.
    let text: String

    /// The meaning of a quoted name or a string, without its quotes.
    var unquoted: String {
        let bytes = text.utf8
        guard kind == .quotedName || kind == .string, let quote = bytes.first else { return text }
        var inside: [UInt8] = []
        var rest = bytes.dropFirst().dropLast()
        while let byte = rest.popFirst() {
            inside.append(byte)
            if byte == quote, rest.first == quote { rest = rest.dropFirst() }
        }
        return String(decoding: inside, as: UTF8.self)
    }

    func isWord(_ word: String) -> Bool { kind == .word && text.asciiUppercased == word }
    func isSymbol(_ symbol: String) -> Bool { kind == .symbol && text == symbol }
}

enum SQLTokens {
    static func tokens(_ sql: String) -> [SQLToken] {
        var scanner = Scanner(Array(sql.utf8))
        var tokens: [SQLToken] = []
        while let token = scanner.next() { tokens.append(token) }
        return tokens
    }

    /// Whether a table's definition has ON CONFLICT with an action.
    static func hasConflictClause(_ action: String, _ sql: String) -> Bool {
        let tokens = tokens(sql)
        return tokens.indices.dropLast(2).contains {
            tokens[$0].isWord("ON") && tokens[$0 + 1].isWord("CONFLICT") && tokens[$0 + 2].isWord(action)
        }
    }

    /// The first word of each statement in upper case, including the statements within a trigger.
    static func firstWords(_ sql: String) -> [String] {
        var scanner = Scanner(Array(sql.utf8))
        var words: [String] = []
        var isAtStart = true
        while let (kind, text) = scanner.step() {
            if isAtStart, kind == .word { words.append(String(decoding: text, as: UTF8.self).asciiUppercased) }
            isAtStart = text.elementsEqual(CollectionOfOne(UInt8(ascii: ";")))
        }
        return words
    }

    /// The tokens as SQL again, without comments.
    static func text(_ tokens: some Sequence<SQLToken>) -> String {
        tokens.map(\.text).joined(separator: " ")
    }

    /// Splits tokens at the commas outside parentheses.
    static func split(_ tokens: some Sequence<SQLToken>) -> [[SQLToken]] {
        var parts: [[SQLToken]] = [[]]
        var depth = 0
        for token in tokens {
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            if depth == 0, token.isSymbol(",") {
                parts.append([])
            } else {
                parts[parts.count - 1].append(token)
            }
        }
        return parts
    }

    private struct Scanner {
        private let text: [UInt8]
        private var position = 0

        init(_ text: [UInt8]) { self.text = text }

        private func byte(_ offset: Int = 0) -> UInt8 {
            position + offset < text.count ? text[position + offset] : 0
        }

        mutating func next() -> SQLToken? {
            step().map { SQLToken(kind: $0.kind, text: String(decoding: $0.text, as: UTF8.self)) }
        }

        /// Skips the next token.
        mutating func step() -> (kind: SQLToken.Kind, text: ArraySlice<UInt8>)? {
            while skipBlank() {}
            guard position < text.count else { return nil }
            let start = position
            let kind = stepOver()
            return (kind, text[start..<position])
        }

        /// Skips white space or a comment, if one begins here.
        private mutating func skipBlank() -> Bool {
            switch (byte(), byte(1)) {
            case _ where position >= text.count: return false
            case (UInt8(ascii: " "), _), (0x09...0x0d, _): position += 1
            case (UInt8(ascii: "-"), UInt8(ascii: "-")):
                while position < text.count, byte() != UInt8(ascii: "\n") { position += 1 }
            case (UInt8(ascii: "/"), UInt8(ascii: "*")):
                position += 2
                while position < text.count, !(byte() == UInt8(ascii: "*") && byte(1) == UInt8(ascii: "/")) {
                    position += 1
                }
                position = min(position + 2, text.count)
            default: return false
            }
            return true
        }

        private mutating func stepOver() -> SQLToken.Kind {
            switch (byte(), byte(1)) {
            case (UInt8(ascii: "'"), _):
                skipQuoted(UInt8(ascii: "'"))
                return .string
            case (UInt8(ascii: "x"), UInt8(ascii: "'")), (UInt8(ascii: "X"), UInt8(ascii: "'")):
                position += 1
                skipQuoted(UInt8(ascii: "'"))
                return .blob
            case (UInt8(ascii: "\""), _), (UInt8(ascii: "`"), _):
                skipQuoted(byte())
                return .quotedName
            case (UInt8(ascii: "["), _):
                while position < text.count, byte() != UInt8(ascii: "]") { position += 1 }
                position = min(position + 1, text.count)
                return .quotedName
            case (UInt8(ascii: "0")...UInt8(ascii: "9"), _),
                (UInt8(ascii: "."), UInt8(ascii: "0")...UInt8(ascii: "9")):
                skipNumber()
                return .number
            case (UInt8(ascii: "?"), _), (UInt8(ascii: ":"), _), (UInt8(ascii: "@"), _), (UInt8(ascii: "#"), _),
                (UInt8(ascii: "$"), _):
                position += 1
                while Self.isPartOfWord(byte()) { position += 1 }
                return .variable
            case (let first, _) where Self.isPartOfWord(first):
                while Self.isPartOfWord(byte()) { position += 1 }
                return .word
            default:
                skipSymbol()
                return .symbol
            }
        }

        /// A doubled quote stands for one quote.
        private mutating func skipQuoted(_ quote: UInt8) {
            position += 1
            while position < text.count {
                if byte() == quote {
                    if byte(1) != quote { break }
                    position += 1
                }
                position += 1
            }
            position = min(position + 1, text.count)
        }

        /// Skips digits, hexadecimal digits, a fraction and an exponent, with any word characters that
        /// follow.
        private mutating func skipNumber() {
            let start = position
            while Self.isPartOfWord(byte()) || byte() == UInt8(ascii: ".") {
                // 0x1E is an integer: no exponent follows.
                let isExponent =
                    byte() | 0x20 == UInt8(ascii: "e")
                    && text[start...].prefix(2).last.map { $0 | 0x20 } != UInt8(ascii: "x")
                position += 1
                if isExponent, byte() == UInt8(ascii: "+") || byte() == UInt8(ascii: "-"),
                    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte(1))
                {
                    position += 1
                }
            }
        }

        private mutating func skipSymbol() {
            let pairs = ["||", "->", "<=", "<>", "<<", ">=", ">>", "==", "!="]
            let pair = String(decoding: [byte(), byte(1)], as: UTF8.self)
            position += pair == "->" && byte(2) == UInt8(ascii: ">") ? 3 : pairs.contains(pair) ? 2 : 1
            position = min(position, text.count)
        }

        /// Every byte of a non-ASCII character belongs to a word.
        private static func isPartOfWord(_ byte: UInt8) -> Bool {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "$"), 0x80...:
                true
            default: false
            }
        }
    }
}

/// Text as SQL (https://www.sqlite.org/lang_keywords.html).
package enum SQLText {
    /// A name in double quotes, so that it is never a keyword.
    package static func name(_ name: String) -> String {
        // Triggers are full of names, and hardly any has a quote in it.
        name.utf8.contains(UInt8(ascii: "\"")) ? quoted(name, in: UInt8(ascii: "\"")) : "\"\(name)\""
    }

    static func literal(_ text: some StringProtocol) -> String {
        quoted(String(text), in: UInt8(ascii: "'"))
    }

    /// Doubles the inner quotes. As bytes: `String` treats a quote and a following combining accent as
    /// one character.
    private static func quoted(_ text: String, in quote: UInt8) -> String {
        let inside = text.utf8.flatMap { $0 == quote ? [quote, quote] : [$0] }
        return String(decoding: [quote] + inside + [quote], as: UTF8.self)
    }

    /// Whether SQLite treats two names as the same.
    package static func areSame(_ name: String, _ other: String) -> Bool {
        folded(name).hasSameBytes(as: folded(other))
    }

    /// Whether a name is one of SQLite's own.
    static func isOfSQLite(_ name: String) -> Bool { folded(name).hasBytePrefix("sqlite_") }

    /// Whether a name is reserved for the history.
    static func isReserved(_ name: String) -> Bool { folded(name).hasBytePrefix(RecordingFormat.prefix) }

    /// A name as SQLite compares it: without case for ASCII letters only.
    package static func folded(_ name: String) -> String {
        String(decoding: name.utf8.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// A statement that names tables or columns, for a statement cache that compares texts as `String`
    /// does. A trailing comment distinguishes names of the same canonical form.
    package static func cacheable(_ sql: String) -> String {
        if sql.utf8.allSatisfy({ $0 < 0x80 }) { return sql }
        let others = sql.utf8.lazy.filter { $0 >= 0x80 }.flatMap {
            [Hexadecimal.digit($0 >> 4), Hexadecimal.digit($0 & 15)]
        }
        return "\(sql) /* \(String(decoding: Array(others), as: UTF8.self)) */"
    }

    /// A compound SELECT of any number of rows. Each has at most three terms, the lowest limit that
    /// SQLite recommends (https://www.sqlite.org/security.html).
    static func unionAll(_ selects: [String]) -> String {
        if selects.count <= 3 { return selects.joined(separator: " UNION ALL ") }
        let size = (selects.count + 2) / 3
        let parts = stride(from: 0, to: selects.count, by: size).map {
            Array(selects[$0..<min($0 + size, selects.count)])
        }
        return parts.map { $0.count == 1 ? $0[0] : "SELECT * FROM (\(unionAll($0)))" }
            .joined(separator: " UNION ALL ")
    }

    /// Joins terms with an operator as a balanced tree, so that a table with many columns stays below
    /// SQLite's limit on expression depth (https://www.sqlite.org/limits.html).
    static func balanced(_ terms: some RandomAccessCollection<String>, _ infix: String) -> String {
        if terms.count <= 1 { return terms.first ?? "" }
        let half = terms.index(terms.startIndex, offsetBy: terms.count / 2)
        return "(" + balanced(terms[..<half], infix) + " " + infix + " " + balanced(terms[half...], infix) + ")"
    }
}
