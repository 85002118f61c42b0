internal import PersistentHistory

/// A value of a document that is being decoded, with its position and the list for its problems.
///
/// Every decoding method reports what is wrong and returns nil, so that a decoder can continue with the rest
/// and fail only at the end.
struct DocumentNode {
    /// The file of a value.
    struct Source {
        /// The path as it appears in messages.
        let file: String
        /// Absolute: relative paths start here.
        let folder: String
        let problems: ProblemList
    }

    let value: JSONValue
    let path: DocumentPath
    let source: Source

    /// Reads a document; nil if it has no value. All mistakes are reported, even those that leave a value.
    static func root(of bytes: [UInt8], source: Source) -> DocumentNode? {
        source.problems.begin(source.file)
        let document = JSONReader.read(bytes)
        for problem in document.problems {
            source.problems.report(
                ConfigurationProblem(
                    file: source.file, position: problem.position, keyPath: problem.path.description,
                    message: problem.message))
        }
        return document.root.map { DocumentNode(value: $0, path: DocumentPath(), source: source) }
    }

    /// `file:line:column`.
    var location: String { "\(source.file.printable):\(value.position)" }

    func report(_ message: String) {
        report(message, at: value.position, path: path)
    }

    func report(expected: String) {
        report("expected \(expected), found \(found)")
    }

    func report(_ message: String, at position: SourcePosition, path: DocumentPath) {
        source.problems.report(
            ConfigurationProblem(
                file: source.file, position: position, keyPath: path.description, message: message))
    }

    private var found: String {
        switch value.content {
        case .null: "null"
        case .bool(let bool): bool ? "true" : "false"
        case .number(let number): String(number.text.prefix(40))
        case .string(let text): text.quotedExcerpt
        case .array: "a list"
        case .object: "an object"
        }
    }

    // MARK: Scalars

    func bool() -> Bool? {
        if case .bool(let bool) = value.content { return bool }
        report(expected: "true or false")
        return nil
    }

    func integer(in range: ClosedRange<Int>) -> Int? {
        if case .number(let number) = value.content, let integer = number.integer, range.contains(integer) {
            return integer
        }
        report(expected: "a whole number from \(range.lowerBound) through \(range.upperBound)")
        return nil
    }

    func string(expected: String = "a string") -> String? {
        if case .string(let text) = value.content { return text }
        report(expected: expected)
        return nil
    }

    /// One of the strings that stand for the given values.
    func choice<Choice: RawRepresentable<String>>(_ choices: [Choice]) -> Choice? {
        let names = choices.map(\.rawValue)
        guard case .string(let text) = value.content else {
            report(expected: names.alternatives)
            return nil
        }
        if let choice = Choice(rawValue: text), names.contains(text) { return choice }
        let hint = NearestName.of(text, in: names).map { "; did you mean \($0.quoted)?" } ?? ""
        report("expected \(names.alternatives), found \(text.quotedExcerpt)\(hint)")
        return nil
    }

    // MARK: Lists and objects

    func list(expected: String = "a list") -> [DocumentNode]? {
        guard case .array(let values) = value.content else {
            report(expected: expected)
            return nil
        }
        return values.enumerated().map { index, value in
            DocumentNode(value: value, path: path.entering(index: index), source: source)
        }
    }

    /// The members of an object with arbitrary keys.
    func members(expected: String = "an object") -> [NamedNode]? {
        guard case .object(let members) = value.content else {
            report(expected: expected)
            return nil
        }
        return members.map { member in
            NamedNode(
                name: member.key, namePosition: member.keyPosition,
                node: DocumentNode(value: member.value, path: path.entering(key: member.key), source: source))
        }
    }

    /// The members of an object with known keys. Any other key is reported.
    func fields(_ known: [String]) -> Fields? {
        guard let members = members() else { return nil }
        for member in members where !known.contains(member.name) {
            let hint = NearestName.of(member.name, in: known).map { "; did you mean \($0.quoted)?" } ?? "."
            member.report("unknown key\(hint) Allowed: \(known.joined(separator: ", "))")
        }
        return Fields(object: self, members: members)
    }
}

/// A member of an object.
struct NamedNode {
    let name: String
    let namePosition: SourcePosition
    let node: DocumentNode

    /// Reports a problem at the key, not at its value.
    func report(_ message: String) {
        node.report(message, at: namePosition, path: node.path)
    }
}

/// An object's members by key.
struct Fields {
    let object: DocumentNode
    private let members: [BinaryText: NamedNode]

    fileprivate init(object: DocumentNode, members: [NamedNode]) {
        self.object = object
        // The reader has already removed duplicate keys.
        self.members = Dictionary(
            members.map { (BinaryText($0.name), $0) }, uniquingKeysWith: { first, _ in first })
    }

    subscript(key: String) -> DocumentNode? { members[key]?.node }

    func required(_ key: String, _ expected: String) -> DocumentNode? {
        if let node = self[key] { return node }
        object.report(
            "missing, expected \(expected)", at: object.value.position, path: object.path.entering(key: key))
        return nil
    }

    /// Reports a key that is not allowed here, if it is present.
    func refuse(_ key: String, _ reason: String) {
        members[key]?.report(reason)
    }
}
