/// When history is cleaned.
public enum CleaningStrategy: Sendable, Hashable {
    case none
    /// At most once in this time, remembered over restarts.
    case byDuration(Duration)
    /// After so many passes that brought something.
    case byNotification(times: Int)
}

/// Decides when a cleanup is due, and how far it may go: pure values, no clock of its own.
struct CleaningSchedule: Sendable {
    let strategy: CleaningStrategy
    var lastCleaned: HistoryTimestamp?
    var passes = 0

    /// How long to wait until a cleanup is due; nil where only a pass can make it due.
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
        case .byNotification(let times): passes >= times
        }
    }
}

/// How far history may be deleted.
struct CleaningLimit: Equatable, Sendable {
    /// Everything up to here has been had by everybody; nil where somebody has had nothing yet.
    let number: Int64?
    /// Those who hold back the rest, the slowest first.
    let blockers: [String]

    /// - Parameters:
    ///   - consumers: Everybody who must have had a transaction before it goes.
    ///   - maximumDuration: How long a consumer may stand still before it blocks no longer.
    init(
        consumers: Set<String>, cursors: [String: Cursor], newest: Int64, now: HistoryTimestamp,
        maximumDuration: Duration?
    ) {
        let waiting = consumers.filter { consumer in
            guard let cursor = cursors[consumer], cursor.number < newest, let maximumDuration else {
                return true
            }
            return .milliseconds(now.milliseconds - cursor.movedAt.milliseconds) <= maximumDuration
        }
        let missing = waiting.filter { cursors[$0] == nil }.sorted()
        guard missing.isEmpty else {
            number = nil
            blockers = missing
            return
        }
        let places = waiting.compactMap { name in cursors[name].map { (name: name, number: $0.number) } }
        let slowest = places.map(\.number).min() ?? newest
        number = min(slowest, newest)
        blockers = places.filter { $0.number < newest }.sorted { ($0.number, $0.name) < ($1.number, $1.name) }
            .map(\.name)
    }
}
