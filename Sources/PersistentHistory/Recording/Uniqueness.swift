/// A UNIQUE or PRIMARY KEY constraint, or a unique index.
struct Uniqueness: Sendable {
    struct Term: Sendable {
        /// A column's name, or the text of an expression.
        let text: String
        let isExpression: Bool
        let collation: String
    }
    let terms: [Term]
    /// The WHERE of a partial index.
    let condition: String?
    /// The columns of which a change may make another row stand in the way.
    let columns: [String]
    /// What computes the index's values and only the application has: a function, a collation. Mostly nil.
    let missing: String?
    /// Whether NEW tells, before it is written, which rows it will push out.
    let isForeseeable: Bool

    var isPlain: Bool { condition == nil && !terms.contains(where: \.isExpression) }

    /// - Parameter automatic: The column whose value SQLite gives, if it does.
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
        // The number that SQLite gives to a row is known to indexes of columns by what we ask ourselves.
        if let automatic { known[SQLText.folded(automatic)] = nil }
        let computed = (expressions.compactMap(\.self) + [filter].compactMap(\.self)).allSatisfy {
            ForeseeableExpression.isForeseeable($0, of: known)
        }
        isForeseeable = plain && computed
    }

    /// What is in double quotes and no column is a string (https://www.sqlite.org/quirks.html).
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
