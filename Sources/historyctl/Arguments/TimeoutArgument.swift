import ArgumentParser
import HistoryConfiguration
import PersistentHistory

/// How long the daemon's answer may take, with the text of the argument.
struct TimeoutArgument {
    static let byDefault: Duration = .seconds(30)
    /// The margin for requests that the daemon itself limits: it answers when the time is up.
    static let grace: Duration = .seconds(5)

    let text: String
    let duration: Duration

    init(_ text: String) throws {
        guard let duration = Duration(configured: text) else {
            throw ValidationError("\"\(text.printable)\" is not a duration: seconds, or 500ms, 5s, 3m, 2h, 7d.")
        }
        self.text = text
        self.duration = duration
    }
}
