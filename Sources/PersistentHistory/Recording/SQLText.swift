/// Text as SQL (https://www.sqlite.org/lang_keywords.html).
enum SQLText {
    /// A name in double quotes, so that no name is a keyword.
    static func name(_ name: String) -> String {
        // Triggers are full of names, and hardly one has a quote in it.
        name.utf8.contains(UInt8(ascii: "\""))
            ? "\"" + name.replacing("\"", with: "\"\"") + "\"" : "\"\(name)\""
    }

    /// A string literal.
    static func literal(_ text: some StringProtocol) -> String {
        "'" + String(text).replacing("'", with: "''") + "'"
    }

    /// A name as SQLite compares it: letters of ASCII alone have two cases.
    static func folded(_ name: String) -> String {
        String(decoding: name.utf8.map { (0x41...0x5a).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }

    /// Terms joined by an operator as a balanced tree, so that a table of many columns stays below
    /// SQLite's limit on the depth of an expression (https://www.sqlite.org/limits.html).
    static func balanced(_ terms: some RandomAccessCollection<String>, _ infix: String) -> String {
        if terms.count <= 1 { return terms.first ?? "" }
        let half = terms.index(terms.startIndex, offsetBy: terms.count / 2)
        return "(" + balanced(terms[..<half], infix) + " " + infix + " " + balanced(terms[half...], infix) + ")"
    }
}
