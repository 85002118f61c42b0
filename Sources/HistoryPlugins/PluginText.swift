import HistoryConfiguration
import PersistentHistory

extension StringProtocol {
    /// What a plugin said, as the end of a sentence that another one may follow.
    var excerptAsSentence: String { excerpt.asSentence }

    /// What a plugin said, as part of a sentence: on one line, harmless to a terminal, and not long.
    var excerpt: String {
        let limit = 200
        let scalars = unicodeScalars.prefix(limit + 1)
        let text = String(String.UnicodeScalarView(scalars.prefix(limit))).printable
        return scalars.count > limit ? text + "…" : text
    }
}
