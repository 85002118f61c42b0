/// A pattern of names: `*` stands for any number of characters, and `?` for one.
package struct NamePattern: Sendable, Hashable {
    package let text: String
    private let scalars: [Unicode.Scalar]

    package init(_ text: String) {
        self.text = text
        scalars = Array(text.unicodeScalars)
    }

    /// Whether the text may match more than one name.
    package static func isPattern(_ text: String) -> Bool {
        text.utf8.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: "?") }
    }

    /// Whether a text, which is a name or a pattern, matches a name.
    package static func matches(_ text: String, _ name: String) -> Bool {
        text.hasSameBytes(as: name) || isPattern(text) && NamePattern(text).matches(name)
    }

    package func matches(_ name: String) -> Bool {
        let name = Array(name.unicodeScalars)
        var (position, index) = (0, 0)
        // The last star, and the first character that it does not match. After each mismatch it matches
        // one more.
        var retry: (star: Int, next: Int)?
        while index < name.count {
            if position < scalars.count, scalars[position] == "*" {
                retry = (position, index)
                position += 1
            } else if position < scalars.count, scalars[position] == "?" || scalars[position] == name[index] {
                position += 1
                index += 1
            } else if let (star, next) = retry {
                retry = (star, next + 1)
                (position, index) = (star + 1, next + 1)
            } else {
                return false
            }
        }
        return scalars[position...].allSatisfy { $0 == "*" }
    }

    /// Whether a name exists that both match.
    package func intersects(_ other: NamePattern) -> Bool {
        let (a, b) = (scalars, other.scalars)
        // From the ends of both: whether the rests match a common name.
        var next = [Bool](repeating: false, count: b.count + 1)
        for i in stride(from: a.count, through: 0, by: -1) {
            var row = [Bool](repeating: false, count: b.count + 1)
            for j in stride(from: b.count, through: 0, by: -1) {
                let x = i < a.count ? a[i] : nil
                let y = j < b.count ? b[j] : nil
                row[j] =
                    switch (x, y) {
                    case (nil, nil): true
                    case ("*", _): next[j] || y != nil && row[j + 1]
                    case (_, "*"): row[j + 1] || x != nil && next[j]
                    case (let x?, let y?): (x == y || x == "?" || y == "?") && next[j + 1]
                    default: false
                    }
            }
            next = row
        }
        return next[0]
    }
}
