/// Takes a store's cleaning turns according to its strategy.
struct CleaningTurns: Sendable {
    let store: ServedStore
    let source: any HistorySource
    let state: StateDatabase
    let reporter: any PipelineReporter
    let stop: OneShotEvent
    private let known = Locked(Known())
    /// Wakes the turns when more may be deleted than before.
    let wakeUp = WakeUp()

    /// What is known from one turn to the next.
    private struct Known {
        var stalled = StalledConsumers()
        /// The consumers that were passed by, with the position that they have lost.
        var passedBy: [String: Int64] = [:]
        /// Whether the last turn failed.
        var hasFailed = false
        /// The position up to which notifications were counted.
        var counted: Int64 = 0
    }

    /// How long a turn waits for a moment without other transactions. A step at risk becomes possible
    /// before that.
    private static let timeout = RiskBudget.timeout + .seconds(1)

    /// Counts a notification of the store that brought something, once for all its consumers.
    ///
    /// - Parameter position: Where the history ended. A notification that ends no later than the last one
    ///   does not count.
    /// - Throws: `HistoryError` with `.stateUnusable`.
    func countNotification(through position: Int64) throws {
        guard case .byNotification = store.cleaning else { return }
        let isNew = known.withLock { known in
            defer { known.counted = max(known.counted, position) }
            return position > known.counted
        }
        if isNew { try state.countNotification() }
    }

    /// The result of a turn.
    enum Turn: Equatable {
        /// History was deleted. The strategy decides on the next turn.
        case taken
        /// It is not due before this time has passed; nil if only a notification can make it due.
        case notDue(Duration?)
        /// It was due, but nothing may be deleted. The turn is not used up.
        case nothingToDelete
        /// It was due, but all that may be deleted must be kept for this time because of its age.
        case tooYoung(Duration)
        /// It failed or was interrupted, and will be tried again.
        case failed
    }

    /// Takes each due turn until a stop is requested.
    ///
    /// - Throws: `HistoryError` with `.storeInterrupted`: only a new opening of the store helps.
    func run() async throws(HistoryError) {
        if store.cleaning == .none { return try await watch() }
        var pace = TurnPace()
        while !stop.isSignaled, !Task.isCancelled {
            let turn = try await cleanIfDue()
            if turn != .failed { recovered() }
            let pause = pace.pause(after: turn)
            switch turn {
            case .taken: break
            case .notDue(let delay) where isReporting:
                await wakeUp.wait(atMost: delay)
                await stop.sleep(for: Self.reportPause)
            case .notDue(let delay?): await stop.sleep(for: delay)
            case .notDue(nil): await wakeUp.wait()
            case .nothingToDelete:
                // More may be deleted when a consumer moves on, or has not moved for too long.
                let toReport = known.withLock { $0.stalled.isWatching } ? Self.watchInterval : nil
                await wakeUp.wait(atMost: [store.cleaning.interval, toReport].compactMap { $0 }.min())
                await stop.sleep(for: min(pause, store.cleaning.interval ?? pause))
            case .tooYoung(let delay): await stop.sleep(for: max(delay, pause))
            case .failed: await stop.sleep(for: pause)
            }
        }
    }

    /// Only reports which consumers would hold back a manual cleanup. Reads nothing while all consumers
    /// have caught up.
    private func watch() async throws(HistoryError) {
        // History that another program records is never cleaned here.
        guard source.recorder != nil else { return }
        while true {
            await wakeUp.wait(
                atMost: known.withLock { $0.hasFailed || $0.stalled.isWatching } ? Self.watchInterval : nil)
            if stop.isSignaled || Task.isCancelled { return }
            do {
                try reportBlockers(CleaningPlan(store, source: source, state: state))
                recovered()
            } catch {
                try report(error)
            }
            await stop.sleep(for: Self.reportPause)
        }
    }

    /// Whether consumers are reported as holding back history.
    private var isReporting: Bool { known.withLock { !$0.stalled.all.isEmpty } }

    /// Whether the last turn failed.
    var isFailing: Bool { known.withLock(\.hasFailed) }

    /// All consumers have caught up, so more may be deleted than before.
    func mayDeleteMore() {
        if store.cleaning != .none || known.withLock({ !$0.stalled.all.isEmpty || $0.stalled.isWatching }) {
            wakeUp.notify()
        }
    }

