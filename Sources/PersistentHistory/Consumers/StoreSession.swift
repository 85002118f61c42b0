/// Owns a store on the loop from its opening until it is replaced, lost, or a stop is requested: its wake-ups, its
/// fetcher and its consumers.
@LoopActor final class StoreSession {
    nonisolated let opened: OpenStore
    nonisolated let control: StoreControl
    let hooks: HookRegistry
    let stop: OneShotEvent
    let errands = Errands()
    var runners: [String: ConsumerRunner] = [:]
    var running = 0
    /// Consumers that have not started yet.
    var unprepared = 0
    /// How many consumers were woken, and have neither come to the end of the history since nor failed.
    var unfinished = 0
    /// Until all have everything for the first time: most stores of many then wait for long.
    var mayForgetPages = true

    /// What is done about the last signal that was taken.
    enum Phase {
        /// Everything that it spoke of has been seen.
        case settled
        /// It is looked for again when the timer fires, or when the rule lets another signal interrupt.
        case waiting(VisibilityRule)
        /// The schema has changed: the tracking follows it.
        case tracking
    }

    var phase = Phase.settled
    var lookTimer: LoopTimer?
    var inbox: SignalInbox?
    /// Runs while a migration has the triggers of the store taken out.
    var migrationTimer: LoopTimer?
    var isMigrating = false
    var schemaVersion: Int64
    /// As of a version of the hooks.
    /// Whether there are feeds of which a program may want values.
    let hasFeedsWithValues: Bool
    var wantedByHooks: (version: Int, wanted: WantedValues?)?

    var failure: (any Error)?
    var isEnding = false
    var graceTimer: LoopTimer?
    var cleaningTimer: LoopTimer?
    /// Waits for the last consumer's end.
    var waiter: CheckedContinuation<Void, Never>?
    /// Called when a consumer has everything: in a single run.
    var onCaughtUp: ((ConsumerRunner) -> Void)?

    init(_ opened: OpenStore, hooks: HookRegistry, stop: OneShotEvent, control: StoreControl) throws {
        self.opened = opened
        self.hooks = hooks
        self.stop = stop
        self.control = control
        hasFeedsWithValues = opened.store.consumers.contains { consumer in
            consumer.feeds.contains { $0.maximumValueBytes != nil }
        }
        schemaVersion = opened.schemaVersion
        isMigrating = schemaVersion < 0
        let owner = ConsumerRunner.Owner { [weak self] runner, brought in
            self?.caughtUp(runner, brought)
        } paused: { [weak self] runner in
            self?.stoppedWorking(runner)
        } prepared: { [weak self] in
            self?.consumerPrepared()
        } ended: { [weak self] _, error in
            self?.consumerEnded(error)
        }
        for beginning in opened.beginnings {
            runners[beginning.consumer.author] = ConsumerRunner(
                beginning, of: opened, hooks: hooks, control: control, errands: errands, stop: stop,
                owner: owner)
        }
        running = runners.count
        unprepared = runners.count
    }

    /// Ends the connections.
    func close() async throws {
        for runner in runners.values { await runner.contexts.close() }
        try opened.close()
    }

    // MARK: Running

    /// How long the calls in flight may take when the session ends. One that takes longer is cancelled, and
    /// made again with the same delivery id.
    var grace: Duration { stop.isSignaled ? control.stopTimeout : .seconds(1) }

    /// - Throws: `HistoryError` if the store is lost.
    func run(watching inbox: SignalInbox, isUp: @Sendable () -> Void) async throws {
        control.opened(self)
        self.inbox = inbox
        inbox.receiver = { [weak self] in self?.receive() }
        opened.source.spare(opened.loop)
        await whileServing {
            wakeAll()
            receive()
            if isMigrating { awaitMigration() }
            isUp()
        }
        inbox.receiver = nil
        await control.closed()
        if let failure { throw failure }
    }

