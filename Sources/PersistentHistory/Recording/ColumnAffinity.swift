/// How a column converts what it is given (https://www.sqlite.org/datatype3.html, "Type Affinity").
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

    /// Whether SQLite may convert a parent's value, in the row that triggers see, while it looks for children
    /// in an index on a column of this affinity.
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
