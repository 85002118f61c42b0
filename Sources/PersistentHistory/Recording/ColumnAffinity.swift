/// How a column converts values (https://www.sqlite.org/datatype3.html, "Type Affinity").
enum ColumnAffinity: Sendable, Equatable {
    case integer, text, blob, real, numeric

    init(declaredType: String, isStrict: Bool) {
        let type = declaredType.asciiUppercased
        if isStrict, type == "ANY" {
            self = .blob
        } else if type.contains("INT") {
            self = .integer
        } else if type.contains("CHAR") || type.contains("CLOB") || type.contains("TEXT") {
            self = .text
        } else if type.isEmpty || type.contains("BLOB") {
            self = .blob
        } else if type.contains("REAL") || type.contains("FLOA") || type.contains("DOUB") {
            self = .real
        } else {
            self = .numeric
        }
    }

    /// Whether SQLite may convert a parent's value, in the row that triggers see, while it searches an
    /// index on a column of this affinity for children.
    func mayConvert(_ parent: ColumnAffinity) -> Bool {
        switch (self, parent) {
        case (.blob, _), (.text, .text), (.text, .integer), (.text, .numeric), (.text, .real): false
        case (.integer, .integer), (.numeric, .numeric), (.integer, .numeric), (.numeric, .integer),
            (.real, .real):
            false
        default: true
        }
    }
}

/// A column's default, read from the text that `pragma_table_xinfo` returns
/// (https://www.sqlite.org/lang_createtable.html#the_default_clause).
struct ColumnDefault: Sendable, Equatable {
    /// The default as an expression that any statement can use.
    let sql: String
    /// Whether it is the same value each time.
    let isConstant: Bool

    private static let constants = [
        "NULL", "TRUE", "FALSE", "CURRENT_TIME", "CURRENT_DATE", "CURRENT_TIMESTAMP",
    ]
    private static let operators = ["+", "-", "(", ")", "||", "*", "/", "%"]

    /// - Parameter affinity: The affinity of the column that stores it. A comparison with a REAL column
    ///   does not round an integer as storing it does.
    init(_ text: String, storedIn affinity: ColumnAffinity = .blob) {
        let tokens = SQLTokens.tokens(text)
        func isCall(_ index: Int) -> Bool { index + 1 < tokens.count && tokens[index + 1].isSymbol("(") }
        // A default cannot name a column: a bare or quoted name in it is a string.
        let given =
            "("
            + tokens.enumerated().map { index, token in
                switch token.kind {
                case .quotedName where !isCall(index): SQLText.literal(token.unquoted)
                case .word where tokens.count == 1 && !Self.constants.contains(token.text.asciiUppercased):
                    SQLText.literal(token.text)
                default: token.text
                }
            }.joined(separator: " ") + ")"
        sql =
            affinity == .real
            ? "(CASE typeof(\(given)) WHEN 'integer' THEN CAST(\(given) AS REAL) ELSE \(given) END)" : given
        isConstant = tokens.enumerated().allSatisfy { index, token in
            switch token.kind {
            case .string, .number, .blob: true
            case .quotedName: !isCall(index)
            case .word: tokens.count == 1 || Self.constants.contains(token.text.asciiUppercased)
            case .symbol: Self.operators.contains(token.text)
            case .variable: false
            }
        }
    }
}
