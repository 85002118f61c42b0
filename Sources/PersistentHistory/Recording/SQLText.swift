/// Text as it stands in SQL (https://www.sqlite.org/lang_keywords.html).
enum SQLText {
    /// A name in double quotes, so that no name is a keyword.
    static func name(_ name: String) -> String {
        "\"" + name.replacing("\"", with: "\"\"") + "\""
    }

    /// A string literal.
    static func literal(_ text: some StringProtocol) -> String {
        "'" + String(text).replacing("'", with: "''") + "'"
    }

    /// A column's default as an expression: as a default, a bare or quoted name is a string
    /// (https://www.sqlite.org/lang_createtable.html#the_default_clause).
    static func value(_ text: String) -> String {
        let words = ["null", "true", "false", "current_time", "current_date", "current_timestamp"]
        if text.hasPrefix("\""), text.hasSuffix("\""), text.count > 1 {
            return literal(text.dropFirst().dropLast().replacing("\"\"", with: "\""))
        }
        let isName =
            text.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" } && text.first?.isNumber == false
        return isName && !words.contains(text.lowercased()) ? literal(text) : "(\(text))"
    }

    /// Terms joined by an operator as a balanced tree, so that a table of many columns stays below
    /// SQLite's limit on the depth of an expression (https://www.sqlite.org/limits.html).
    static func balanced(_ terms: some RandomAccessCollection<String>, _ infix: String) -> String {
        if terms.count <= 1 { return terms.first ?? "" }
        let half = terms.index(terms.startIndex, offsetBy: terms.count / 2)
        return "(" + balanced(terms[..<half], infix) + " " + infix + " " + balanced(terms[half...], infix) + ")"
    }
}