    /// Whether a consumer or a feed may not have moved for long.
    func mayStandStill(unfinished: Int) -> Bool {
        store.cleaning != .none || unfinished > 0 || store.hasFeeds
    }

    /// Between two reports of what holds back history: each makes a plan.
    private static let reportPause: Duration = .seconds(1)
    private static let watchInterval = StalledConsumers.reportedAfter + .seconds(1)

    private func schedule() throws -> CleaningSchedule {
        let (at, notifications) = try state.cleaning()
        return CleaningSchedule(strategy: store.cleaning, lastCleaned: at, notifications: notifications)
    }

    /// Cleans if the strategy says so.
    ///
    /// - Throws: As `run`.
    @discardableResult
    func cleanIfDue() async throws(HistoryError) -> Turn {
        do {
            let schedule = try schedule()
            guard schedule.isDue(now: store.clock.wall()) else {
                // Who was reported may have moved on while that was being reported.
                if isReporting { try reportBlockers(CleaningPlan(store, source: source, state: state)) }
                return .notDue(schedule.delay(now: store.clock.wall()))
            }
            let plan = try CleaningPlan(store, source: source, state: state)
            try reportBlockers(plan)
            if plan.number == nil { return .nothingToDelete }
            // No consumer's progress makes history older.
            let age = plan.young.map {
                $0.time.milliseconds + store.keep.milliseconds - store.clock.wall().milliseconds
            }
            let outcome = try await plan.carryOut(on: store, reporter: reporter, timeout: Self.timeout) {
                [stop] in stop.isSignaled
            }
            // A stop may have left a part, for the next start.
            if stop.isSignaled { return .failed }
            guard outcome.deleted > 0 else {
                return age.map { .tooYoung(.milliseconds(max(0, $0) + 1)) } ?? .nothingToDelete
            }
            let taken = schedule.taken(isHeldBack: !plan.blockers.isEmpty)
            try state.saveCleaning(at: store.clock.wall(), after: taken)
            return .taken
        } catch is CancellationError {
            // The store was closed between two steps; the next start continues there.
            return .failed
        } catch {
            try report(error)
            return .failed
        }
    }

    /// Reports which consumers hold back the rest, and which are passed by.
    private func reportBlockers(_ plan: CleaningPlan) throws {
        let now = store.clock.wall()
        let blockers = try plan.blockers.map { holder in
            (holder.name, since: try source.time(after: holder.number ?? 0) ?? now)
        }
        let (news, all) = known.withLock { ($0.stalled.standing(blockers, now: now), $0.stalled.all) }
        if !news.isEmpty { reporter.report(.cleaningBlocked(by: news)) }
        reporter.report(.cleaningHeldBack(by: all))
        for holder in plan.passedBy {
            let number = holder.number ?? 0
            let isNews = known.withLock { $0.passedBy.updateValue(number, forKey: holder.name) != number }
            guard isNews else { continue }
            reporter.report(
                .consumerPassedBy(
                    consumer: holder.name, at: HistoryToken(store: source.storeID, number: number),
                    standing: holder.standing))
        }
    }

    private func recovered() {
        let isNews = known.withLock { known in
            defer { known.hasFailed = false }
            return known.hasFailed
        }
        if isNews { reporter.report(.cleaningRecovered) }
    }

    private func report(_ error: any Error) throws(HistoryError) {
        let error = error as? HistoryError ?? HistoryError(.sqlite, "\(error)", cause: error)
        if error.code == .storeInterrupted { throw error }
        known.withLock { $0.hasFailed = true }
        reporter.report(.cleaningFailed(error))
    }
}

/// How long to wait between turns without effect: a pure value.
struct TurnPace {
    private var withoutEffect = 0
    private var failures = GrowingPause()

    /// After the first turn without effect, the next one comes as soon as a consumer has moved. Later
    /// ones come at growing intervals, because each makes a plan.
    mutating func pause(after turn: CleaningTurns.Turn) -> Duration {
        switch turn {
        case .failed:
            return max(.seconds(1), failures.next())
        case .nothingToDelete, .tooYoung:
            withoutEffect += 1
            failures.reset()
            return withoutEffect == 1 ? .zero : Backoff.delay(afterFailures: withoutEffect - 1)
        case .taken, .notDue:
            withoutEffect = 0
            failures.reset()
            return .zero
        }
    }
}
