/// Owns a store on the loop from its opening until it is replaced, lost, or a stop is requested: its wake-ups, its
/// fetcher and its consumers.
@LoopActor final class StoreSession {
    nonisolated let opened: OpenStore
    nonisolated let control: StoreControl
    private let hooks: HookRegistry
    private let stop: StopSignal
    private let errands = Errands()
    private(set) var runners: [String: ConsumerRunner] = [:]
    private var running = 0

    /// When to look for what a signal spoke of; nil while there is nothing to look for.
    private var rule: SettleRule?
    private var lookTimer: LoopTimer?
    private var inbox: SignalInbox?
    private var schemaVersion: Int64

    private var failure: (any Error)?
    private var isEnding = false
    private var graceTimer: LoopTimer?
    /// Waits for the last consumer's end.
    private var waiter: CheckedContinuation<Void, Never>?
    /// Called when a consumer has everything: in a single run.
    var onCaughtUp: ((ConsumerRunner) -> Void)?

    init(_ opened: OpenStore, hooks: HookRegistry, stop: StopSignal, control: StoreControl) throws {
        self.opened = opened
        self.hooks = hooks
        self.stop = stop
        self.control = control
        schemaVersion = opened.schemaVersion
        let owner = ConsumerRunner.Owner { [weak self] runner, brought in
            self?.caughtUp(runner, brought)
        } ended: { [weak self] _, error in
            self?.consumerEnded(error)
        }
        for (consumer, cursor) in opened.places {
            runners[consumer.author] = try ConsumerRunner(
                consumer, at: cursor, of: opened, hooks: hooks, control: control, errands: errands,
                stop: stop, owner: owner)
        }
        running = runners.count
    }

    /// Ends the connections.
    func close() async throws {
        for runner in runners.values { await runner.contexts.close() }
        try opened.close()
    }

    // MARK: Running

    /// How long calls that are under way when a stop is requested may take. One that takes longer is
    /// made again, with the same delivery id.
    static let grace: Duration = .seconds(1)

    /// - Throws: `HistoryError` where the store is lost.
    func run(watching inbox: SignalInbox, isUp: @Sendable () -> Void) async throws {
        control.opened(self)
        self.inbox = inbox
        inbox.receiver = { [weak self] in self?.receive() }
        await whileServing {
            wakeAll()
            receive()
            isUp()
        }
        inbox.receiver = nil
        await control.closed()
        if let failure { throw failure }
    }

    /// Serves until all consumers have ended.
    private func whileServing(_ begin: () -> Void) async {
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
                await self.stopped(grace: self.stop.isRequested ? Self.grace : .zero)
            }
            if !isSingleRun { group.addTask { await onPool { await opened.cleaning.run() } } }
            group.addTask { await self.saveCursors() }
            begin()
            await withCheckedContinuation { continuation in
                waiter = continuation
                if running == 0 { resumeWaiter() }
            }
            graceTimer?.cancel()
            lookTimer?.cancel()
            errands.end()
            opened.cleaning.bell.end()
            opened.state.cursors.hasUnsaved.end()
            // A single run cleans afterwards.
            if !isSingleRun { opened.ending.request() }
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
    private func finish(_ runner: ConsumerRunner) {
        let isBegun = errands.run { [contexts = runner.contexts] in
            (await contexts.retryDelay, await contexts.lasting)
        } then: { delay, trouble in
            if delay == nil || trouble != nil { runner.end() }
            if let trouble { self.end(trouble) }
        }
        if !isBegun { runner.end() }
    }

    private func stopped(grace: Duration) { if running > 0 { end(grace: grace) } }

    /// Asks everybody to come to an end.
    func end(_ error: (any Error)? = nil, grace: Duration = StoreSession.grace) {
        failure = failure ?? error
        if isEnding, grace > .zero { return }
        let isFirst = !isEnding
        isEnding = true
        opened.ending.request()
        lookTimer?.cancel()
        if grace > .zero {
            graceTimer = opened.loop.schedule(after: grace) { self.cancelCalls() }
        } else {
            cancelCalls()
        }
        if isFirst { for runner in runners.values { runner.end() } }
    }

