/// A duration in the configuration's notation: `500ms`, `5s`, `3m`, `2h`, `7d`, `1.5h`.
struct DurationText {
    let text: String
    let duration: Duration

    static let expected = "a duration: seconds, or text such as \"500ms\", \"5s\", \"3m\", \"2h\" or \"7d\""
    static let none = DurationText(text: "0", duration: .zero)
    static let shortest = DurationText(text: "1ms", duration: .milliseconds(1))
    /// A hundred years: more is a mistake, and sums of such durations would overflow.
    static let longest = DurationText(text: "36500d", duration: .seconds(36500 * 86400))
    /// For a delay that doubles with each attempt.
    static let longestDelay = DurationText(text: "7d", duration: .seconds(7 * 86400))

    /// For a delivery that is delayed on purpose.
    static let longestWindow = DurationText(text: "1h", duration: .seconds(3600))

    private init(text: String, duration: Duration) {
        self.text = text
        self.duration = duration
    }

    /// Nil if the text is not a number with a unit.
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

    /// Rounds to the nanosecond, so that 0.1 is exact. Values beyond any sensible range are clamped to just
    /// outside the allowed range.
    static func duration(seconds: Double) -> Duration {
        let limit = 2 * 36500 * 86400.0
        let nanoseconds = (min(max(seconds, -limit), limit) * 1e9).rounded()
        return .nanoseconds(Int64(nanoseconds))
    }
}

extension Duration {
    /// Reads a duration in the configuration's notation: `500ms`, `7d`, or a number of seconds. Nil for
    /// anything else, and for more than a hundred years.
    package init?(configured text: String) {
        guard let read = DurationText(text) ?? DurationText("\(text)s"), read.duration >= .zero,
            read.duration <= DurationText.longest.duration
        else { return nil }
        self = read.duration
    }
}
