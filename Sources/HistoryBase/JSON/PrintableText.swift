extension String {
    /// The text on one line, safe for a terminal: control and format characters are written as `\u{…}`.
    package var printable: String {
        var text = String.UnicodeScalarView()
        for scalar in unicodeScalars {
            if scalar.isHarmless {
                text.append(scalar)
            } else {
                text.append(contentsOf: "\\u{\(String(scalar.value, radix: 16))}".unicodeScalars)
            }
        }
        return String(text)
    }

    /// The text in double quotes, printable. For names and paths, whose length is bounded.
    package var quoted: String { "\"\(printable)\"" }

    /// The text in double quotes, printable, and truncated if it is long.
    package var quotedExcerpt: String {
        "\"\(printable(atMost: 60))\""
    }

    /// Whether it contains a control character (C0, DEL or C1), which no name has.
    package var hasControlCharacters: Bool {
        unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}

extension StringProtocol {
    /// The printable text of this many Unicode scalars at most, and `…` if there are more.
    package func printable(atMost limit: Int) -> String {
        let start = unicodeScalars.prefix(limit)
        let text = String(String.UnicodeScalarView(start)).printable
        return start.endIndex == unicodeScalars.endIndex ? text : text + "…"
    }
}

extension Unicode.Scalar {
    fileprivate var isHarmless: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse: false
        default: true
        }
    }
}

extension Collection where Element == String {
    /// `"a", "b" or "c"`.
    package var alternatives: String { joined(with: "or") }

    /// The first dozen, in quotes.
    package var listed: String {
        let shown = prefix(12).map(\.quoted).joined(separator: ", ")
        return count > 12 ? "\(shown) and \(count - 12) more" : shown
    }

    private func joined(with word: String) -> String {
        let quoted = map(\.quoted)
        guard let last = quoted.last, quoted.count > 1 else { return quoted.first ?? "" }
        return "\(quoted.dropLast().joined(separator: ", ")) \(word) \(last)"
    }
}
