/// A value of a JSON document, with its starting position.
package struct JSONValue: Sendable {
    package enum Content: Sendable {
        case null
        case bool(Bool)
        case number(JSONNumber)
        case string(String)
        case array([JSONValue])
        /// In document order, without duplicate keys.
        case object([JSONMember])
    }

    package let content: Content
    package let position: SourcePosition

    package init(content: Content, position: SourcePosition) {
        self.content = content
        self.position = position
    }
}

package struct JSONMember: Sendable {
    package let key: String
    package let keyPosition: SourcePosition
    package let value: JSONValue

    package init(key: String, keyPosition: SourcePosition, value: JSONValue) {
        self.key = key
        self.keyPosition = keyPosition
        self.value = value
    }
}

/// A number as written: a double cannot hold every integer.
package struct JSONNumber: Sendable {
    package let text: String
    package let double: Double

    /// Nil if the number has a fraction, or does not fit. `1.0` and `1e3` are integers, as in JSON Schema.
    package var integer: Int? { Int(text) ?? Int(exactly: double) }
}

/// The result of reading: a value if the text has one, and all problems of the text.
package struct JSONDocument: Sendable {
    package struct Problem: Sendable {
        package let position: SourcePosition
        package let path: DocumentPath
        package let message: String
    }

    package let root: JSONValue?
    package let problems: [Problem]
}

/// Accessors for readers that expect one type and treat any other as missing.
extension JSONValue {
    package var text: String? { if case .string(let text) = content { text } else { nil } }
    package var number: JSONNumber? { if case .number(let number) = content { number } else { nil } }
    package var bool: Bool? { if case .bool(let bool) = content { bool } else { nil } }
    package var array: [JSONValue]? { if case .array(let values) = content { values } else { nil } }
    package var isNull: Bool { if case .null = content { true } else { false } }

    /// The members, by the bytes of their names.
    package var object: [BinaryText: JSONValue]? {
        guard case .object(let members) = content else { return nil }
        return Dictionary(members.map { (BinaryText($0.key), $0.value) }) { first, _ in first }
    }
}

/// A position in a text file, counted as editors and compilers do.
package struct SourcePosition: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// From 1.
    package let line: Int
    /// From 1, in Unicode scalars.
    package let column: Int

    package init(line: Int, column: Int) {
        self.line = line
        self.column = column
    }

    package var description: String { "\(line):\(column)" }

    package static func < (a: Self, b: Self) -> Bool {
        (a.line, a.column) < (b.line, b.column)
    }
}

/// The path from a document's root to a value: `stores[0].authors[1].batch`.
package struct DocumentPath: Sendable, CustomStringConvertible {
    private enum Step: Sendable {
        case key(String)
        case index(Int)
    }

    private var steps: [Step] = []

    package init() {}

    mutating func enter(key: String) { steps.append(.key(key)) }
    mutating func enter(index: Int) { steps.append(.index(index)) }
    mutating func leave() { steps.removeLast() }

    package func entering(key: String) -> Self {
        var path = self
        path.enter(key: key)
        return path
    }

    package func entering(index: Int) -> Self {
        var path = self
        path.enter(index: index)
        return path
    }

    /// Other keys are written in brackets and quotes, so that a path is unambiguous.
    package var description: String {
        var text = ""
        for step in steps {
            switch step {
            case .index(let index):
                text += "[\(index)]"
            case .key(let key) where key.isPlainWord:
                text += text.isEmpty ? key : "." + key
            case .key(let key):
                text += "[\(key.quotedExcerpt)]"
            }
        }
        return text
    }
}

extension String {
    /// Letters, digits, `_`, `-` and `$` only.
    fileprivate var isPlainWord: Bool {
        !isEmpty && utf8.count <= 80
            && utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"),
                    UInt8(ascii: "$"):
                    true
                default: false
                }
            }
    }
}
