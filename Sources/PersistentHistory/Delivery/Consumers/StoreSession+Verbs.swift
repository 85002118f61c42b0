/// What an operator may request of an open store.
extension StoreSession {
    nonisolated var source: any HistorySource { opened.source }
    nonisolated var feeds: FeedKeeper { opened.feeds }
    nonisolated var state: StateDatabase { opened.state }
    nonisolated var store: ServedStore { opened.store }

    func positions(_ clients: [FeedID: Int32]) throws -> StoreControl.Positions {
        try state.connection.checkIsThere()
        state.connection.checkIsWritable()
        return StoreControl.Positions(
            bounds: try source.bounds(), cursors: try state.cursors.all(), feeds: try feedStandings(clients),
            working: Set(runners.filter { !$0.value.isIdle && $0.value.window == nil }.keys),
            windows: runners.compactMapValues(\.window?.end), deadLetters: try state.deadLetters.counts(),
            reached: try state.replays.reached())
    }

    /// Looks as after a signal, and wakes the consumers whatever it finds.
    func lookNow() throws -> HistoryToken {
        _ = try look()
        // With polling, there need not be a signal for a changed schema.
        if case .idle = phase { hasSeenEverything() }
        wakeAll(atOnce: true)
        return try source.newestToken()
    }

    func resync(_ name: String, of author: String) async throws -> HistoryToken {
        if let runner = runners[author] {
            let (contexts, cursor) = (runner.contexts, runner.cursor)
            if let token = try await contexts.resync(name, cursor: cursor) {
                return token
            }
        }
        throw HistoryError.unknownContext(name, "context", of: author)
    }

    nonisolated func clean(dryRun: Bool, force: Bool) async throws -> StoreControl.Cleaning {
        try await onPool { try await self.cleanNow(dryRun: dryRun, force: force) }
    }

    private nonisolated func cleanNow(dryRun: Bool, force: Bool) async throws -> StoreControl.Cleaning {
        guard source.recorder != nil else { throw HistoryError.onlyRead(store.path) }
        let plan = try CleaningPlan(store, source: source, state: state, force: force)
        // This reads the whole history: through a separate connection, so that the session does not wait.
        let report = try HistoryReader.reading(store.path) { db in
            try CleaningReport(plan, rule: store.rule, db)
        }
        if dryRun { return StoreControl.Cleaning(report: report, outcome: nil) }
        let outcome = try await plan.carryOut(
            on: store, reporter: opened.reporter, timeout: HistoryCleaner.timeout
        ) { [opened] in opened.ending.isSignaled }
        // Consumers that were passed by find out, and start over.
        if !plan.passedBy.isEmpty { await wakeAll() }
        return StoreControl.Cleaning(report: report, outcome: outcome)
    }
}
