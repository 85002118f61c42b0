/// From a signal to the consumers that it wakes, and the tracking after schema changes.
extension StoreSession {
    /// There may be a signal. It is taken unless an earlier one is still being processed.
    func receive() {
        guard !isEnding, let (rule, step) = begin(), let signal = signals?.take(), !signal.isEmpty else {
            return
        }
        control.progress.signalled()
        if signal.contains(.overflowed) { opened.reporter.report(.watchOverflowed) }
        if isGone(signal) { return end() }
        if hasLostSideFiles(signal) { return end(HistoryError.sideFilesLost(of: store.path)) }
        advance(rule, step)
    }

    /// What to do about a signal now; nil if it has to wait.
    private func begin() -> (VisibilityRule, VisibilityRule.Step)? {
        switch phase {
        case .idle:
            var rule = store.visibilityRule
            let step = rule.woke()
            return (rule, step)
        case .waiting(var rule): return rule.signalled().map { (rule, $0) }
        case .tracking: return nil
        }
    }

    /// Looks until everything that a signal announced has been seen.
    func advance(_ rule: VisibilityRule, _ step: VisibilityRule.Step) {
        guard !isEnding else { return }
        // A signal may interrupt the delay.
        lookTimer?.cancel()
        var (rule, step) = (rule, step)
        do {
            while true {
                switch step {
                case .ask:
                    let writer = try opened.probe.writer()
                    step = rule.asked(writerActive: writer != nil, disturbsWriter: writer == .ofJournal)
                case .look: step = rule.looked(foundNew: try look())
                case .wait(let delay): return wait(delay, rule)
                case .idle: return hasSeenEverything()
                }
            }
        } catch let error as HistoryError where error.code == .tokenAhead {
            // The same file with older content: every position is checked again.
            opened.reporter.report(.storeReplaced)
            end()
        } catch {
            end(error)
        }
    }

    private func wait(_ delay: Duration, _ rule: VisibilityRule) {
        phase = .waiting(rule)
        lookTimer = schedule(after: delay) { session in
            guard case .waiting(var rule) = session.phase else { return }
            let step = rule.waited()
            session.advance(rule, step)
        }
    }

    /// Everything has been seen. If the schema has changed, the tracking is updated before the next
    /// signal.
    func hasSeenEverything() {
        if isMoved() { return end() }
        if opened.fetcher.schemaVersion != schemaVersion {
            guard opened.probe.isMigrating else { return followSchema() }
            awaitMigration()
        }
        phase = .idle
        receive()
    }

    /// Whether the store's path leads to another file now, or to none.
    func isGone(_ signal: StoreSignal) -> Bool {
        guard !signal.isDisjoint(with: [.replaced, .disappeared, .appeared, .overflowed]) else { return false }
        return isMoved()
    }

    /// The same without a signal. It is checked with each look, so that a deleted file is not served
    /// after its signal was mistaken for another one.
    func isMoved() -> Bool {
        guard FileID(of: opened.store.path) != opened.file else { return false }
        opened.reporter.report(.storeReplaced)
        return true
    }

    /// Whether the connections use side files that other processes no longer find.
    private func hasLostSideFiles(_ signal: StoreSignal) -> Bool {
        // A poll signals this each time.
        let isDoubted = signal.contains(.sideFilesInDoubt)
        guard isDoubted || signal.contains(.overflowed) else { return false }
        return opened.sideFiles.areLost(isEvident: isDoubted && !(signals?.arePolled ?? false))
    }

    /// - Returns: Whether there was something new; nil if a lock was in the way.
    func look() throws -> Bool? {
        do {
            let look = try seen.look(
                { opened.probe.publication() }, { try opened.fetcher.look(values: wantedValues) })
            control.progress.read()
            guard let look = look ?? nil else { return false }
            try wakeConsumers(for: look)
            control.notifyFollowers()
            return true
        } catch let error as HistoryError where error.code == .storeBusy {
            return nil
        }
    }

    /// Wakes the consumers that the look may concern, and moves the others past it.
    func wakeConsumers(for look: HistoryLook) throws {
        let (state, store) = (opened.state, opened.store)
        lastCommit = .now
        opened.reporter.report(.remoteChange(newest: HistoryToken(store: opened.storeID, number: look.end)))
        let checkpoint = Checkpoint(
            position: look.end, fingerprint: look.fingerprint, movedAt: store.clock.wall(),
            movedAtServed: state.served)
        let version = control.passes.isHeld ? nil : hooks.version
        let (names, moved) = state.cursors.idle.pass(look.batch, to: checkpoint, hooks: version)
        let woken = names.compactMap { runners[$0] }
        try opened.cleaning.countNotification(through: look.end)
        noteAtWork(woken)
        if unfinished == 0 { opened.cleaning.mayDeleteMore() }
        if unfinished > 0 || opened.store.hasFeeds { watchCleaning() }
        for runner in woken { runner.wakeUp() }
        guard moved > 0 else { return }
        state.cursors.hasUnsaved.notify()
        opened.reporter.report(
            .cursorsMoved(
                MovedConsumers(idle: state.cursors.idle, count: moved),
                to: HistoryToken(store: opened.storeID, number: look.end)))
    }

