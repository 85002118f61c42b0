/// Where the time comes from: the wall clock, which may be set back and forward, and a clock that
/// only runs. Tests bring their own.
public struct HistoryClock: Sendable {
    /// What the wall clock shows.
    public let wall: @Sendable () -> HistoryTimestamp
    /// Time since some moment, which nobody sets.
    public let elapsed: @Sendable () -> Duration

    public init(
        wall: @escaping @Sendable () -> HistoryTimestamp, elapsed: @escaping @Sendable () -> Duration
    ) {
        self.wall = wall
        self.elapsed = elapsed
    }

    /// The machine's clocks.
    public static let system = HistoryClock(wall: { .now }, elapsed: { ContinuousClock.now - start })

    private static let start = ContinuousClock.now
}
