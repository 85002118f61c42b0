/// How many tables of a plan are tracked in each transaction, and how long the store is left to others in between.
/// A pure value.
///
/// After each portion, every connection reads the whole schema again. So a portion has half as many tables as are
/// tracked already: with more tables there are larger portions, and hardly more of them.
///
/// Each table's triggers are made in one transaction. After an interruption, the next plan finds what is
/// left.
struct TrackingPortions: Sendable, Equatable {
    /// Up to this many tables are tracked in one transaction, or not at all.
    static let atOnce = 32
    /// How many tables the first of several portions has.
    private static let smallest = 16
    /// How long a portion may hold the write lock, unless it is a single table, or the schema takes longer to read.
    private static let longest: Duration = .milliseconds(200)

    /// How many tables are tracked.
    private var tracked = 0
    /// The limit that was found for tables that take long.
    private var most = Int.max

    /// How many of the remaining tables the next portion has.
    func size(of tables: Int) -> Int {
        tracked == 0 && tables <= Self.atOnce ? tables : min(max(tracked / 2, Self.smallest), most, tables)
    }

    /// Processes a portion.
    ///
    /// - Parameters:
    ///   - tables: How many tables it had.
    ///   - held: How long it held the write lock.
    ///   - reading: How long it took to read the schema afterwards.
    /// - Returns: For how much longer to leave the store to others.
    mutating func done(_ tables: Int, held: Duration, reading: Duration) -> Duration {
        tracked += tables
        most = held > max(Self.longest, reading) ? max(1, tables / 2) : max(tables * 2, Self.smallest)
        // Who does not wait for a lock is refused in a quarter of the time at most.
        return min(max(held, .milliseconds(2)), Self.longest) * 3
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
