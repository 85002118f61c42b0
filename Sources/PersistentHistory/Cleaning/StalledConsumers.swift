/// Finds the consumers that really hold back the cleaning: not those that are just working, but those that have
/// not moved for long. Each is reported once, until it has caught up.
struct StalledConsumers: Sendable {
    static let reportedAfter: Duration = .seconds(60)

    private var reported: Set<String> = []
    /// All that do not move, as of the last turn.
    private(set) var all: [String] = []
    /// Whether a consumer holds back the cleaning that has not been reported, and may be later.
    private(set) var isWatching = false

    /// Processes a turn of the cleaner.
    ///
    /// - Parameter blockers: Those that lag, with the time of the first transaction that they have not processed.
    /// - Returns: All that do not move, if there is a new one among them; otherwise none.
    mutating func standing(_ blockers: [(name: String, since: HistoryTimestamp)], now: HistoryTimestamp)
        -> [String]
    {
        let standing =
            blockers
            .filter { .milliseconds(now.milliseconds - $0.since.milliseconds) > Self.reportedAfter }
            .map(\.name)
        all = standing
        isWatching = standing.count < blockers.count
        defer { reported = Set(standing) }
        return reported.isSuperset(of: standing) ? [] : standing
    }
}
