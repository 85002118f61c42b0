/// How long each attempt at a solo transaction keeps the store to itself, and how long it leaves it to others after
/// a refusal: a pure value.
///
/// The first attempts only look, and cost others nothing: most stores have moments without a transaction. Where none
/// is found, an attempt keeps new transactions from beginning until those in progress have ended. It does so for at
/// most a twentieth of the time.
struct SoloPace: Sendable, Equatable {
    /// How many attempts only look.
    static let looks = 3
    /// An attempt waits no longer for the transactions in progress.
    static let longestWait: Duration = .milliseconds(64)
    /// How many times longer than an attempt has waited the store is left alone.
    static let restraint = 20

    private(set) var level = 0

    /// How long the next attempt waits for the transactions in progress.
    var wait: Duration {
        level < Self.looks ? .zero : min(.milliseconds(2) * (1 << (level - Self.looks)), Self.longestWait)
    }

    /// Processes a refusal.
    ///
    /// - Parameter chance: From 0 up to 1. Two rhythms that are alike would never leave each other's pace.
    /// - Returns: How long to leave the store alone.
    mutating func refused(chance: Double) -> Duration {
        let pause = max(.milliseconds(1) * (1 << min(level, 5)), wait * Self.restraint)
        if wait < Self.longestWait { level += 1 }
        return pause * (0.5 + chance)
    }

    /// What was enough once is likely to be soon again.
    mutating func entered() { level = max(0, level - 1) }
}

/// Connections that stay in their transaction for long: a backup, a replication tool, a cursor that was never closed.
///
/// Such a connection is not waited for if what it sees is outdated: it cannot write any more, whatever is committed.
struct StayingReaders: Sendable {
    /// A transaction that has lasted for this long stays.
    static let threshold: Duration = .seconds(1)

    private var seen: [Int: (mark: UInt32, since: ContinuousClock.Instant)] = [:]

    /// The read marks of those that stay, one bit each.
    private(set) var marks: UInt32 = 0

    /// Processes a look.
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
