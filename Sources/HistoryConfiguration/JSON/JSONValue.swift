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

/// A position in a text file, counted as editors and compilers count it.
package struct SourcePosition: Sendable, Hashable, Comparable, CustomStringConvertible {
    /// From 1.
    package let line: Int
    /// From 1, in Unicode scalars.
    package let column: Int

    package var description: String { "\(line):\(column)" }

    package static func < (a: Self, b: Self) -> Bool {
        (a.line, a.column) < (b.line, b.column)
    }
}

/// The way from a document's root to a value: `stores[0].authors[1].batch`.
struct DocumentPath: Sendable, CustomStringConvertible {
    private enum Step: Sendable {
        case key(String)
        case index(Int)
    }

    private var steps: [Step] = []

    mutating func enter(key: String) { steps.append(.key(key)) }
    mutating func enter(index: Int) { steps.append(.index(index)) }
    mutating func leave() { steps.removeLast() }

    func entering(key: String) -> Self {
        var path = self
        path.enter(key: key)
        return path
    }

    func entering(index: Int) -> Self {
        var path = self
        path.enter(index: index)
        return path
    }

    /// A key that is no plain word is written in brackets and quotes, so that a path has one reading.
    var description: String {
        var text = ""
        for step in steps {
            switch step {
            case .index(let index):
                text += "[\(index)]"
            case .key(let key) where key.isPlainWord:
                text += text.isEmpty ? key : "." + key
            case .key(let key):
                text += "[\(key.excerpt)]"
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
