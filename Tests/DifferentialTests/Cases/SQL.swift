/// A statement whose list (rows, assignments, columns) can be made shorter by the shrinker.
struct SQL: Hashable {
    var head: String
    var list: [String] = []
    var tail = ""

    init(_ head: String, list: [String] = [], tail: String = "") {
        self.head = head
        self.list = list
        self.tail = tail
    }

    var text: String { head + list.joined(separator: ", ") + tail }

    /// Whether `changes()` tells of this, if it succeeds.
    var changesRows: Bool { ["INSERT ", "REPLACE ", "UPDATE ", "DELETE "].contains { head.hasPrefix($0) } }

    /// Whether this makes a table with a foreign key to itself.
    var refersToItself: Bool {
        guard text.hasPrefix("CREATE TABLE "), let end = text.firstRange(of: " (") else { return false }
        let name = text[..<end.lowerBound].dropFirst("CREATE TABLE ".count)
        return text.contains("REFERENCES \(name) (")
    }

    /// A name in one of SQLite's quotations that it can stand in.
    static func quoted(_ name: String, _ dice: inout Dice) -> String {
        switch dice.number(0...8) {
        case 0 where !name.contains("]") && !name.contains("["): "[\(name)]"
        case 1 where !name.contains("`"): "`\(name)`"
        default: quoted(name)
        }
    }

    /// A comment, now and then.
    static func comment(_ dice: inout Dice) -> String {
        dice.once(in: 8) ? dice.one(of: ["/* ) , ' */", " -- ( \" \n", "/**/", " -- DESC\n"]) : ""
    }

    /// A name in double quotes: independent of how the library quotes.
    static func quoted(_ name: String) -> String {
        "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }
}
