internal import PersistentHistory

/// Terms that configuration and manifests share: names, paths, durations, versions.
extension DocumentNode {
    /// The longest name in bytes of UTF-8: the extension stores no more of an author.
    static let longestName = 255
    /// PATH_MAX of Linux.
    private static let pathLimit = 4096

    /// A name that is neither empty nor too long, and has no invisible characters.
    func name(expected: String = "a name") -> String? {
        guard let text = text(expected: expected) else { return nil }
        guard text.utf8.count <= Self.longestName else {
            report("expected at most \(Self.longestName) bytes, found \(text.utf8.count)")
            return nil
        }
        return text
    }

    /// At least one name, without duplicates; only known names if these are given.
    func names(_ expected: String, of kind: String = "name", known: [String]? = nil) -> [String]? {
        guard let nodes = list(expected: expected) else { return nil }
        if nodes.isEmpty { report("expected \(expected), found an empty list") }
        var seen: [BinaryText: DocumentNode] = [:]
        let names = nodes.compactMap { node -> String? in
            guard let name = node.name() else { return nil }
            if let earlier = seen[name] {
                node.report("\(kind) \(name.quoted) is already given at \(earlier.location)")
                return nil
            }
            seen[name] = node
            return name
        }
        let knownNames = known.map { Set<BinaryText>(names: $0) }
        for (name, node) in seen where knownNames?.contains(name) == false {
            node.reportUnknown(kind, name.text, known: known ?? [])
        }
        return names.count == nodes.count ? names : nil
    }

    /// A name of letters, digits, ".", "_" and "-".
    func plainName(expected: String) -> String? {
        guard let name = string(expected: expected) else { return nil }
        guard name.utf8.count <= Self.longestName, name.wholeMatch(of: /[A-Za-z0-9._-]+/) != nil else {
            report(expected: expected)
            return nil
        }
        return name
    }

    /// A path, made absolute. Links are not resolved: the file may be created later.
    func filePath(expected: String = "a path") -> String? {
        guard let text = text(expected: expected) else { return nil }
        guard text.utf8.count < Self.pathLimit else {
            report("expected a path of less than \(Self.pathLimit) bytes, found \(text.utf8.count)")
            return nil
        }
        // A folder with the literal name "~" would be used.
        guard text != "~", !text.hasPrefix("~/") else {
            report("expected a whole path: \"~\" is a shell's word for a home, write it out, or ${HOME}")
            return nil
        }
        return text.utf8.first == UInt8(ascii: "/") ? text : "\(source.folder)/\(text)"
    }

    /// The members of a whole document, besides the common ones.
    func document(_ known: [String]) -> Fields? {
        guard let fields = fields(["$schema", "version"] + known) else { return nil }
        _ = fields["$schema"]?.string()
        fields.required("version", "1, the version of the format")?.version()
        return fields
    }

    /// Checks for the only existing version, so that a later format is refused by its version and not by its
    /// keys.
    private func version() {
        if case .number(let number) = value.content, number.integer == 1 { return }
        report(expected: "1, the version of the format")
    }

    /// A duration: seconds, or a string with a unit.
    func duration(from least: DurationText = .shortest, upTo limit: DurationText = .longest) -> Duration? {
        let duration: Duration?
        switch value.content {
        case .number(let number): duration = DurationText.duration(seconds: number.double)
        case .string(let text): duration = DurationText(text)?.duration
        default: duration = nil
        }
        guard let duration else {
            report(expected: DurationText.expected)
            return nil
        }
        guard duration >= least.duration, duration <= limit.duration else {
            report(expected: "a duration from \(least.text) through \(limit.text)")
            return nil
        }
        return duration
    }

    /// Reports a reference to something that does not exist.
    func reportUnknown(_ kind: String, _ name: String, known: [String]) {
        let hint = NearestName.of(name, in: known).map { "; did you mean \($0.quoted)?" } ?? "."
        let allowed = known.isEmpty ? "There is none" : "Known: \(known.listed)"
        report("unknown \(kind) \(name.quoted)\(hint) \(allowed)")
    }

    /// A string that is not empty and has no invisible characters.
    func text(expected: String) -> String? {
        guard let text = string(expected: expected) else { return nil }
        if text.isEmpty {
            report("expected \(expected), found an empty string")
            return nil
        }
        if text.hasControlCharacters {
            report("expected \(expected) without control characters, found \(text.quotedExcerpt)")
            return nil
        }
        return text
    }
}

extension Fields {
    /// A name that is unique among its kind.
    func name(as kind: String, _ names: inout Claims) -> String? {
        guard let node = required("name", "a name"), let name = node.name() else { return nil }
        return names.claim(name, at: node, as: kind) ? name : nil
    }
}

/// Names that must be unique, with their positions. Two names that look the same (`String` compares them as
/// equal) count as one: such consumers or contexts could not be told apart.
struct Claims {
    private var first: [String: DocumentNode] = [:]

    subscript(name: String) -> DocumentNode? { first[name] }

    var all: some Sequence<(key: String, value: DocumentNode)> { first }

    /// Returns false, and reports it, if the name is taken.
    mutating func claim(_ name: String, at node: DocumentNode, as kind: String) -> Bool {
        if let earlier = first[name] {
            node.report("\(kind) \(name.quoted) is already given at \(earlier.location)")
            return false
        }
        first[name] = node
        return true
    }
}
