/// Tells who really holds back the cleaning: not everybody who is just at work, but those who have
/// left something undone for long. Each is told of once, until it has caught up.
struct StandstillWatch: Sendable {
    static let reportedAfter: Duration = .seconds(60)

    private var told: Set<String> = []
    /// All who stand still as of the last turn.
    private(set) var all: [String] = []
    /// Whether somebody holds back the cleaning who has not been reported, and may be later.
    private(set) var isWatching = false

    /// Takes in a turn of the cleaner.
    ///
    /// - Parameter blockers: Those who have not had everything, with the time of what they have not had.
    /// - Returns: All who stand still, if there is somebody new among them; otherwise nobody.
    mutating func standing(_ blockers: [(name: String, since: HistoryTimestamp)], now: HistoryTimestamp)
        -> [String]
    {
        let standing =
            blockers
            .filter { .milliseconds(now.milliseconds - $0.since.milliseconds) > Self.reportedAfter }
            .map(\.name)
        all = standing
        isWatching = standing.count < blockers.count
        defer { told = Set(standing) }
        return told.isSuperset(of: standing) ? [] : standing
    }
}