    /// How often to check whether a migration has ended, because the file may not show it.
    private static let migrationInterval: Duration = .milliseconds(500)

    /// A migration removes the triggers and puts them back. If it was killed, the triggers are restored
    /// here.
    func awaitMigration() {
        if !isMigrating { opened.reporter.report(.migrationUnderWay) }
        isMigrating = true
        migrationTimer?.cancel()
        migrationTimer = schedule(after: Self.migrationInterval) { session in
            guard case .idle = session.phase, !session.isEnding else { return }
            session.hasSeenEverything()
        }
    }

    /// How long the triggers, and then the reader, wait for the lock. A writer that never pauses releases
    /// it for some microseconds at a time.
    private nonisolated static let turnTimeout: Duration = .seconds(2)

    /// Lets cleaning check again which consumers hold it back, after those at work have had time.
    func watchCleaning() {
        guard cleaningTimer == nil else { return }
        cleaningTimer = schedule(after: StalledConsumers.reportedAfter + .seconds(1)) { session in
            session.cleaningTimer = nil
            guard session.opened.cleaning.mayStandStill(unfinished: session.unfinished) else { return }
            session.opened.cleaning.wakeUp.notify()
        }
    }

    /// Updates the tracking after a schema change, unless a migration does that, and lets the reader's
    /// connection read the schema. It waits for a writer that holds the lock: no other process can commit
    /// meanwhile.
    func followSchema(failures: Int = 0) {
        phase = .tracking
        let opened = opened
        let contexts = runners.values.map(\.contexts)
        let isMigrating = opened.probe.isMigrating
        if isMigrating { awaitMigration() }
        let isBegun = work { () -> Result<Int64?, any Error> in
            await onPool {
                do {
                    let tracked = isMigrating ? nil : try Self.followedSchema(opened)
                    for keeper in contexts { await keeper.followSchema() }
                    let read = try LockWait.retrying(Self.turnTimeout) {
                        try opened.source.schemaVersion()
                    }
                    return .success(isMigrating ? nil : tracked ?? read)
                } catch {
                    return .failure(error)
                }
            }
        } then: { session, result in
            session.take(result, failures: failures)
        }
        if !isBegun { end() }
    }

    /// - Returns: The schema version that the tracking is for; nil if it cannot be updated.
    private nonisolated static func followedSchema(_ opened: OpenStore) throws -> Int64? {
        let (problem, version) = try OpenStore.bringTrackingUpToDate(
            opened.store, opened.reporter, timeout: turnTimeout, expectsChange: true)
        opened.reporter.report(problem.map { .trackingFailed($0) } ?? .trackingComplete)
        return version
    }

    /// - Parameter followed: The schema version that the tracking is for; nil while a migration runs.
    func take(_ followed: Result<Int64?, any Error>, failures: Int) {
        guard !isEnding else { return }
        switch followed {
        case .success(let version):
            if let version {
                schemaVersion = version
                isMigrating = false
                wakeAll()
            }
            // What was committed before is still to be seen.
            var rule = store.visibilityRule
            let step = rule.woke()
            advance(rule, step)
        case .failure(let error as HistoryError) where error.code == .storeBusy:
            lookTimer = schedule(after: Backoff.delay(afterFailures: failures + 1)) { session in
                session.followSchema(failures: failures + 1)
            }
        case .failure(let error): end(error)
        }
    }

    // MARK: Values

    /// The objects whose rows hooks and connected feeds want. These rows are read once, with the changes.
    var wantedValues: WantedValues? {
        let version = hooks.version
        if wantedByHooks?.version != version {
            let wanted = opened.store.consumers.compactMap { consumer in
                hooks.hooks(store: consumer.store, consumer: consumer.author).wantedValues
            }
            wantedByHooks = (version, WantedValues.union(wanted))
        }
        guard hasFeedsWithValues else { return wantedByHooks?.wanted }
        return WantedValues.union([wantedByHooks?.wanted, wantedByFeeds].compactMap { $0 })
    }

    private var wantedByFeeds: WantedValues? {
        let clients = control.seats.clients
        let feeds = opened.store.consumers.flatMap { consumer in
            consumer.feeds.filter {
                clients[FeedID(consumer: consumer.author, context: $0.name)] != nil
            }
        }
        return WantedValues.union(feeds.compactMap(\.wantedRows))
    }
}
