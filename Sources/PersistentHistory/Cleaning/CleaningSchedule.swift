/// When history is cleaned.
public enum CleaningStrategy: Sendable, Hashable {
    /// Only by hand.
    case none
    /// At most once in this time, which restarts do not reset.
    case byDuration(Duration)
    /// After this number of passes that delivered something.
    case byNotification(times: Int)
}

/// Decides when a cleanup is due: pure values, without a clock.
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
