/// Whether an index's expression or condition can be computed of a row that is not yet written.
///
/// A trigger that runs before an insert knows NEW, but what it computes of NEW is not always what the index
/// holds: NEW has no affinity where it is compared in a subquery, and the expression may fail for a row
/// that SQLite never computes it for, because a constraint or another trigger has the row ignored.
struct ForeseeableExpression {
    private enum Class { case number, text, any }

    private var classes: Set<Class> = []
    private var compares = false
    private var hasNumbers = false
    private var hasTextOfNumbers = false
    private var hasFunctions = false

    /// Functions that never fail, and whose result depends on nothing but their arguments.
    private static let functions: Set<String> = [
        "coalesce", "hex", "ifnull", "iif", "instr", "length", "lower", "ltrim", "quote", "rtrim", "substr",
        "trim", "typeof", "unicode", "upper",
    ]
    private static let keywords: Set<String> = [
        "AND", "OR", "NOT", "IS", "NULL", "ISNULL", "NOTNULL", "IN", "BETWEEN", "CASE", "WHEN", "THEN", "ELSE",
        "END", "TRUE", "FALSE",
    ]
    private static let comparisons: Set<String> = ["=", "==", "<>", "!=", "<", "<=", ">", ">="]
    private static let operators: Set<String> = [
        "(", ")", ",", "||", "+", "-", "*", "/", "%", "&", "|", "~", "<<", ">>",
    ]

    /// - Parameter columns: The affinities of the columns whose values are known before, by folded name.
    static func isForeseeable(_ tokens: [SQLToken], of columns: [BinaryText: ColumnAffinity]) -> Bool {
        var expression = ForeseeableExpression()
        var index = 0
        while index < tokens.count {
            guard let read = expression.read(tokens[index...], of: columns) else { return false }
            index += read
        }
        return !expression.compares || expression.isIndependentOfAffinity
    }

    /// The functions that an expression calls, by folded name.
    static func functions(in tokens: [SQLToken]) -> [String] {
        zip(tokens, tokens.dropFirst()).compactMap { token, next in
            guard next.isSymbol("("), token.kind == .word || token.kind == .quotedName,
                !keywords.contains(token.text.asciiUppercased), !token.isWord("CAST")
            else { return nil }
            return SQLText.folded(token.unquoted)
        }
    }

    /// - Returns: How many tokens were read; nil for what may be anything.
    private mutating func read(_ tokens: ArraySlice<SQLToken>, of columns: [BinaryText: ColumnAffinity]) -> Int?
    {
        guard let token = tokens.first else { return nil }
        let next = tokens.dropFirst().first
        switch token.kind {
        case .number: hasNumbers = true
        case .string: hasTextOfNumbers = hasTextOfNumbers || token.text.contains(where: \.isNumber)
        case .blob: break
        case .variable: return nil
        case .symbol:
            if Self.comparisons.contains(token.text) {
                compares = true
            } else if !Self.operators.contains(token.text) {
                return nil
            }
        case .word where next?.isSymbol("(") == true && Self.functions.contains(SQLText.folded(token.text)):
            // Of a column that it is asked of, nothing but the storage class matters.
            let call = Array(tokens.prefix(4))
            if token.isWord("TYPEOF"), call.count == 4, call[3].isSymbol(")"),
                columns[SQLText.folded(call[2].unquoted)] != nil,
                call[2].kind == .word || call[2].kind == .quotedName
            {
                return 4
            }
            hasFunctions = true
        case .word where token.isWord("COLLATE"): return next == nil ? nil : 2
        case .word where Self.keywords.contains(token.text.asciiUppercased):
            if token.isWord("IN") || token.isWord("BETWEEN") { compares = true }
            if token.isWord("CASE"), next?.isWord("WHEN") == false { compares = true }
            if token.isWord("IS"), !comparesWithNull(tokens.dropFirst()) { compares = true }
        case .word, .quotedName:
            guard next?.isSymbol("(") != true, let affinity = columns[SQLText.folded(token.unquoted)] else {
                return nil
            }
            classes.insert(affinity == .text ? .text : affinity == .blob ? .any : .number)
        }
        return 1
    }

    /// Behind IS.
    private func comparesWithNull(_ tokens: ArraySlice<SQLToken>) -> Bool {
        (tokens.first?.isWord("NOT") == true ? tokens.dropFirst() : tokens).first?.isWord("NULL") == true
    }

    /// Whether no column's affinity converts what it is compared with.
    private var isIndependentOfAffinity: Bool {
        switch classes {
        case [], [.any]: true
        case [.number]: !hasTextOfNumbers && !hasFunctions
        case [.text]: !hasNumbers && !hasFunctions
        default: false
        }
    }
}
