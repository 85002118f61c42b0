import HistoryConfiguration

extension StringProtocol {
    /// What a plugin said, as the end of a sentence that another one may follow.
    var excerptAsSentence: String {
        let text = excerpt
        return text.last.map { ".!?…".contains($0) } ?? false ? text : text + "."
    }

    /// What a plugin said, as part of a sentence: on one line, harmless to a terminal, and not long.
    var excerpt: String {
        let limit = 200
        let scalars = unicodeScalars.prefix(limit + 1)
        let text = String(String.UnicodeScalarView(scalars.prefix(limit))).printable
        return scalars.count > limit ? text + "…" : text
    }
}
