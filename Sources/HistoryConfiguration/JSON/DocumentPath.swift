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
