/// How much is deleted in one step, and how long the store is left to others after it.
///
/// A step holds the write lock. A writer that needs it meanwhile sleeps and tries again, for longer
/// each time; so a step is short, and where others write, steps are so rare that a writer hardly ever
/// meets one.
struct CleaningPace: Sendable {
    /// What a step should take.
    static let target: Duration = .milliseconds(1)
    /// Between two steps, if no one else writes: twice as long as a step, so that a new writer gets the lock.
    static let usualPause = 2
    /// If another process writes: the cleaner holds the lock for at most a two-hundredth of the time.
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

    /// What others have done between two steps.
    struct Others {
        /// Whether another process has committed.
        var wrote = false
        /// How many changes they have recorded, and in what time.
        var changes: Int64 = 0
        var time: Duration = .zero
    }

    /// Takes in a step.
    ///
    /// - Parameters:
    ///   - duration: How long it held the lock.
    ///   - done: How much it did.
    /// - Returns: How long to leave the store alone: never for so long that others record half as much
    ///   as a step deletes, or the cleaning would not come to an end.
    mutating func pause(after duration: Duration, done: Int, others: Others) -> Duration {
        if duration > Self.target {
            size = max(sizes.lowerBound, size / 2)
        } else if duration < Self.target / 2 {
            size = min(sizes.upperBound, size * 2)
        }
        care = others.wrote ? Self.stepsOfCare : max(0, care - 1)
        var pause = duration * (care > 0 ? Self.longPause : Self.usualPause)
        if others.changes > 0, done > 0 {
            pause = min(pause, others.time * Double(done) / Double(2 * others.changes))
        }
        // A disk that is slow for a moment is no reason to sleep for minutes.
        return min(max(pause, duration * Self.usualPause, .milliseconds(1)), .seconds(1))
    }
}
