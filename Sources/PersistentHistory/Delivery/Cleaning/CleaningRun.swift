import GRDB

/// Takes the steps of one cleanup, each in its own transaction, while no other connection is in one.
struct CleaningRun {
    let path: String
    let queue: DatabaseQueue
    /// How long a step may be refused before the cleanup is given up.
    let timeout: Duration
    let progress: (CleaningProgress) -> Void
    /// The effort since the last report.
    private var effort = CleaningEffort()
    private var reportedAt = ContinuousClock.now
    private var entry = SoloEntry()
    private var solo = SoloPace()
    private var risk = RiskBudget()

    init(
        path: String, queue: DatabaseQueue, timeout: Duration, progress: @escaping (CleaningProgress) -> Void
    ) {
        (self.path, self.queue, self.timeout, self.progress) = (path, queue, timeout, progress)
    }

    /// How long the cleanup waits before that is reported.
    private static let saidAfter: Duration = .seconds(10)
    private static let reportInterval: Duration = .seconds(1)

    /// Reports what was done since the last report.
    mutating func report() {
        progress(.stepped(effort))
        (effort, reportedAt) = (CleaningEffort(), .now)
    }

    /// How long to wait for a lock.
    private static let lockTimeout: Duration = .seconds(5)

    private enum Attempt {
        /// - Parameter duration: How long the lock was held.
        case taken(CleaningStep, duration: Duration)
        /// Others are in a transaction.
        case refused
        /// With a rollback journal, another connection is writing.
        case locked(HistoryError)
    }

    /// Takes steps until the last one, a stop, or too many refusals.
    ///
    /// - Parameter gate: Lets a step through unless a consumer was moved since the cleanup was planned.
    /// - Returns: The result of all steps.
    /// - Throws: `HistoryError`; with `.storeBusy` after the timeout.
    mutating func take(
        size: Int, in sizes: ClosedRange<Int>, _ gate: PlannedGate?, _ shouldStop: @Sendable () -> Bool,
        step: (Database, _ size: Int) throws -> CleaningStep,
        committed: (CleaningStep) -> Void = { _ in }
    ) async throws -> Int {
        var pace = CleaningPace(size: size, in: sizes)
        var done = 0
        var refusedSince: ContinuousClock.Instant?
        var isSaid = false
        var last: (version: Int64, newest: Int64?, at: ContinuousClock.Instant)?
        while !shouldStop() {
            guard let (attempt, version) = try attempt(pace, gate, step) else { break }
            let now = ContinuousClock.now
            if now - reportedAt >= Self.reportInterval { report() }
            guard case .taken(let taken, let duration) = attempt else {
                let since = refusedSince ?? now
                refusedSince = since
                risk.refused(version: version, now: now)
                effort.refused(for: now - since)
                if case .locked(let error) = attempt, now - since >= Self.lockTimeout { throw error }
                if now - since >= timeout { throw waits(for: now - since) }
                if now - since >= Self.saidAfter, !isSaid {
                    isSaid = true
                    progress(.waits(waits(for: now - since)))
                }
                try await Task.sleep(for: solo.refused(chance: .random(in: 0..<1)), clock: .loop)
                continue
            }
            if refusedSince != nil { effort.waited(for: now - (refusedSince ?? now)) }
            (refusedSince, isSaid) = (nil, false)
            risk.taken(after: duration, now: now)
            effort.countStep()
            done += taken.done
            committed(taken)
            if taken.isLast { break }
            var others = CleaningPace.Others()
            if let last {
                others.wrote = last.version != version
                others.changes = (taken.newest ?? 0) - (last.newest ?? 0)
                others.time = now - last.at
            }
            last = (version, taken.newest, now)
            let pause = pace.pause(after: duration, done: taken.done, others: others)
            try await Task.sleep(for: pause, clock: .loop)
        }
        return done
    }

    /// - Returns: Nil if the gate is closed.
    private mutating func attempt(
        _ pace: CleaningPace, _ gate: PlannedGate?, _ step: (Database, _ size: Int) throws -> CleaningStep
    ) throws -> (Attempt, version: Int64)? {
        guard let gate else { return try attempt(pace, step) }
        return try gate.gate.step(gate.pass) { try attempt(pace, step) }
    }

    /// - Returns: The result with SQLite's `data_version`, which changes with each commit of another
    ///   connection.
    private mutating func attempt(
        _ pace: CleaningPace, _ step: (Database, _ size: Int) throws -> CleaningStep
    ) throws -> (Attempt, version: Int64) {
        var start = ContinuousClock.now
        var version: Int64 = 0
        func body(_ db: Database) throws -> CleaningStep {
            start = .now
            return try step(db, pace.size)
        }
        do {
            let result = try HistoryError.translating(path) {
                try queue.writeWithoutTransaction { db -> CleaningStep? in
                    version = try Int64.fetchOne(try db.cachedStatement(sql: "PRAGMA data_version")) ?? 0
                    let found = try entry.transaction(
                        db, wait: solo.wait, restartsLog: !pace.isCareful, body)
                    if found != nil { solo.entered() }
                    guard found == nil, risk.isDue(version: version, now: .now) else { return found }
                    var result: CleaningStep?
                    try db.inTransaction(.immediate) {
                        result = try body(db)
                        return .commit
                    }
                    effort.countRisk()
                    return result
                }
            }
            return (result.map { .taken($0, duration: .now - start) } ?? .refused, version)
        } catch let error as HistoryError where error.code == .storeBusy {
            return (.locked(error), version)
        }
    }

    private func waits(for time: Duration) -> HistoryError {
        let inTheWay = LockHolders.ofReadMarks(of: path)
        let who = inTheWay.isEmpty ? "other connections" : inTheWay.joined(separator: ", ")
        return HistoryError(
            .storeBusy,
            "The cleanup of \"\(path)\" waits for transactions to end: for \(time.components.seconds) s, \(who) always had one open.",
            hint: "Look for a transaction or a cursor that an application has left open.")
    }
}

/// The progress of a cleanup before its outcome.
enum CleaningProgress {
    case stepped(CleaningEffort)
    case waits(HistoryError)
}

/// Decides when to take a step although others are in a transaction. A pure value.
///
/// A concurrent transaction that has begun to read, and writes after the step, fails. So such a step is
/// taken only if no other was possible for long while history grew, and so rarely that it affects one
/// transaction in many thousands.
struct RiskBudget: Sendable {
    /// How long no step was possible.
    static let timeout: Duration = .seconds(60)
    /// Steps at risk take at most this fraction of the time.
    static let share = 10_000

    private var refused: (version: Int64, since: ContinuousClock.Instant)?
    private var notBefore: ContinuousClock.Instant?

    /// - Parameter version: SQLite's `data_version`, which changes with each commit of another connection.
    mutating func refused(version: Int64, now: ContinuousClock.Instant) {
        if refused == nil { refused = (version, now) }
    }

    /// Without commits, history does not grow.
    func isDue(version: Int64, now: ContinuousClock.Instant) -> Bool {
        guard let refused, now - refused.since >= Self.timeout, version != refused.version
        else { return false }
        return notBefore.map { now >= $0 } ?? true
    }

    /// Processes a step of either kind.
    mutating func taken(after duration: Duration, now: ContinuousClock.Instant) {
        refused = nil
        notBefore = now + duration * Self.share
    }
}
