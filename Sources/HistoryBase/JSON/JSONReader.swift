/// Reads JSON (RFC 8259) and keeps the position of every key and value.
///
/// It is for files written by hand. After a mistake that leaves the structure clear (a duplicate key, a tab
/// inside a string), it notes the problem and continues, so that several are reported at once. After any other
/// mistake it stops. For any input it ends with a value or a problem, in bounded depth.
package struct JSONReader {
    /// The maximum nesting of lists and objects.
    static let maximumDepth = 128

    private var input: JSONInput
    private var path = DocumentPath()
    private var problems: [JSONDocument.Problem] = []

    package static func read(_ bytes: [UInt8]) -> JSONDocument {
        var reader = JSONReader(input: JSONInput(bytes))
        let root = reader.document()
        return JSONDocument(root: root, problems: reader.problems)
    }

    /// Stops reading. The problem itself has been reported.
    private struct Stop: Error {}

    private mutating func document() -> JSONValue? {
        if let invalid = input.firstInvalidByte {
            input.index = invalid
            note("not UTF-8; JSON must be UTF-8")
            return nil
        }
        if input.skipByteOrderMark() {
            note("the file begins with a byte order mark; save it as UTF-8 without one")
        }
        do throws(Stop) {
            input.skipWhitespace()
            let root = try value(depth: 0)
            input.skipWhitespace()
            if input.peek != nil { throw stop(expected: "the end of the file") }
            return root
        } catch {
            return nil
        }
    }

    private mutating func value(depth: Int) throws(Stop) -> JSONValue {
        let position = input.position
        let content: JSONValue.Content
        guard let byte = input.peek else { throw stop(expected: "a value") }
        switch byte {
        case UInt8(ascii: "{"): content = .object(try object(depth: depth + 1))
        case UInt8(ascii: "["): content = .array(try array(depth: depth + 1))
        case UInt8(ascii: "\""): content = .string(try string())
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): content = .number(try number())
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
            content = try literal()
        default: throw stop(expected: "a value")
        }
        return JSONValue(content: content, position: position)
    }

    // MARK: Objects and lists

    private mutating func object(depth: Int) throws(Stop) -> [JSONMember] {
        try open(depth: depth)
        var members: [JSONMember] = []
        var first: [BinaryText: SourcePosition] = [:]
        if input.take("}") { return members }
        while true {
            guard input.peek == UInt8(ascii: "\"") else {
                let closed = input.peek == UInt8(ascii: "}")
                throw stop(expected: closed ? "another key after the comma" : "a key in double quotes")
            }
            let keyPosition = input.position
            let key = try string()
            let earlier = first[key]
            if let earlier {
                note("key \(key.quotedExcerpt) is given twice, first at \(earlier)", at: keyPosition)
            } else {
                first[key] = keyPosition
            }
            input.skipWhitespace()
            guard input.take(":") else { throw stop(expected: "\":\" after the key") }
            input.skipWhitespace()
            path.enter(key: key)
            let member = JSONMember(key: key, keyPosition: keyPosition, value: try value(depth: depth))
            path.leave()
            if earlier == nil { members.append(member) }
            if try close("}") { return members }
        }
    }

    private mutating func array(depth: Int) throws(Stop) -> [JSONValue] {
        try open(depth: depth)
        var values: [JSONValue] = []
        if input.take("]") { return values }
        while true {
            if !values.isEmpty, input.peek == UInt8(ascii: "]") {
                throw stop(expected: "another value after the comma")
            }
            path.enter(index: values.count)
            values.append(try value(depth: depth))
            path.leave()
            if try close("]") { return values }
        }
    }

    private mutating func open(depth: Int) throws(Stop) {
        if depth > Self.maximumDepth {
            throw stop("lists and objects are nested more than \(Self.maximumDepth) deep")
        }
        input.index += 1
        input.skipWhitespace()
    }

    /// After a value: returns whether the object or list ends here, and expects a comma otherwise.
    private mutating func close(_ end: Unicode.Scalar) throws(Stop) -> Bool {
        input.skipWhitespace()
        if input.take(end) { return true }
        guard input.take(",") else { throw stop(expected: "\",\" or \"\(end)\"") }
        input.skipWhitespace()
        return false
    }

    // MARK: Scalars

    private mutating func literal() throws(Stop) -> JSONValue.Content {
        let word = input.word
        switch word {
        case "null":
            input.index += 4
            return .null
        case "true":
            input.index += 4
            return .bool(true)
        case "false":
            input.index += 5
            return .bool(false)
        default:
            let near = NearestName.of(word, in: ["true", "false", "null"]).map { "; did you mean \($0)?" }
            throw stop(
                "expected a value, found \(word.quotedExcerpt)\(near ?? "") (a string needs double quotes)")
        }
    }

    private mutating func number() throws(Stop) -> JSONNumber {
        let start = input.index
        let position = input.position
        _ = input.take("-")
        if input.take("0") {
            if input.digits() > 0 { throw stop("a number must not begin with 0", at: position) }
        } else if input.digits() == 0 {
            throw stop(expected: "a digit")
        }
        if input.take("."), input.digits() == 0 { throw stop(expected: "a digit") }
        if input.take("e") || input.take("E") {
            if !input.take("+") { _ = input.take("-") }
            if input.digits() == 0 { throw stop(expected: "a digit") }
        }
        let text = input.text(from: start)
        let double = Double(text) ?? .infinity
        if !double.isFinite { note("a number out of range", at: position) }
        return JSONNumber(text: text, double: double.isFinite ? double : 0)
    }

    private mutating func string() throws(Stop) -> String {
        let start = input.position
        input.index += 1
        var text: [UInt8] = []
        while let byte = input.peek {
            switch byte {
            case UInt8(ascii: "\""):
                input.index += 1
                return String(decoding: text, as: UTF8.self)
            case UInt8(ascii: "\\"):
                text += Array(String(escape()).utf8)
                continue
            case UInt8(ascii: "\n"), UInt8(ascii: "\r"):
                throw stop("a string does not end on its line; the closing quote is missing", at: start)
            case 0..<0x20:
                let digits = String(byte, radix: 16)
                note("a control character in a string; write it as \\u00\(byte < 16 ? "0" : "")\(digits)")
            default:
                text.append(byte)
            }
            input.index += 1
        }
        throw stop("a string does not end; the closing quote is missing", at: start)
    }

    /// One escape, starting at its backslash. An invalid one is reported and becomes U+FFFD.
    private mutating func escape() -> Unicode.Scalar {
        let replacement: Unicode.Scalar = "\u{FFFD}"
        let position = input.position
        input.index += 1
        if let scalar = input.simpleEscape() { return scalar }
        guard input.take("u") else {
            note("an unknown escape; allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u0000", at: position)
            return replacement
        }
        guard let unit = input.hexUnit() else {
            note("\\u needs four hexadecimal digits", at: position)
            return replacement
        }
        if let scalar = Unicode.Scalar(unit) { return scalar }
        if UTF16.isLeadSurrogate(unit), input.take("\\u"), let trail = input.hexUnit(),
            UTF16.isTrailSurrogate(trail)
        {
            return UTF16.decode(UTF16.EncodedScalar([unit, trail]))
        }
        note("half of a surrogate pair, which is not a character", at: position)
        return replacement
    }

    // MARK: Problems

    private mutating func note(_ message: String, at position: SourcePosition? = nil) {
        let problem = JSONDocument.Problem(position: position ?? input.position, path: path, message: message)
        problems.append(problem)
    }

    private mutating func stop(_ message: String, at position: SourcePosition? = nil) -> Stop {
        note(message, at: position)
        return Stop()
    }

    private mutating func stop(expected: String) -> Stop {
        stop("expected \(expected), found \(input.found)")
    }
}
