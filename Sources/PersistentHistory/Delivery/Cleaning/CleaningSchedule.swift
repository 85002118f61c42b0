/// Decides when a cleanup is due: pure values, without a clock.
struct CleaningSchedule: Sendable {
    let strategy: CleaningStrategy
    var lastCleaned: HistoryTimestamp?
    var notifications = 0

    /// The notifications that a turn takes: what came beyond, while it was held up, counts for the next one.
    ///
    /// - Parameter isHeldBack: Whether somebody has yet to process the newest transactions. The last notification was
    ///   perhaps theirs, and is not used up by a turn that did not reach them.
    func taken(isHeldBack: Bool) -> Int {
        guard case .byNotification(let times) = strategy, times > 0 else { return notifications }
        return max(0, notifications - notifications % times - (isHeldBack ? 1 : 0))
    }

    /// How long to wait until a cleanup is due; nil where only a notification can make it due.
    ///
    /// A clock that was set back does not put it off for longer than the strategy's time.
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
