/// Decides when a cleanup is due. Pure values without a clock.
struct CleaningSchedule: Sendable {
    let strategy: CleaningStrategy
    var lastCleaned: HistoryTimestamp?
    var notifications = 0

    /// The notifications that a turn uses up. Those that came beyond, while it was held up, count for the
    /// next turn.
    ///
    /// - Parameter isHeldBack: Whether a consumer has yet to process the newest transactions. The last
    ///   notification may be for those, and a turn that did not reach them does not use it up.
    func taken(isHeldBack: Bool) -> Int {
        guard case .byNotification(let times) = strategy, times > 0 else { return notifications }
        return max(0, notifications - notifications % times - (isHeldBack ? 1 : 0))
    }

    /// How long to wait until a cleanup is due; nil if only a notification can make it due.
    ///
    /// A clock that was set back delays it by no more than the strategy's time.
    func delay(now: HistoryTimestamp) -> Duration? {
        guard case .byDuration(let interval) = strategy else { return nil }
        guard let lastCleaned, lastCleaned <= now else { return .zero }
        let elapsed = Duration.milliseconds(now.milliseconds - lastCleaned.milliseconds)
        return max(.zero, interval - elapsed)
    }

    func isDue(now: HistoryTimestamp) -> Bool {
        switch strategy {
        case .none: false
        case .byDuration: delay(now: now) == .zero
        case .byNotification(let times): notifications >= times
        }
    }
}

/// Finds the consumers that hold back the cleaning because they have not moved for long, not because they
/// are still working. Each is reported once until it has caught up.
struct StalledConsumers: Sendable {
    static let reportedAfter: Duration = .seconds(60)

    private var reported: Set<String> = []
    /// All stalled consumers, as of the last turn.
    private(set) var all: [String] = []
    /// Whether a consumer that has not been reported holds back the cleaning, and may have to be reported
    /// later.
    private(set) var isWatching = false

    /// Processes a turn of the cleaner.
    ///
    /// - Parameter blockers: The lagging consumers, with the time of the first transaction that they have
    ///   not processed.
    /// - Returns: All stalled consumers if one of them is new; otherwise none.
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
