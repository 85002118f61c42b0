/// The parts of a CREATE INDEX statement that no pragma returns: the text of its expressions, and
/// the condition of a partial index (https://www.sqlite.org/lang_createindex.html).
struct IndexDefinition: Equatable {
    let terms: [[SQLToken]]
    let condition: [SQLToken]?

    /// Nil if the text has no list of terms.
    init?(_ sql: String) {
        let tokens = SQLTokens.tokens(sql)
        guard let start = tokens.firstIndex(where: { $0.isSymbol("(") }),
            let end = Self.end(of: tokens, from: start)
        else { return nil }
        terms = SQLTokens.split(tokens[(start + 1)..<end]).map(Self.withoutOrder)
        let rest = tokens[(end + 1)...]
        condition = rest.first?.isWord("WHERE") == true ? Array(rest.dropFirst()) : nil
    }

    private static func end(of tokens: [SQLToken], from start: Int) -> Int? {
        var depth = 0
        for (index, token) in tokens[start...].enumerated() {
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            if depth == 0 { return start + index }
        }
        return nil
    }

    /// Without a trailing ASC or DESC; a COLLATE belongs to the expression.
    private static func withoutOrder(_ term: [SQLToken]) -> [SQLToken] {
        guard term.count > 1, let last = term.last, last.isWord("ASC") || last.isWord("DESC") else {
            return term
        }
        return term.dropLast()
    }
}
