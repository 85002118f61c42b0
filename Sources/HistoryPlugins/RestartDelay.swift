/// How long to wait before a coprocess is started again: the first time not at all, then from
/// 100 ms doubling up to 30 s, until it has shown that it works.
struct RestartDelay: Sendable, Hashable {
    static let first: Duration = .milliseconds(100)
    static let longest: Duration = .seconds(30)

    private var upcoming: Duration = .zero

    mutating func next() -> Duration {
        defer { upcoming = upcoming == .zero ? Self.first : min(upcoming * 2, Self.longest) }
        return upcoming
    }

    mutating func reset() { upcoming = .zero }
}
