/// How long a consumer that lags has not moved.
///
/// There are two measures, and the shorter counts, so that no consumer is passed by without its fault.
/// By the wall clock: since its last move, or since the first transaction that it has not processed, if that is
/// later (before, there was nothing to do). By served time: while the store was not served, no consumer could
/// move; and setting the clock forward makes no consumer late.
enum StalledTime {
    /// - Parameters:
    ///   - firstMissing: The time of the first transaction that it has not processed.
    ///   - served: How long the store has been served in all.
    static func duration(
        of checkpoint: Checkpoint, newest: Int64, firstMissing: HistoryTimestamp?, now: HistoryTimestamp,
        served: Duration
    ) -> Duration {
        guard checkpoint.position < newest else { return .zero }
        let bySession = max(.zero, served - checkpoint.movedAtServed)
        let since = max(checkpoint.movedAt, firstMissing ?? checkpoint.movedAt)
        // A time in the future means nothing: the clock was set back.
        guard since <= now else { return bySession }
        return min(bySession, .milliseconds(now.milliseconds - since.milliseconds))
    }
}
