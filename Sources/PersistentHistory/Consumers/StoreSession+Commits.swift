/// From a signal to the consumers that it wakes, and the tracking that follows the schema.
extension StoreSession {
    /// There is a signal, which is taken unless what an earlier one spoke of is still looked for.
    func receive() {
        guard rule == nil, !isEnding, let signal = inbox?.take(), !signal.isEmpty else { return }
        if signal.contains(.overflowed) { opened.reporter.report(.watchOverflowed) }
        if isGone(signal) { return end() }
        var rule = SettleRule()
        let step = rule.woke()
        self.rule = rule
        advance(step)
    }

    /// Looks until everything that a signal spoke of has been seen.
    func advance(_ first: SettleRule.Step) {
        guard var rule, !isEnding else { return }
        var step = first
        do {
            while true {
                switch step {
                case .ask: step = rule.asked(writerActive: try opened.probe.isWriterActive())
                case .look: step = rule.looked(foundNew: try look())
                case .wait(let delay):
                    self.rule = rule
                    lookTimer = opened.loop.schedule(after: delay) {
                        guard var rule = self.rule else { return }
                        let step = rule.waited()
                        self.rule = rule
                        self.advance(step)
                    }
                    return
                case .rest: return settled()
                }
            }
        } catch let error as HistoryError where error.code == .tokenAhead {
            // The same file, with the pages of an older one: every position is checked again.
            opened.reporter.report(.storeReplaced)
            end()
        } catch {
            end(error)
        }
    }

    /// Everything has been seen. Where the schema has changed, the tracking follows it before the next signal.
    func settled() {
        if opened.fetcher.schemaVersion != schemaVersion {
            if opened.probe.isMigrating { awaitMigration() } else { return refreshTracking() }
        }
        rule = nil
        receive()
    }

    /// Whether the store's path leads to another file now, or to none.
    func isGone(_ signal: StoreSignal) -> Bool {
        guard !signal.isDisjoint(with: [.replaced, .disappeared, .appeared, .overflowed]) else { return false }
        guard FileID(of: opened.store.path) != opened.file else { return false }
        opened.reporter.report(.storeReplaced)
        return true
    }

    /// - Returns: Whether there was something new; nil if a lock stood in the way.
    func look() throws -> Bool? {
        do {
            guard let look = try opened.fetcher.look(values: wantedValues) else { return false }
            try wakeConsumers(for: look)
            control.tellFollowers()
            return true
        } catch let error as HistoryError where error.code == .storeBusy {
            return nil
        }
    }

    /// Wakes those whom it may concern, and moves the others past it.
    func wakeConsumers(for look: HistoryReader.Look) throws {
        let (state, store) = (opened.state, opened.store)
        opened.reporter.report(.remoteChange(newest: HistoryToken(store: opened.storeID, number: look.end)))
        let place = Checkpoint(
            position: look.end, fingerprint: look.fingerprint, movedAt: store.clock.wall(),
            movedAtServed: state.served)
        let version = control.passes.isHeld ? nil : hooks.version
        let (woken, moved) = state.cursors.resting.pass(look.batch, to: place, hooks: version)
        try opened.cleaning.countNotification(through: look.end)
        noteAtWork(woken)
        if unfinished.isEmpty { opened.cleaning.wakeUp.ring() } else { watchCleaning() }
        for consumer in woken { runners[consumer]?.wakeUp() }
        guard moved > 0 else { return }
        state.cursors.hasUnsaved.ring()
        opened.reporter.report(
            .cursorsMoved(
                MovedConsumers(resting: state.cursors.resting, count: moved),
                to: HistoryToken(store: opened.storeID, number: look.end)))
    }

    /// How often to look whether a migration has ended, where no change of the file shows it.
    private static let migrationInterval: Duration = .milliseconds(500)

    /// A migration has the triggers taken out, and puts them back. Where it was killed, that is done here.
    func awaitMigration() {
        if !isMigrating { opened.reporter.report(.migrationUnderWay) }
        isMigrating = true
        migrationTimer?.cancel()
        migrationTimer = opened.loop.schedule(after: Self.migrationInterval) {
            guard self.rule == nil, !self.isEnding else { return }
            self.rule = SettleRule()
            self.settled()
        }
    }

    /// How long the triggers wait for their turn. A writer that is never still leaves the lock for some
    /// microseconds at a time.
    private nonisolated static let triggerTimeout: Duration = .seconds(2)

    /// Has the cleaning look once more at who holds it back, when those who are at work have had their time.
    func watchCleaning() {
        guard opened.store.cleaning != .none, cleaningTimer == nil else { return }
        cleaningTimer = opened.loop.schedule(after: StandstillWatch.reportedAfter + .seconds(1)) {
            self.cleaningTimer = nil
            self.opened.cleaning.wakeUp.ring()
        }
    }

    /// Brings the tracking up to date where the schema has changed. A writer that holds the lock
    /// is waited for: no other process can commit meanwhile.
    func refreshTracking(failures: Int = 0) {
        let opened = opened
        let contexts = runners.values.map(\.contexts)
        let isBegun = errands.run { () -> Result<Int64, any Error> in
            await onPool {
                do {
                    let (problem, tracked) = try OpenStore.bringTrackingUpToDate(
                        opened.store, opened.reporter, timeout: Self.triggerTimeout)
                    opened.reporter.report(problem.map { .trackingFailed($0) } ?? .trackingComplete)
                    let version = try tracked ?? opened.reader.schemaVersion()
                    for keeper in contexts { await keeper.followSchema() }
                    return .success(version)
                } catch {
                    return .failure(error)
                }
            }
        } then: { result in
            self.take(result, failures: failures)
        }
        if !isBegun { end() }
    }

    func take(_ tracked: Result<Int64, any Error>, failures: Int) {
        guard !isEnding else { return }
        switch tracked {
        case .success(let version):
            schemaVersion = version
            isMigrating = false
            wakeAll()
            rule = nil
            receive()
        case .failure(let error as HistoryError) where error.code == .storeBusy:
            lookTimer = opened.loop.schedule(after: Backoff.delay(afterFailures: failures + 1)) {
                self.refreshTracking(failures: failures + 1)
            }
        case .failure(let error): end(error)
        }
    }
}
