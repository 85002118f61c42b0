/// What the text of a trigger says of it (https://www.sqlite.org/lang_createtrigger.html).
struct TriggerDefinition {
    /// Whether it runs before a change, and writes something itself.
    let writesBefore: Bool
    /// The folded names of the tables of which it may remove rows: it deletes, or inserts, which may replace.
    let removesFrom: Set<String>

    /// What stands before the table's name.
    private static let removals = [["DELETE", "FROM"], ["INTO"], ["UPDATE", "OR", "REPLACE"]]

    init(_ sql: String) {
        let tokens = SQLTokens.tokens(sql)
        // CREATE TRIGGER name: SQLite keeps neither TEMP nor IF NOT EXISTS nor the schema. BEFORE may be left out.
        let time = tokens.dropFirst(3).first
        let isBefore = time.map { !$0.isWord("AFTER") && !$0.isWord("INSTEAD") } ?? false
        let body = tokens.indices.filter { tokens[$0].isWord("BEGIN") || tokens[$0].isSymbol(";") }
        writesBefore =
            isBefore
            && body.contains { start in
                start + 1 < tokens.count
                    && ["INSERT", "REPLACE", "UPDATE", "DELETE", "WITH"].contains {
                        tokens[start + 1].isWord($0)
                    }
            }
        removesFrom = Set(
            Self.removals.flatMap { words in
                tokens.indices.compactMap { start in
                    let name = start + words.count
                    let isRemoval =
                        name < tokens.count && zip(tokens[start...], words).allSatisfy { $0.isWord($1) }
                    return isRemoval ? SQLText.folded(tokens[name].unquoted) : nil
                }
            })
    }
}
