/// How long a consumer has left something undone.
///
/// Two measures, of which the shorter counts, so that nobody is passed by for what is not its fault.
/// By the wall clock: since it moved last, or since what it has not had was made, if that is later
/// (who had everything stood still for no reason). By served time: while nobody served the store
/// nobody could move, and a clock that is set forward makes nobody late.
enum Standstill {
    /// - Parameters:
    ///   - firstMissing: When the first transaction that it has not had was made.
    ///   - served: How long the store has been served in all.
    static func duration(
        of checkpoint: Checkpoint, newest: Int64, firstMissing: HistoryTimestamp?, now: HistoryTimestamp,
        served: Duration
    ) -> Duration {
        guard checkpoint.position < newest else { return .zero }
        let bySession = max(.zero, served - checkpoint.movedAtServed)
        let since = max(checkpoint.movedAt, firstMissing ?? checkpoint.movedAt)
        // A time that is yet to come says nothing: the clock was set back.
        guard since <= now else { return bySession }
        return min(bySession, .milliseconds(now.milliseconds - since.milliseconds))
    }
}
