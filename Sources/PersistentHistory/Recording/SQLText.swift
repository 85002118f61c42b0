/// Text as SQL (https://www.sqlite.org/lang_keywords.html).
package enum SQLText {
    /// A name in double quotes, so that no name is a keyword.
    static func name(_ name: String) -> String {
        // Triggers are full of names, and hardly one has a quote in it.
        name.utf8.contains(UInt8(ascii: "\"")) ? quoted(name, in: UInt8(ascii: "\"")) : "\"\(name)\""
    }

    static func literal(_ text: some StringProtocol) -> String {
        quoted(String(text), in: UInt8(ascii: "'"))
    }

    /// Doubles the quotes that are inside. As bytes: to `String` a quote and an accent behind it are one character.
    private static func quoted(_ text: String, in quote: UInt8) -> String {
        let inside = text.utf8.flatMap { $0 == quote ? [quote, quote] : [$0] }
        return String(decoding: [quote] + inside + [quote], as: UTF8.self)
    }

    /// Whether SQLite takes two names for one.
    package static func areSame(_ name: String, _ other: String) -> Bool {
        folded(name).hasSameBytes(as: folded(other))
    }

    /// Whether a name is one of SQLite's own.
    static func isOfSQLite(_ name: String) -> Bool { folded(name).hasBytePrefix("sqlite_") }

    /// Whether a name is reserved for the history.
    static func isReserved(_ name: String) -> Bool { folded(name).hasBytePrefix(RecordingFormat.prefix) }

    /// A name as SQLite compares it: letters of ASCII alone have two cases.
    package static func folded(_ name: String) -> String {
        String(decoding: name.utf8.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// A statement that names tables or columns, for a cache of statements that compares texts as `String` does: names
    /// that have the same canonical form differ in the comment behind it.
    static func cacheable(_ sql: String) -> String {
        if sql.utf8.allSatisfy({ $0 < 0x80 }) { return sql }
        let others = sql.utf8.lazy.filter { $0 >= 0x80 }.flatMap {
            [Hexadecimal.digit($0 >> 4), Hexadecimal.digit($0 & 15)]
        }
        return "\(sql) /* \(String(decoding: Array(others), as: UTF8.self)) */"
    }

    /// Terms joined by an operator as a balanced tree, so that a table of many columns stays below
    /// SQLite's limit on the depth of an expression (https://www.sqlite.org/limits.html).
    static func balanced(_ terms: some RandomAccessCollection<String>, _ infix: String) -> String {
        if terms.count <= 1 { return terms.first ?? "" }
        let half = terms.index(terms.startIndex, offsetBy: terms.count / 2)
        return "(" + balanced(terms[..<half], infix) + " " + infix + " " + balanced(terms[half...], infix) + ")"
    }
}
