import GRDB
internal import Glibc

/// Carries out a plan a few tables at a time, each time in its own transaction. SQLite reads the whole
/// schema for each new trigger, so a thousand tables take minutes, and no writer can wait that long.
///
/// Each table's triggers are made in one transaction. After an interruption, the next plan finds what is
/// left.
struct TrackingPortions {
    /// Up to this many tables are tracked in one transaction, or not at all.
    static let most = 32
    /// How long a portion should hold the write lock, unless it is a single table.
    private static let target: Duration = .milliseconds(30)

    private var size = 4

    /// How many tables the next portion has.
    func size(of plan: TrackingPlan) -> Int { plan.steps.count <= Self.most ? plan.steps.count : size }

    /// Leaves the store to others for as long as it was held.
    mutating func pause(after duration: Duration) {
        if duration > Self.target { size = max(1, size / 2) } else { size = min(Self.most, size * 2) }
        let pause = min(max(duration, .milliseconds(2)), .milliseconds(200))
        usleep(UInt32(clamping: pause.microseconds))
    }
}

extension Tracking.Outcome {
    /// Adds the outcome of a later portion.
    mutating func add(_ other: Self) {
        added += other.added
        updated += other.updated
        dropped += other.dropped
        recreated += other.recreated
        beganAgain = beganAgain || other.beganAgain
        (doubts, unfit) = (other.doubts, other.unfit)
    }
}
