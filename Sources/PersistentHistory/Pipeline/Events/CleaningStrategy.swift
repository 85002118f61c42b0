/// When history is cleaned.
public enum CleaningStrategy: Sendable, Hashable, Codable {
    /// Only manually.
    case none
    /// At most once in this time, which restarts do not reset.
    case byDuration(Duration)
    /// After this number of notifications that brought new history, no matter which consumers they concern. Several
    /// commits that one check finds count as one.
    case byNotification(times: Int)
}

extension CleaningStrategy {
    /// At most once in this number of seconds, which restarts do not reset.
    public static func byDuration(seconds: Double) -> CleaningStrategy { .byDuration(.seconds(seconds)) }

    /// The time between two turns, if the strategy has one.
    var interval: Duration? { if case .byDuration(let interval) = self { interval } else { nil } }
}
