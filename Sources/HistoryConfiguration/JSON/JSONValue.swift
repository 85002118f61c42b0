/// A value of a JSON document, with the position where it begins.
struct JSONValue: Sendable {
    enum Content: Sendable {
        case null
        case bool(Bool)
        case number(JSONNumber)
        case string(String)
        case array([JSONValue])
        /// In the document's order, without the repetitions of a key.
        case object([JSONMember])
    }

    let content: Content
    let position: SourcePosition
}

struct JSONMember: Sendable {
    let key: String
    let keyPosition: SourcePosition
    let value: JSONValue
}

/// A number as it was written: a double alone would not hold every integer.
struct JSONNumber: Sendable {
    let text: String
    let double: Double

    /// Nil if the number has a fraction, or does not fit. `1.0` and `1e3` are integers, as in JSON Schema.
    var integer: Int? { Int(text) ?? Int(exactly: double) }
}

/// What was read: a value wherever the text made one, and everything that is wrong with the text.
struct JSONDocument: Sendable {
    struct Problem: Sendable {
        let position: SourcePosition
        let path: DocumentPath
        let message: String
    }

    let root: JSONValue?
    let problems: [Problem]
}
