import GRDB

/// Deletes history that all consumers have processed, in steps so small that they hardly delay a writer.
///
/// The first step moves the floor to the goal. From then on a token below the floor has expired, so no
/// reader sees a partly deleted transaction. The progress is stored beside the floor, so that an
/// interrupted cleanup continues.
public struct HistoryCleaner: Sendable {
    /// How long a cleanup waits for a moment without other transactions before it is given up.
    static let timeout: Duration = .seconds(20)

    let path: String
    let rule: DeliveryRule

    /// A cleaner of one store. The rule decides whether history of mirroring and unlisted authors is
    /// kept.
    public init(path: String, rule: DeliveryRule) {
        self.path = path
        self.rule = rule
    }

    /// What a cleanup deleted.
    public typealias Outcome = CleaningOutcome

    /// Deletes changes up to a position, except those of authors that the rule does not cover.
    ///
    /// - Parameters:
    ///   - limit: The number of a token that all consumers have processed.
    ///   - shouldStop: Called between steps.
    /// - Throws: `HistoryError`.
    public func clean(
        through limit: Int64, shouldStop: @Sendable () -> Bool = { false }
    ) async throws -> Outcome {
        try await clean(through: limit, of: nil, shouldStop: shouldStop)
    }

    /// - Parameters:
    ///   - history: What each step must find: the file may have been replaced since the plan was made.
    ///   - gate: Lets a step through unless a consumer was moved since then.
    ///   - timeout: How long to wait for a moment without other transactions.
    func clean(
        through limit: Int64, of history: PlannedHistory?, gate: PlannedGate? = nil,
        timeout: Duration = HistoryCleaner.timeout,
        progress: @escaping (CleaningProgress) -> Void = { _ in }, shouldStop: @Sendable () -> Bool
    ) async throws -> Outcome {
        let queue = try StoreConnection.open(path, .write, timeout: .zero, work: WorkLimit())
        var steps = CleaningRun(path: path, queue: queue, timeout: timeout, progress: progress)
        defer { steps.report() }
        do {
            let outcome = try await clean(&steps, through: limit, of: history, gate, shouldStop)
            try HistoryError.translating(path) { try queue.end() }
            return outcome
        } catch {
            // The first error is reported.
            try? queue.end()
            throw error
        }
    }

    private func clean(
        _ steps: inout CleaningRun, through limit: Int64, of history: PlannedHistory?, _ gate: PlannedGate?,
        _ shouldStop: @Sendable () -> Bool
    ) async throws -> Outcome {
        let queue = steps.queue
        try access(queue) { db in
            let isLog = try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal"
            // In WAL mode, losing the last steps in a power failure does no harm. The cleaner runs the
            // checkpoints that its own steps need, so that the application's commits do not have to.
            if isLog { try db.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 500") }
        }
        let tables = CheckedTables()
        var deleted = 0
        let done = try await steps.take(size: 250, in: 250...2000, gate, shouldStop) { db, size in
            try tables.check(db)
            try history?.check(db)
            return try CleaningStep(db, limit: limit, rule: rule, size: size)
        } committed: {
            deleted += $0.deleted
        }
        let givenBack = done > 0 ? try await giveBack(&steps, shouldStop) : 0
        return try access(queue) { db in
            let header = try HistoryHeader(db)
            let free = try Int64.fetchOne(
                db, sql: "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")
            return Outcome(
                deleted: deleted, floor: HistoryToken(store: header.storeID, number: header.floor),
                givenBack: givenBack, free: free ?? 0)
        }
    }

    /// Returns free pages to the file system if the store allows that in small steps
    /// (https://www.sqlite.org/pragma.html#pragma_incremental_vacuum).
    ///
    /// - Returns: The number of bytes.
    private func giveBack(
        _ steps: inout CleaningRun, _ shouldStop: @Sendable () -> Bool
    ) async throws -> Int64 {
        let queue = steps.queue
        let (isIncremental, pageSize) = try access(queue) { db in
            (
                try Int.fetchOne(db, sql: "PRAGMA auto_vacuum") == 2,
                try Int64.fetchOne(db, sql: "PRAGMA page_size") ?? 0
            )
        }
        guard isIncremental else { return 0 }
        let pages = try await steps.take(size: 8, in: 4...256, nil, shouldStop) { db, size in
            let before = try Int.fetchOne(db, sql: "PRAGMA freelist_count") ?? 0
            if before > 0 { try db.execute(sql: "PRAGMA incremental_vacuum(\(size))") }
            let freed = before - (try Int.fetchOne(db, sql: "PRAGMA freelist_count") ?? 0)
            return CleaningStep(done: max(0, freed), isLast: freed <= 0)
        }
        return Int64(pages) * pageSize
    }

    private func access<T>(_ queue: DatabaseQueue, _ body: (Database) throws -> T) throws -> T {
        try HistoryError.translating(path) { try queue.writeEndingTransactions(body) }
    }
}

/// How much one step deletes, and how long it then leaves the store to others.
///
/// A step holds the write lock. A writer that needs it meanwhile sleeps and retries after longer and
/// longer times. So a step is short, and steps are so rare while others write that a writer hardly ever
/// meets one.
struct CleaningPace: Sendable {
    /// How long a step should take.
    static let target: Duration = .milliseconds(1)
    /// The pause between two steps, in steps, if no other process writes. It lets a new writer get the
    /// lock.
    static let usualPause = 2
    /// If another process writes, the cleaner holds the lock for at most a two-hundredth of the time.
    static let longPause = 200
    /// How many steps are careful after another process's commit.
    static let stepsOfCare = 10

    /// How much to do in the next step.
    private(set) var size: Int
    private let sizes: ClosedRange<Int>
    private var care = 0
    /// Whether another process has committed recently.
    var isCareful: Bool { care > 0 }

    init(size: Int, in sizes: ClosedRange<Int>) {
        self.size = size
        self.sizes = sizes
    }

    /// What other processes have done between two steps.
    struct Others {
        /// Whether another process has committed.
        var wrote = false
        /// How many changes they have recorded.
        var changes: Int64 = 0
        var time: Duration = .zero
    }

    /// Processes a step.
    ///
    /// - Parameters:
    ///   - duration: How long it held the lock.
    ///   - done: How much it did.
    /// - Returns: How long to leave the store alone. Others must not record half as much in that time as
    ///   a step deletes, or the cleaning would never finish.
    mutating func pause(after duration: Duration, done: Int, others: Others) -> Duration {
        if duration > Self.target {
            size = max(sizes.lowerBound, size / 2)
        } else if duration < Self.target / 2 {
            size = min(sizes.upperBound, size * 2)
        }
        care = others.wrote ? Self.stepsOfCare : max(0, care - 1)
        var pause = duration * (isCareful ? Self.longPause : Self.usualPause)
        if others.changes > 0, done > 0 {
            pause = min(pause, others.time * Double(done) / Double(2 * others.changes))
        }
        // A disk that is slow for a moment must not cause a sleep of minutes.
        return min(max(pause, duration * Self.usualPause, .milliseconds(1)), .seconds(1))
    }
}
