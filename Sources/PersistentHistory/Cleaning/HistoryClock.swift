/// Where the time comes from: the wall clock, which may be set back and forward, and a clock that
/// only runs. Tests bring their own.
package struct HistoryClock: Sendable {
    /// What the wall clock shows.
    package let wall: @Sendable () -> HistoryTimestamp
    /// Monotonic time, which setting the clock does not change.
    package let elapsed: @Sendable () -> Duration

    /// The machine's clocks. While it is suspended, nothing can be served, and no time elapses.
    package static let system = HistoryClock(wall: { .now }, elapsed: { SuspendingClock.now - start })

    private static let start = SuspendingClock.now
}
