import Testing

@testable import PersistentHistory

@Suite struct SQLScriptTests {
    @Test(arguments: [
        ("", []), (" ;; -- x\n /* ; BEGIN */ ;", []), ("select 1", ["SELECT"]),
        ("SELECT 1; begin;Commit", ["SELECT", "BEGIN", "COMMIT"]),
        ("SELECT '; BEGIN', \"; BEGIN\", [; BEGIN], `; BEGIN`; END", ["SELECT", "END"]),
        ("SELECT 'it''s; BEGIN'; END", ["SELECT", "END"]),
        ("SELECT 1 -- ; BEGIN\n, 2; END", ["SELECT", "END"]), ("SELECT 'open; BEGIN", ["SELECT"]),
        ("SELECT 1 /* open; BEGIN", ["SELECT"]),
        ("'BEGIN'; BEGIN", ["BEGIN"]), ("é BEGIN; 1 BEGIN; END", ["é", "END"]),
        ("SELECT 1 - 1 / 2; END", ["SELECT", "END"]),
        ("BEGIN;", ["BEGIN"]), ("/**/BEGIN/**/IMMEDIATE", ["BEGIN"]), ("begin--x", ["BEGIN"]),
    ])
    func firstWords(sql: String, words: [String]) { #expect(SQLTokens.firstWords(sql) == words) }
}
