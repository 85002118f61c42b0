/// Takes a store's turns of cleaning, by its strategy.
struct CleaningTurns: Sendable {
    private let store: ServedStore
    private let reader: HistoryReader
    private let state: StateDatabase
    private let reporter: any PipelineReporter
    private let stop: StopSignal
    private let standstill = Locked(StandstillWatch())
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
                let wait = await cleanIfDue() ? schedule()?.delay(now: .now) : nil
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
        guard schedule.isDue(now: .now) else { return true }
        do {
            guard let number = try limit() else { return false }
            let outcome = try await HistoryCleaner(path: store.path, rule: store.rule)
                .clean(through: number, shouldStop: { [stop] in stop.isRequested })
            if outcome.deleted > 0 {
                reporter.report(.cleaned(deleted: outcome.deleted, through: outcome.floor))
            }
            try state.saveCleaning(at: .now, passes: 0)
            return true
        } catch {
            report(error)
            return false
        }
    }

    /// How far may be cleaned; tells of those that stand still and hold back the rest.
    private func limit() throws -> Int64? {
        let cursors = try state.cursors()
        let limit = CleaningLimit(
            consumers: store.mustHaveHad, cursors: cursors,
            newest: try reader.newestToken().number, now: .now, maximumDuration: store.maximumDuration)
        let blockers = try limit.blockers.map { name in
            (name, since: try reader.time(after: cursors[name]?.number ?? 0) ?? .now)
        }
        let standing = standstill.withLock { $0.standing(blockers, now: .now) }
        if !standing.isEmpty { reporter.report(.cleaningBlocked(by: standing)) }
        return limit.number
    }

    private func report(_ error: any Error) {
        reporter.report(
            .cleaningFailed(error as? HistoryError ?? HistoryError(.sqlite, "\(error)", cause: error)))
    }
}
