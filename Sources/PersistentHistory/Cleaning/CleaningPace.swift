/// How much is deleted in one step, and how long the store is left to others after it.
///
/// A step holds the write lock, and whoever wants it meanwhile sleeps and asks again, for longer
/// each time; so a step is short, and where others write, steps are so rare that a writer hardly ever
/// meets one.
struct CleaningPace: Sendable {
    /// What a step should take.
    static let target: Duration = .milliseconds(1)
    /// Between two steps, where nobody else writes: twice as long, so that a writer who comes gets in.
    static let usualPause = 2
    /// Where somebody does: the cleaner holds the lock for at most a two-hundredth of the time.
    static let longPause = 200
    /// For how many steps after another's commit.
    static let stepsOfCare = 10

    /// How much to do in the next step.
    private(set) var size: Int
    private let sizes: ClosedRange<Int>
    private var care = 0

    init(size: Int, in sizes: ClosedRange<Int>) {
        self.size = size
        self.sizes = sizes
    }

    /// Takes in a step.
    ///
    /// - Parameters:
    ///   - duration: How long it held the lock.
    ///   - othersWrote: Whether somebody else has committed since the step before.
    /// - Returns: How long to leave the store alone.
    mutating func pause(after duration: Duration, othersWrote: Bool) -> Duration {
        if duration > Self.target {
            size = max(sizes.lowerBound, size / 2)
        } else if duration < Self.target / 2 {
            size = min(sizes.upperBound, size * 2)
        }
        care = othersWrote ? Self.stepsOfCare : max(0, care - 1)
        let pause = duration * (care > 0 ? Self.longPause : Self.usualPause)
        // A disk that is slow for a moment is no reason to sleep for minutes.
        return min(max(pause, .milliseconds(1)), .seconds(1))
    }
}
