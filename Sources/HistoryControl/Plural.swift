extension DefaultStringInterpolation {
    /// `1 store`, `2 stores`.
    package mutating func appendInterpolation(_ count: Int, _ noun: String) {
        appendLiteral(count == 1 ? "1 \(noun)" : "\(count) \(noun)s")
    }
}
