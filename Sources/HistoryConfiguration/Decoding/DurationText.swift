/// A duration as people write it: `500ms`, `5s`, `3m`, `2h`, `7d`, `1.5h`.
struct DurationText {
    let text: String
    let duration: Duration

    static let expected = "a duration: seconds, or text such as \"500ms\", \"5s\", \"3m\", \"2h\" or \"7d\""
    static let none = DurationText(text: "0", duration: .zero)
    static let shortest = DurationText(text: "1ms", duration: .milliseconds(1))
    /// A hundred years: more is a slip, and would overflow when it is added up.
    static let longest = DurationText(text: "36500d", duration: .seconds(36500 * 86400))
    /// For a delay that doubles with each attempt.
    static let longestDelay = DurationText(text: "7d", duration: .seconds(7 * 86400))

    /// For what is delivered later on purpose.
    static let longestWindow = DurationText(text: "1h", duration: .seconds(3600))

    private init(text: String, duration: Duration) {
        self.text = text
        self.duration = duration
    }

    /// Nil if the text is no number with a unit.
    init?(_ text: String) {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        let point = UInt8(ascii: ".")
        let number = text.utf8.prefix { digits.contains($0) || $0 == point }
        let parts = number.split(separator: point, omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.allSatisfy({ !$0.isEmpty }),
            let value = Double(String(text[..<number.endIndex])),
            let unit = Self.seconds[String(text[number.endIndex...])]
        else { return nil }
        self.init(text: text, duration: Self.duration(seconds: value * unit))
    }

    private static let seconds: [String: Double] = ["ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400]

    /// To the nanosecond, so that 0.1 is what it says. What is out of any sensible range is cut to
    /// just outside of ours.
    static func duration(seconds: Double) -> Duration {
        let limit = 2 * 36500 * 86400.0
        let nanoseconds = (min(max(seconds, -limit), limit) * 1e9).rounded()
        return .nanoseconds(Int64(nanoseconds))
    }
}

extension Duration {
    /// Reads a duration as the configuration has them: `500ms`, `7d`, or a number of seconds. Nil where
    /// it is something else, or longer than a hundred years.
    package init?(configured text: String) {
        guard let read = DurationText(text) ?? DurationText("\(text)s"), read.duration >= .zero,
            read.duration <= DurationText.longest.duration
        else { return nil }
        self = read.duration
    }
}
