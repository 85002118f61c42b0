import GRDB
internal import Glibc

/// Carries a plan out some tables at a time, each time in a transaction of its own, because SQLite reads the whole schema
/// for each trigger that it makes: a thousand tables take minutes, for which no writer can wait.
///
/// Each table's triggers are made at once. What is left after an interruption is found by the next plan.
struct TrackingPortions {
    /// So many tables are tracked at once, or not at all.
    static let most = 32
    /// How long a portion should hold the write lock, but for a single table.
    private static let target: Duration = .milliseconds(30)

    private var size = 4

    /// How many tables come next.
    func size(of plan: TrackingPlan) -> Int { plan.steps.count <= Self.most ? plan.steps.count : size }

    /// Leaves the store to others for as long as it was held.
    mutating func pause(after duration: Duration) {
        if duration > Self.target { size = max(1, size / 2) } else { size = min(Self.most, size * 2) }
        let pause = min(max(duration, .milliseconds(2)), .milliseconds(200))
        usleep(UInt32(clamping: pause.microseconds))
    }
}

extension Tracking.Outcome {
    /// Adds what came of a later portion.
    mutating func add(_ other: Self) {
        added += other.added
        updated += other.updated
        dropped += other.dropped
        recreated += other.recreated
        beganAgain = beganAgain || other.beganAgain
        (doubts, unfit) = (other.doubts, other.unfit)
    }
}
