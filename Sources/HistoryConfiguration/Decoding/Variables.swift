import HistoryBase

/// Variables in the strings of a configuration: `${NAME}`, `${NAME:-default}`, and `$$` for a dollar.
///
/// They come only from the service's environment, which no client or tenant can set. A dollar before anything
/// else stands for itself.
struct Variables: Sendable {
    enum Failure: Error, Equatable {
        /// The variable is not set, and has no default.
        case unset(String)
        /// No valid name follows `${`.
        case malformed
    }

    let value: @Sendable (_ name: String) -> String?

    /// Replaces the variables of a text.
    func expand(_ text: String) throws(Failure) -> String {
        guard text.utf8.contains(UInt8(ascii: "$")) else { return text }
        var result = String.UnicodeScalarView()
        var rest = text.unicodeScalars[...]
        while let scalar = rest.popFirst() {
            guard scalar == "$" else {
                result.append(scalar)
                continue
            }
            switch rest.first {
            case "$":
                rest.removeFirst()
                result.append("$")
            case "{":
                rest.removeFirst()
                guard let end = rest.firstIndex(of: "}") else { throw .malformed }
                result.append(contentsOf: try value(of: rest[..<end]).unicodeScalars)
                rest = rest[rest.index(after: end)...]
            default: result.append("$")
            }
        }
        return String(result)
    }

    private func value(of reference: Substring.UnicodeScalarView) throws(Failure) -> String {
        let name = reference.prefix { Self.isOfName($0) }
        guard let first = name.first, !("0"..."9").contains(first) else { throw .malformed }
        let found = value(String(name))
        let rest = reference[name.endIndex...]
        if rest.isEmpty {
            guard let found else { throw .unset(String(name)) }
            return found
        }
        guard rest.starts(with: ":-".unicodeScalars) else { throw .malformed }
        if let found, !found.isEmpty { return found }
        return String(Substring(rest.dropFirst(2)))
    }

    private static func isOfName(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar {
        case "a"..."z", "A"..."Z", "0"..."9", "_": true
        default: false
        }
    }
}

extension DocumentNode {
    /// A copy with the variables in its strings replaced. A problem is reported at its string, which is left
    /// unchanged.
    func expanding(_ variables: Variables) -> DocumentNode {
        let content: JSONValue.Content
        switch value.content {
        case .string(let text):
            do throws(Variables.Failure) {
                content = .string(try variables.expand(text))
            } catch {
                content = value.content
                switch error {
                case .unset(let name):
                    report(
                        "the variable \(name.quoted) is not set; set it in the service's environment, or write ${\(name):-default}"
                    )
                case .malformed:
                    report("expected ${NAME} or ${NAME:-default}, found \(text.quotedExcerpt); $$ is a dollar")
                }
            }
        case .array(let values):
            content = .array(
                values.enumerated().map { index, value in
                    DocumentNode(value: value, path: path.entering(index: index), source: source)
                        .expanding(variables).value
                })
        case .object(let members):
            content = .object(
                members.map { member in
                    JSONMember(
                        key: member.key, keyPosition: member.keyPosition,
                        value: DocumentNode(
                            value: member.value, path: path.entering(key: member.key), source: source
                        ).expanding(variables).value)
                })
        default: return self
        }
        return DocumentNode(
            value: JSONValue(content: content, position: value.position), path: path, source: source)
    }
}
