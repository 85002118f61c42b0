/// What the text of a trigger shows (https://www.sqlite.org/lang_createtrigger.html).
struct TriggerDefinition: Sendable {
    /// Whether it runs before a change, and writes something itself.
    let writesBefore: Bool
    /// The folded names of the tables from which it may remove rows: it deletes, or inserts, which may
    /// replace.
    let removesFrom: Set<BinaryText>
    /// The folded names of the tables that it inserts into.
    let insertsInto: Set<BinaryText>
    /// The folded names of the tables that it may write to.
    let writesTo: Set<BinaryText>
    /// Whether it runs after a change.
    let isAfter: Bool
    /// Whether it may end a statement by RAISE(FAIL), which keeps what the statement has done.
    let raisesFail: Bool
    /// Whether it may end the processing of a row with RAISE(IGNORE), which keeps the row as well.
    let raisesIgnore: Bool
    /// Whether a conflict in it acts like RAISE(FAIL): INSERT OR FAIL, UPDATE OR FAIL.
    let failsOnConflict: Bool

    /// The tokens before the table's name.
    private static let removals = [["DELETE", "FROM"], ["INTO"], ["UPDATE", "OR", "REPLACE"]]
    private static let updates =
        [["UPDATE"]] + ["ABORT", "FAIL", "IGNORE", "ROLLBACK"].map { ["UPDATE", "OR", $0] }

    init(_ sql: String) {
        let tokens = SQLTokens.tokens(sql)
        // CREATE TRIGGER name: SQLite stores neither TEMP nor IF NOT EXISTS nor the schema. BEFORE may be
        // omitted.
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
        removesFrom = Self.names(behind: Self.removals, in: tokens)
        insertsInto = Self.names(behind: [["INTO"]], in: tokens)
        writesTo = removesFrom.union(Self.names(behind: Self.updates, in: tokens))
        isAfter = time.map { $0.isWord("AFTER") } ?? false
        raisesFail = Self.raises("FAIL", tokens)
        raisesIgnore = Self.raises("IGNORE", tokens)
        failsOnConflict = tokens.indices.dropLast().contains {
            tokens[$0].isWord("OR") && tokens[$0 + 1].isWord("FAIL")
        }
    }

    private static func raises(_ action: String, _ tokens: [SQLToken]) -> Bool {
        tokens.indices.dropLast(2).contains {
            tokens[$0].isWord("RAISE") && tokens[$0 + 1].isSymbol("(") && tokens[$0 + 2].isWord(action)
        }
    }

    private static func names(behind phrases: [[String]], in tokens: [SQLToken]) -> Set<BinaryText> {
        Set(
            names: phrases.flatMap { words in
                tokens.indices.compactMap { start in
                    let name = start + words.count
                    let isThere =
                        name < tokens.count && zip(tokens[start...], words).allSatisfy { $0.isWord($1) }
                    return isThere ? SQLText.folded(tokens[name].unquoted) : nil
                }
            })
    }
}
