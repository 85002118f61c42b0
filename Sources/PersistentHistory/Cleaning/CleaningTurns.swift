/// Takes a store's turns of cleaning, by its strategy.
struct CleaningTurns: Sendable {
    private let store: ServedStore
    private let reader: HistoryReader
    private let state: StateDatabase
    private let reporter: any PipelineReporter
    private let stop: StopSignal
    private let standstill = Locked(StandstillWatch())
    /// Those that were passed by, with the position that they have lost.
    private let passedBy = Locked<[String: Int64]>([:])
    /// Rings when a pass was counted, and ends with the session.
    let bell = Bell()

    init(
        _ store: ServedStore, reader: HistoryReader, state: StateDatabase, reporter: any PipelineReporter,
        stop: StopSignal
    ) {
        self.store = store
        self.reader = reader
        self.state = state
        self.reporter = reporter
        self.stop = stop
    }

    /// Counts a pass that brought something.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`.
    func countPass() throws {
        guard case .byNotification = store.cleaning else { return }
        try state.countPass()
        bell.ring()
    }

    /// Cleans whenever it is due, until a stop is requested.
    func run() async {
        switch store.cleaning {
        case .none: return
        case .byNotification:
            for await _ in bell { await cleanIfDue() }
        case .byDuration:
            var failures = 0
            while !stop.isRequested, !Task.isCancelled {
                // A turn that could not be taken is tried again soon.
                let wait = await cleanIfDue() ? schedule()?.delay(now: store.clock.wall()) : nil
                failures = wait == nil ? failures + 1 : 0
                await stop.sleep(for: wait ?? max(.seconds(1), Backoff.delay(afterFailures: failures)))
            }
        }
    }

    private func schedule() -> CleaningSchedule? {
        do {
            let (at, passes) = try state.cleaning()
            return CleaningSchedule(strategy: store.cleaning, lastCleaned: at, passes: passes)
        } catch {
            report(error)
            return nil
        }
    }

    /// Whether the turn was taken, or was not due.
    @discardableResult
    func cleanIfDue() async -> Bool {
        guard let schedule = schedule() else { return false }
        guard schedule.isDue(now: store.clock.wall()) else { return true }
        do {
            let plan = try CleaningPlan(store, reader: reader, state: state)
            try tell(plan)
            // A consumer that has had nothing yet holds back everything, and the turn is not used up.
            if plan.number == nil { return false }
            _ = try await plan.carryOut(on: store, reporter: reporter) { [stop] in stop.isRequested }
            // A stop may have left a part, for the next start.
            if stop.isRequested { return false }
            try state.saveCleaning(at: store.clock.wall(), after: schedule.passes)
            return true
        } catch {
            report(error)
            return false
        }
    }

    /// Reports which consumers hold back the rest, and which are passed by.
    private func tell(_ plan: CleaningPlan) throws {
        let now = store.clock.wall()
        let blockers = try plan.blockers.map { holder in
            (holder.name, since: try reader.time(after: holder.number ?? 0) ?? now)
        }
        let (news, all) = standstill.withLock { ($0.standing(blockers, now: now), $0.all) }
        if !news.isEmpty { reporter.report(.cleaningBlocked(by: news)) }
        reporter.report(.cleaningHeldBack(by: all))
        for holder in plan.passedBy {
            let number = holder.number ?? 0
            let isNews = passedBy.withLock { $0.updateValue(number, forKey: holder.name) != number }
            guard isNews else { continue }
            reporter.report(
                .consumerPassedBy(
                    consumer: holder.name, at: HistoryToken(store: reader.storeID, number: number),
                    standing: holder.standing))
        }
    }

    private func report(_ error: any Error) {
        reporter.report(
            .cleaningFailed(error as? HistoryError ?? HistoryError(.sqlite, "\(error)", cause: error)))
    }
}
