import GRDB

/// Deletes history that everybody has had, in steps so small that a writer does not feel them.
///
/// The floor moves to the goal with the first step: from then on a token below it has expired, and
/// nobody reads a transaction that is half deleted. How far the deleting itself got stands beside
/// it, so that a cleanup that was interrupted is taken up again.
public struct HistoryCleaner: Sendable {
    /// For how long a lock is asked for in vain before a turn is given up.
    static let timeout: Duration = .seconds(5)

    let path: String
    let rule: DeliveryRule

    /// A cleaner of one store. Mirroring authors' history stays, and unlisted authors', as the rule says.
    public init(path: String, rule: DeliveryRule) {
        self.path = path
        self.rule = rule
    }

    /// What a cleanup deleted.
    public struct Outcome: Sendable, Equatable, Codable {
        /// Changes that were deleted.
        public var deleted = 0
        /// The oldest token that still works.
        public var floor: HistoryToken
        /// Bytes given back to the file system: where the store has `auto_vacuum = INCREMENTAL`.
        public var givenBack: Int64 = 0
        /// Bytes in the store's file that are free for what it will hold; `VACUUM` gives them back,
        /// under a lock.
        public var free: Int64 = 0
    }

    /// Deletes changes up to a place, but not those of authors that the rule does not cover.
    ///
    /// - Parameters:
    ///   - limit: The number of a token that everybody has passed.
    ///   - shouldStop: Asked between steps.
    /// - Throws: `HistoryError`.
    public func clean(
        through limit: Int64, shouldStop: @Sendable () -> Bool = { false }
    ) async throws -> Outcome {
        let queue = try StoreConnection.open(path, .write, timeout: .zero, work: WorkLimit())
        do {
            let outcome = try await clean(queue, through: limit, shouldStop)
            try HistoryError.translating(path) { try queue.end() }
            return outcome
        } catch {
            // What failed first is what is told.
            try? queue.end()
            throw error
        }
    }

    private func clean(
        _ queue: DatabaseQueue, through limit: Int64, _ shouldStop: @Sendable () -> Bool
    ) async throws -> Outcome {
        try access(queue) { db in
            let isLog = try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal"
            // In a write-ahead log, to lose the last steps in a power failure harms nothing; and the
            // checkpoints that the steps bring about are not left to the application's commits.
            if isLog { try db.execute(sql: "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 500") }
        }
        let tables = CheckedTables()
        let deleted = try await inSteps(queue, size: 250, in: 250...2000, shouldStop) { db, size in
            try tables.check(db)
            let step = try CleaningStep(db, limit: limit, rule: rule, size: size)
            return Step(done: step.deleted, isLast: step.isLast, newest: step.newest)
        }
        let givenBack = deleted > 0 ? try await giveBack(queue, shouldStop) : 0
        return try access(queue) { db in
            let header = try HistoryHeader(db)
            let free = try Int64.fetchOne(
                db, sql: "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")
            return Outcome(
                deleted: deleted, floor: HistoryToken(store: header.storeID, number: header.floor),
                givenBack: givenBack, free: free ?? 0)
        }
    }

    /// Gives free pages back to the file system where the store allows it without a lock of its
    /// whole length (https://www.sqlite.org/pragma.html#pragma_incremental_vacuum).
    ///
    /// - Returns: Bytes.
    private func giveBack(_ queue: DatabaseQueue, _ shouldStop: @Sendable () -> Bool) async throws -> Int64 {
        let (isIncremental, pageSize) = try access(queue) { db in
            (
                try Int.fetchOne(db, sql: "PRAGMA auto_vacuum") == 2,
                try Int64.fetchOne(db, sql: "PRAGMA page_size") ?? 0
            )
        }
        guard isIncremental else { return 0 }
        let pages = try await inSteps(queue, size: 8, in: 4...256, shouldStop) { db, size in
            let before = try Int.fetchOne(db, sql: "PRAGMA freelist_count") ?? 0
            if before > 0 { try db.execute(sql: "PRAGMA incremental_vacuum(\(size))") }
            let freed = before - (try Int.fetchOne(db, sql: "PRAGMA freelist_count") ?? 0)
            return Step(done: max(0, freed), isLast: freed <= 0)
        }
        return Int64(pages) * pageSize
    }

    private struct Step {
        var done = 0
        var isLast = true
        /// The store's newest change, where that is known.
        var newest: Int64?
    }

    /// Takes steps, each in a transaction of its own, until the last one, a stop, or too many refusals.
    ///
    /// - Returns: What they did in all.
    private func inSteps(
        _ queue: DatabaseQueue, size: Int, in sizes: ClosedRange<Int>, _ shouldStop: @Sendable () -> Bool,
        step: (Database, _ size: Int) throws -> Step
    ) async throws -> Int {
        var pace = CleaningPace(size: size, in: sizes)
        var done = 0
        var refusals = 0
        var refusedSince = ContinuousClock.now
        var last: (version: Int64, newest: Int64?, at: ContinuousClock.Instant)?
        while !shouldStop() {
            do {
                let (result, duration, seen) = try access(queue) { db in
                    let seen = try Int64.fetchOne(try db.cachedStatement(sql: "PRAGMA data_version")) ?? 0
                    var result = Step()
                    var start = ContinuousClock.now
                    try db.inTransaction(.immediate) {
                        start = .now
                        result = try step(db, pace.size)
                        return .commit
                    }
                    return (result, ContinuousClock.now - start, seen)
                }
                done += result.done
                refusals = 0
                if result.isLast { break }
                var others = CleaningPace.Others()
                if let last {
                    others.wrote = last.version != seen
                    others.changes = (result.newest ?? 0) - (last.newest ?? 0)
                    others.time = .now - last.at
                }
                last = (seen, result.newest, .now)
                let pause = pace.pause(after: duration, done: result.done, others: others)
                try await Task.sleep(for: pause, clock: .loop)
            } catch let error as HistoryError where error.code == .storeBusy {
                if refusals == 0 { refusedSince = .now }
                guard ContinuousClock.now - refusedSince < Self.timeout else { throw error }
                // Where writers take turns, the moment between two of them is short.
                let pause = min(Duration.milliseconds(1) * (1 << min(refusals, 6)), .milliseconds(50))
                try await Task.sleep(for: pause, clock: .loop)
                refusals += 1
            }
        }
        return done
    }

    private func access<T>(_ queue: DatabaseQueue, _ body: (Database) throws -> T) throws -> T {
        try HistoryError.translating(path) { try queue.writeWithoutTransaction(body) }
    }
}