    private func cancelCalls() {
        errands.cancel()
        for runner in runners.values { runner.cancelCall() }
    }

    private func consumerEnded(_ error: (any Error)?) {
        running -= 1
        if let error { end(error) }
        if running == 0 { resumeWaiter() }
    }

    private func resumeWaiter() { waiter.take()?.resume() }

    private func caughtUp(_ runner: ConsumerRunner, _ brought: Bool) {
        if brought {
            do { try opened.cleaning.countPass() } catch { end(error) }
        }
        onCaughtUp?(runner)
    }

    /// Cursors that moved past what is of no concern are saved together, a second after the first of them.
    private func saveCursors() async {
        for await _ in opened.state.cursors.hasUnsaved {
            await opened.ending.sleep(for: .seconds(1))
            do { try opened.state.cursors.flush() } catch { end(error) }
        }
    }

    func wakeAll() { for runner in runners.values { runner.wakeUp() } }

    // MARK: Commits

    /// There is a signal, which is taken unless what an earlier one spoke of is still looked for.
    private func receive() {
        guard rule == nil, !isEnding, let signal = inbox?.take(), !signal.isEmpty else { return }
        if isGone(signal) { return end() }
        var rule = SettleRule()
        let step = rule.woke()
        self.rule = rule
        advance(step)
    }

    /// Looks until everything that a signal spoke of has been seen.
    private func advance(_ first: SettleRule.Step) {
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
            // The same file, with the pages of an older one: everybody's place is looked at again.
            opened.reporter.report(.storeReplaced)
            end()
        } catch {
            end(error)
        }
    }

    /// Everything has been seen. Where the schema has changed, the tracking follows it before the next signal.
    private func settled() {
        if opened.fetcher.schemaVersion != schemaVersion { return refreshTracking() }
        rule = nil
        receive()
    }

    /// Whether the store's path leads to another file now, or to none.
    private func isGone(_ signal: StoreSignal) -> Bool {
        guard !signal.isDisjoint(with: [.replaced, .disappeared, .appeared, .overflowed]) else { return false }
        guard FileID(of: opened.store.path) != opened.file else { return false }
        opened.reporter.report(.storeReplaced)
        return true
    }

    /// - Returns: Whether there was something new; nil where a lock stood in the way.
    func look() throws -> Bool? {
        do {
            guard let look = try opened.fetcher.look() else { return false }
            try wakeConsumers(for: look)
            control.tellFollowers()
            return true
        } catch let error as HistoryError where error.code == .storeBusy {
            return nil
        }
    }

    /// Wakes those whom it may concern, and moves the others past it.
    private func wakeConsumers(for look: HistoryReader.Look) throws {
        let (state, store) = (opened.state, opened.store)
        let place = Checkpoint(
            position: look.end, fingerprint: look.fingerprint, movedAt: store.clock.wall(),
            movedAtServed: state.served)
        let version = control.passes.isHeld ? nil : hooks.version
        let (woken, moved) = state.cursors.resting.pass(look.batch, to: place, hooks: version)
        for consumer in woken { runners[consumer]?.wakeUp() }
        guard moved > 0 else { return }
        state.cursors.hasUnsaved.ring()
        try opened.cleaning.countPass()
        opened.reporter.report(
            .cursorsMoved(
                MovedConsumers(resting: state.cursors.resting, count: moved),
                to: HistoryToken(store: opened.storeID, number: look.end)))
    }

    /// Brings the tracking up to date where the schema has changed. A writer that holds the lock
    /// is waited for: nobody else can commit meanwhile.
    private func refreshTracking(failures: Int = 0) {
        let opened = opened
        let contexts = runners.values.map(\.contexts)
        let isBegun = errands.run { () -> Result<Int64, any Error> in
            await onPool {
                do {
                    let (problem, tracked) = try OpenStore.bringTrackingUpToDate(
                        opened.store, opened.reporter, patience: 0)
                    if let problem { opened.reporter.report(.trackingFailed(problem)) }
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

    private func take(_ tracked: Result<Int64, any Error>, failures: Int) {
        guard !isEnding else { return }
        switch tracked {
        case .success(let version):
            schemaVersion = version
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