    /// Serves until all consumers have ended.
    func whileServing(_ begin: () -> Void) async {
        control.passes.setOwner(
            .init(
                released: { [weak self] in self?.runners.values.forEach { $0.released() } },
                tryNow: { [weak self] in self?.runners.values.forEach { $0.tryNow() } }))
        let opened = opened
        let isSingleRun = onCaughtUp != nil
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [errands] in await errands.run() }
            group.addTask {
                await self.stop.wait()
                // A cancelled task does not wait for anything.
                await self.stopped()
            }
            if !isSingleRun { group.addTask { await onPool { await opened.cleaning.run() } } }
            group.addTask { await self.saveCursors() }
            group.addTask { await onPool { await opened.state.keepLogShort() } }
            group.addTask { await self.endWhenDamaged() }
            begin()
            await withCheckedContinuation { continuation in
                waiter = continuation
                if running == 0 { resumeWaiter() }
            }
            graceTimer?.cancel()
            cleaningTimer?.cancel()
            lookTimer?.cancel()
            migrationTimer?.cancel()
            errands.end()
            opened.state.cursors.hasUnsaved.end()
            opened.state.damaged.end()
            opened.state.logHasGrown.end()
            // A single run cleans afterwards.
            if !isSingleRun { opened.ending.signal() }
            opened.cleaning.wakeUp.notify()
            group.cancelAll()
            await group.waitForAll()
        }
        control.passes.setOwner(nil)
    }

    /// Works off everything there is, once: for cron, and for tests.
    func runOnce() async throws {
        onCaughtUp = { [weak self] runner in self?.finish(runner) }
        await whileServing { wakeAll() }
        if let failure { throw failure }
    }

    /// In a single run, a consumer that has everything is done, unless one of its contexts has to be tried again.
    func finish(_ runner: ConsumerRunner) {
        let isBegun = errands.run { [contexts = runner.contexts] in
            (await contexts.retryDelay, await contexts.lasting)
        } then: { delay, trouble in
            if delay == nil || trouble != nil { runner.end() }
            if let trouble { self.end(trouble) }
        }
        if !isBegun { runner.end() }
    }

    func stopped() { if running > 0 { end(atOnce: !stop.isSignaled) } }

    /// Asks all parts to end.
    func end(_ error: (any Error)? = nil, atOnce: Bool = false) {
        failure = failure ?? error
        if isEnding, !atOnce { return }
        let isFirst = !isEnding
        isEnding = true
        opened.ending.signal()
        lookTimer?.cancel()
        if !atOnce {
            graceTimer = opened.loop.schedule(after: grace) { self.cancelCalls() }
        } else {
            cancelCalls()
        }
        if isFirst { for runner in runners.values { runner.end() } }
    }

    func cancelCalls() {
        errands.cancel()
        for runner in runners.values { runner.cancelCall() }
    }

    func consumerPrepared() {
        unprepared -= 1
        guard unprepared == 0, onCaughtUp == nil else { return }
        // A consumer's contexts may have used it.
        do { try opened.state.close() } catch { end(error) }
    }

    func consumerEnded(_ error: (any Error)?) {
        running -= 1
        if let error { end(error) }
        if running == 0 { resumeWaiter() }
    }

    func resumeWaiter() { waiter.take()?.resume() }

    func caughtUp(_ runner: ConsumerRunner, _ brought: Bool) {
        if brought {
            // What came while the consumer did not look counts as one, too.
            do { try opened.cleaning.countNotification(through: runner.cursor) } catch { end(error) }
        }
        stoppedWorking(runner)
        onCaughtUp?(runner)
        if mayForgetPages, unfinished == 0 {
            mayForgetPages = false
            opened.loop.soon { self.opened.source.forgetPages() }
        }
    }

    func noteAtWork(_ woken: some Sequence<ConsumerRunner>) {
        for runner in woken where !runner.isPaused && !runner.isUnfinished {
            runner.isUnfinished = true
            unfinished += 1
        }
    }

    /// A cleaning turn that comes before the slowest of those at work would only take a part. One that has failed may
    /// hold history back for long, and is not waited for.
    func stoppedWorking(_ runner: ConsumerRunner) {
        if runner.isUnfinished {
            runner.isUnfinished = false
            unfinished -= 1
        }
        if unfinished == 0 { opened.cleaning.wakeUp.notify() }
    }

    /// Cursors that moved past what is of no concern are saved together, a second after the first of them.
    func saveCursors() async {
        for await _ in opened.state.cursors.hasUnsaved {
            await opened.ending.sleep(for: .seconds(1))
            do { try await saveAllUntilItWorks() } catch { end(error) }
        }
    }

    /// A damaged state is created again, no matter which part has found the damage.
    func endWhenDamaged() async {
        for await _ in opened.state.damaged { end(opened.state.damage) }
    }

    /// A full disk delays no consumer here: what is not saved is only fetched again after a crash.
    func saveAllUntilItWorks() async throws {
        var failures = 0
        while true {
            do {
                try opened.state.cursors.flush()
                if failures >= 5 { opened.reporter.report(.stateRecovered) }
                return
            } catch let error as HistoryError
                where error.isOfState && error.code != .stateDamaged && !opened.ending.isSignaled
            {
                failures += 1
                if failures == 5 { opened.reporter.report(.stateFailed(error)) }
                await opened.ending.sleep(for: Backoff.delay(afterFailures: failures))
            }
        }
    }

    func wakeAll() {
        noteAtWork(runners.values)
        for runner in runners.values { runner.wakeUp() }
    }
}
