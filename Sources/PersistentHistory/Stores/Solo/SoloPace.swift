/// How long each attempt at a solo transaction keeps the store to itself, and how long it leaves the
/// store to others after a refusal. A pure value.
///
/// The first attempts only look, which does not affect others: most stores have moments without a
/// transaction. If there is no such moment, an attempt holds back new transactions until those in
/// progress have ended. It does so for at most a twentieth of the time.
struct SoloPace: Sendable, Equatable {
    /// How many attempts only look.
    static let looks = 3
    /// The longest time that an attempt waits for the transactions in progress.
    static let longestWait: Duration = .milliseconds(64)
    /// The store is left alone this many times as long as an attempt has waited.
    static let restraint = 20

    private(set) var level = 0

    /// How long the next attempt waits for the transactions in progress.
    var wait: Duration {
        level < Self.looks ? .zero : min(.milliseconds(2) * (1 << (level - Self.looks)), Self.longestWait)
    }

    /// Processes a refusal.
    ///
    /// - Parameter chance: From 0 up to 1. Without it, two equal rhythms would never diverge.
    /// - Returns: How long to leave the store alone.
    mutating func refused(chance: Double) -> Duration {
        let pause = max(.milliseconds(1) * (1 << min(level, 5)), wait * Self.restraint)
        if wait < Self.longestWait { level += 1 }
        return pause * (0.5 + chance)
    }

    /// After a success, a shorter wait is likely to be enough.
    mutating func entered() { level = max(0, level - 1) }
}

/// Connections that stay in a transaction for long: a backup, a replication tool, a cursor that was never
/// closed.
///
/// Such a connection is ignored if its snapshot is outdated: it cannot write any more, whatever is
/// committed.
struct StayingReaders: Sendable {
    /// A transaction that has lasted this long counts as staying.
    static let threshold: Duration = .seconds(1)

    private var seen: [Int: (mark: UInt32, since: ContinuousClock.Instant)] = [:]

    /// The read marks of staying connections, one bit each.
    private(set) var marks: UInt32 = 0

    /// Processes the result of a look.
    mutating func look(_ readers: OtherReaders, now: ContinuousClock.Instant) {
        var looked: [Int: (mark: UInt32, since: ContinuousClock.Instant)] = [:]
        marks = 0
        for slot in readers.slots where readers.isOutdated(slot) {
            let mark = readers.marks[slot]
            let known = seen[slot].flatMap { $0.mark == mark ? $0.since : nil }
            looked[slot] = (mark, known ?? now)
            if let known, now - known >= Self.threshold { marks |= 1 << slot }
        }
        seen = looked
    }
}

/// The connections that are in a transaction, by the read marks that they hold
/// (https://www.sqlite.org/walformat.html).
struct OtherReaders: Sendable, Equatable {
    static let slotCount = 5

    var held: UInt32 = 0
    var outdated: UInt32 = 0
    var marks: [UInt32] = Array(repeating: 0, count: slotCount)

    var slots: [Int] { (0..<Self.slotCount).filter { held >> $0 & 1 == 1 } }

    func isOutdated(_ slot: Int) -> Bool { outdated >> slot & 1 == 1 }
}
