/// What the text of a trigger says of it (https://www.sqlite.org/lang_createtrigger.html).
struct TriggerDefinition {
    /// Whether it runs before a change, and writes something itself.
    let writesBefore: Bool

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
    }
}
