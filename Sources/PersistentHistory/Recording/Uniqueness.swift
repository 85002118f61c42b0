/// A UNIQUE or PRIMARY KEY constraint, or a unique index.
struct Uniqueness: Sendable {
    struct Term: Sendable {
        /// A column's name, or an expression's text.
        let text: String
        let isExpression: Bool
        let collation: String
    }
    let terms: [Term]
    /// The WHERE clause of a partial index.
    let condition: String?
    /// The columns whose change may cause a conflict.
    let columns: [String]
    /// A function or collation that computes the index's values and only the application has. Usually
    /// nil.
    let missing: String?
    /// Whether NEW shows, before it is written, which rows it will replace.
    let isForeseeable: Bool

    /// - Parameter automatic: The column whose value SQLite assigns, if any.
    init(
        _ index: StoreSchema.Index, columns: [TableSchema.Column], _ table: StoreSchema.Table,
        in schema: StoreSchema, automatic: String?
    ) {
        let definition = index.sql.flatMap(IndexDefinition.init)
        let names = Set<BinaryText>(names: table.columns.map { SQLText.folded($0.name) })
        let expressions = index.terms.enumerated().map { place, term -> [SQLToken]? in
            if term.column != nil { return nil }
            let terms = definition?.terms ?? []
            return terms.indices.contains(place) ? Self.withStrings(terms[place], besides: names) : []
        }
        let filter = index.isPartial ? definition?.condition.map { Self.withStrings($0, besides: names) } : nil
        terms = zip(index.terms, expressions).map { term, expression in
            Term(
                text: term.column ?? expression.map(SQLTokens.text) ?? "NULL", isExpression: expression != nil,
                collation: term.collation)
        }
        condition = filter.map(SQLTokens.text)
        let function = (expressions + [filter]).flatMap { ForeseeableExpression.functions(in: $0 ?? []) }.first
        {
            !schema.functions.contains($0)
        }
        let collation = index.terms.map(\.collation).first { !schema.collations.contains(SQLText.folded($0)) }
        missing =
            function.map { "the function \($0)() that the index \"\(index.name)\" uses" }
            ?? collation.map { "the collation \($0) that the index \"\(index.name)\" uses" }

        let used = Set<BinaryText>(
            names: (expressions + [filter]).flatMap { $0 ?? [] }.map { SQLText.folded($0.unquoted) })
        self.columns = table.columns.map(\.name).filter { name in
            used.contains(SQLText.folded(name)) || index.terms.contains { $0.column.hasSameBytes(as: name) }
        }

        var known: [BinaryText: ColumnAffinity] = [:]
        for (column, declared) in zip(columns, table.columns) {
            let isKnown = !column.isGenerated && column.defaultForNull?.isConstant ?? true
            guard isKnown else { continue }
            known[SQLText.folded(column.name)] = ColumnAffinity(
                declaredType: declared.declaredType, isStrict: table.isStrict)
        }
        let plain = index.terms.compactMap(\.column).allSatisfy { known[SQLText.folded($0)] != nil }
        // For indexes of columns, our own queries determine the number that SQLite assigns to a row.
        if let automatic { known[SQLText.folded(automatic)] = nil }
        let computed = (expressions.compactMap(\.self) + [filter].compactMap(\.self)).allSatisfy {
            ForeseeableExpression.isForeseeable($0, of: known)
        }
        isForeseeable = plain && computed
    }

    /// Text in double quotes that is not a column's name is a string
    /// (https://www.sqlite.org/quirks.html).
    private static func withStrings(_ tokens: [SQLToken], besides columns: Set<BinaryText>) -> [SQLToken] {
        tokens.enumerated().map { index, token in
            let isCalled = index + 1 < tokens.count && tokens[index + 1].isSymbol("(")
            let isCollation = index > 0 && tokens[index - 1].isWord("COLLATE")
            guard token.text.utf8.first == UInt8(ascii: "\""), !isCalled, !isCollation,
                !columns.contains(SQLText.folded(token.unquoted))
            else { return token }
            return SQLToken(kind: .string, text: SQLText.literal(token.unquoted))
        }
    }
}

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

    /// Removes a trailing ASC or DESC. A COLLATE belongs to the expression.
    private static func withoutOrder(_ term: [SQLToken]) -> [SQLToken] {
        guard term.count > 1, let last = term.last, last.isWord("ASC") || last.isWord("DESC") else {
            return term
        }
        return term.dropLast()
    }
}

/// Whether an index's expression or condition can be computed for a row before it is written.
///
/// A BEFORE INSERT trigger knows NEW, but what it computes is not always what the index holds. NEW has no
/// affinity in a subquery's comparison. The expression may also fail for a row for which SQLite never
/// computes it, because a constraint or another trigger makes SQLite ignore the row.
struct ForeseeableExpression {
    private enum Class { case number, text, any }

    private var classes: Set<Class> = []
    private var compares = false
    private var hasNumbers = false
    private var hasTextOfNumbers = false
    private var hasFunctions = false

    /// Functions that never fail, and whose result depends only on their arguments.
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

    /// - Parameter columns: The affinities of the columns whose values are known beforehand, by folded
    ///   name.
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

    /// - Returns: How many tokens were read; nil if it may be anything.
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
            // Of such a column, only the storage class matters.
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

    /// After IS.
    private func comparesWithNull(_ tokens: ArraySlice<SQLToken>) -> Bool {
        (tokens.first?.isWord("NOT") == true ? tokens.dropFirst() : tokens).first?.isWord("NULL") == true
    }

    /// Whether no column's affinity converts the other operand.
    private var isIndependentOfAffinity: Bool {
        switch classes {
        case [], [.any]: true
        case [.number]: !hasTextOfNumbers && !hasFunctions
        case [.text]: !hasNumbers && !hasFunctions
        default: false
        }
    }
}
