/// The parts of a CREATE INDEX statement that no pragma tells: the text of its expressions, and
/// the condition of a partial index (https://www.sqlite.org/lang_createindex.html).
struct IndexDefinition: Equatable {
    let terms: [String]
    let condition: String?

    /// Nil where the text has no list of terms.
    init?(_ sql: String) {
        var scanner = Scanner(sql)
        guard let list = scanner.parenthesized() else { return nil }
        terms = Scanner.split(list).map(Self.withoutOrder)
        condition = scanner.condition()
    }

    /// Without a trailing ASC or DESC; a COLLATE belongs to the expression.
    private static func withoutOrder(_ term: String) -> String {
        let words = term.split(whereSeparator: \.isWhitespace)
        guard let last = words.last, words.count > 1, ["ASC", "DESC"].contains(last.uppercased()) else {
            return term
        }
        return trimmed(String(term[..<last.startIndex]))
    }

    fileprivate static func trimmed(_ text: String) -> String {
        var text = text[...]
        while text.first?.isWhitespace == true { text.removeFirst() }
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    /// Walks over SQL, keeping apart what is quoted, commented or in parentheses.
    private struct Scanner {
        private let text: [Character]
        private var position = 0

        init(_ text: String) { self.text = Array(text) }

        /// Steps over a quoted part or a comment, if one begins here.
        private mutating func skipOpaque() -> Bool {
            let start = text[position]
            let next = position + 1 < text.count ? text[position + 1] : " "
            switch (start, next) {
            case ("'", _), ("\"", _), ("`", _): skip(past: start)
            case ("[", _): skip(past: "]")
            case ("-", "-"):
                while position < text.count, !text[position].isNewline { position += 1 }
            case ("/", "*"):
                position += 2
                while position + 1 < text.count, !(text[position] == "*" && text[position + 1] == "/") {
                    position += 1
                }
                position = min(position + 2, text.count)
            default: return false
            }
            return true
        }

        private mutating func skip(past end: Character) {
            position += 1
            while position < text.count, text[position] != end { position += 1 }
            position = min(position + 1, text.count)
        }

        /// The inside of the first parentheses from here on.
        mutating func parenthesized() -> String? {
            var depth = 0
            var start = 0
            while position < text.count {
                if skipOpaque() { continue }
                let character = text[position]
                position += 1
                if character == "(" {
                    depth += 1
                    if depth == 1 { start = position }
                } else if character == ")" {
                    depth -= 1
                    if depth == 0 { return String(text[start..<(position - 1)]) }
                }
            }
            return nil
        }

        /// What follows WHERE.
        mutating func condition() -> String? {
            let rest = IndexDefinition.trimmed(String(text[position...]))
            guard rest.uppercased().hasPrefix("WHERE") else { return nil }
            return IndexDefinition.trimmed(String(rest.dropFirst(5)))
        }

        /// The parts between commas that stand in no parentheses.
        static func split(_ list: String) -> [String] {
            var scanner = Scanner(list)
            var parts: [String] = []
            var start = 0
            var depth = 0
            while scanner.position < scanner.text.count {
                if scanner.skipOpaque() { continue }
                switch scanner.text[scanner.position] {
                case "(": depth += 1
                case ")": depth -= 1
                case "," where depth == 0:
                    parts.append(IndexDefinition.trimmed(String(scanner.text[start..<scanner.position])))
                    start = scanner.position + 1
                default: break
                }
                scanner.position += 1
            }
            parts.append(IndexDefinition.trimmed(String(scanner.text[start...])))
            return parts
        }
    }
}
