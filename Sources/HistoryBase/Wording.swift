extension DefaultStringInterpolation {
    /// `1 store`, `2 stores`.
    package mutating func appendInterpolation(_ count: Int, _ noun: String) {
        appendLiteral(count == 1 ? "1 \(noun)" : "\(count) \(noun)s")
    }
}

extension Duration {
    /// `100 ms`, `2.5 s`.
    package var text: String {
        let milliseconds = milliseconds
        if milliseconds < 1000 { return "\(milliseconds) ms" }
        return milliseconds % 1000 == 0 ? "\(milliseconds / 1000) s" : "\(Double(milliseconds) / 1000) s"
    }
}

extension Sequence where Element: CustomStringConvertible {
    /// `"a", "b"`.
    package var quoted: String { map { "\"\($0)\"" }.joined(separator: ", ") }
}

extension StringProtocol {
    /// With a full stop, unless it already ends like a sentence.
    package var asSentence: String { last.map { ".!?…".contains($0) } ?? false ? String(self) : self + "." }
}
