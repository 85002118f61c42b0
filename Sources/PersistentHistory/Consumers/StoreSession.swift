/// Owns a store from its opening until it is replaced, lost, or a stop is requested: its wake-ups and its consumers.
///
/// It has the thread of its store, which may wait: for the store's locks, for the disks of store and state. Everything
/// of one store happens there in order, and nothing of another. The loop hands over signals, timers and answers, and
/// never waits for it.
actor StoreSession {
    nonisolated let executor: SerialThreadExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    nonisolated let opened: OpenStore
    nonisolated let control: StoreControl
    nonisolated let hooks: HookRegistry
    nonisolated let stop: OneShotEvent
    nonisolated let errands = Errands()
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
    var lookTimer: StoreTimer?
    var signals: StoreSignals?
    /// Runs while a migration has the triggers of the store taken out.
    var migrationTimer: StoreTimer?
    var isMigrating = false
    var schemaVersion: Int64
    /// Whether there are feeds of which a program may want values.
    let hasFeedsWithValues: Bool
    /// As of a version of the hooks.
    var wantedByHooks: (version: Int, wanted: WantedValues?)?

    var failure: (any Error)?
    var isEnding = false
    /// The connections have ended.
    private var isClosed = false
    var graceTimer: StoreTimer?
    var cleaningTimer: StoreTimer?
    /// Waits for the last consumer's end.
    var waiter: CheckedContinuation<Void, Never>?
    /// Called when a consumer has everything: in a single run.
    private var isSingleRun = false

    init(
        _ opened: OpenStore, hooks: HookRegistry, stop: OneShotEvent, control: StoreControl,
        on thread: StoreThread
    ) {
        executor = thread.executor
        self.opened = opened
        self.hooks = hooks
        self.stop = stop
        self.control = control
        hasFeedsWithValues = opened.store.consumers.contains { consumer in
            consumer.feeds.contains { $0.maximumValueBytes != nil }
        }
        schemaVersion = opened.schemaVersion
        isMigrating = schemaVersion < 0
    }

    /// Ends the connections.
    func close() async throws {
        for contexts in runners.values.map(\.contexts) { await contexts.close() }
        isClosed = true
        try opened.close()
    }

    // MARK: From elsewhere

    /// Calls a body on the store's thread, after what it does now.
    nonisolated func perform(_ body: @escaping @Sendable (isolated StoreSession) -> Void) {
        executor.perform { self.assumeIsolated { body($0) } }
    }

    /// The same with one of its consumers.
    nonisolated func perform(for author: String, _ body: @escaping @Sendable (ConsumerRunner) -> Void) {
        perform { session in if let runner = session.runners[author] { body(runner) } }
    }

    /// Calls a body on the store's thread when some time is over.
    nonisolated func schedule(
        after duration: Duration, file: StaticString = #fileID, line: UInt = #line,
        _ body: @escaping @Sendable (isolated StoreSession) -> Void
    ) -> StoreTimer {
        let timer = StoreTimer()
        timer.begin(
            opened.loop.schedule(after: duration, file: file, line: line) {
                self.perform { session in if !timer.isCancelled { body(session) } }
            })
        return timer
    }

    /// The same with one of its consumers.
    nonisolated func schedule(
        after duration: Duration, for author: String, _ body: @escaping @Sendable (ConsumerRunner) -> Void
    ) -> StoreTimer {
        schedule(after: duration) { session in if let runner = session.runners[author] { body(runner) } }
    }

    /// Begins something that waits, and calls a body on the store's thread with what comes of it.
    ///
    /// - Returns: False if nothing more may be started.
    nonisolated func errand<T: Sendable>(
        _ body: @escaping @Sendable () async -> T,
        then: @escaping @Sendable (isolated StoreSession, T) -> Void
    ) -> Bool {
        errands.run { await self.finish(await body(), then) }
    }

    /// The same for one of its consumers.
    nonisolated func errand<T: Sendable>(
        _ body: @escaping @Sendable () async -> T, for author: String,
        then: @escaping @Sendable (ConsumerRunner, T) -> Void
    ) -> Bool {
        errand(body) { session, result in if let runner = session.runners[author] { then(runner, result) } }
    }

    private func finish<T: Sendable>(_ result: T, _ then: @Sendable (isolated StoreSession, T) -> Void) {
        then(self, result)
    }

    /// How long those who ask wait for an answer of the store's thread: the control socket answers within a second.
    nonisolated static let answerTimeout: Duration = .milliseconds(300)
    /// The same for what concerns one store alone, and changes something in it.
    nonisolated static let actionTimeout: Duration = .milliseconds(900)

    /// Asks something of the session. It does not wait for a thread that waits for a lock or a disk.
    ///
    /// - Throws: `HistoryError` with `.storeBusy`, caused by an `Unresponsive`, if there is no answer in time, and with
    ///   `.storeNotOpen` if the session has ended; what the body throws.
    nonisolated func ask<T: Sendable>(
        within limit: Duration = answerTimeout,
        _ body: @escaping @Sendable (isolated StoreSession) throws -> T
    ) async throws -> T {
        if let time = executor.busyTime, time >= limit { throw unresponsive(time) }
        let answer = try await firstAnswer(within: limit) { answer in
            perform { session in
                answer(
                    Result {
                        if session.isClosed { throw HistoryError.storeNotOpen }
                        return try body(session)
                    })
            }
        }
        guard let answer else { throw unresponsive(executor.busyTime ?? limit) }
        return answer
    }

    /// The store's thread has been at work with one thing for some time.
    struct Unresponsive: Error {
        let time: Duration
    }

    nonisolated func unresponsive(_ time: Duration) -> HistoryError {
        HistoryError(
            .storeBusy,
            "The store \"\(opened.store.path)\" has not answered for \(time.milliseconds) ms: it waits for a lock or for a disk, or reads much.",
            hint: "Try again.", cause: Unresponsive(time: time))
    }

    // MARK: Running

    /// How long the calls in flight may take when the session ends. One that takes longer is cancelled, and
    /// made again with the same delivery id.
    var grace: Duration { stop.isSignaled ? control.stopTimeout : .seconds(1) }

    /// - Throws: `HistoryError` if the store is lost.
    func run(watching signals: StoreSignals, isUp: @Sendable () -> Void) async throws {
        control.opened(self)
        self.signals = signals
        signals.setReceiver { [weak self] in
            self?.perform { session in
                session.signals?.receiverBegan()
                session.receive()
            }
        }
        await whileServing {
            wakeAll()
            receive()
            if isMigrating { awaitMigration() }
            isUp()
        }
        signals.setReceiver(nil)
        await control.closed()
        if let failure { throw failure }
    }

    /// Serves until all consumers have ended.
    func whileServing(_ begin: () -> Void) async {
        for beginning in opened.beginnings {
            runners[beginning.consumer.author] = ConsumerRunner(beginning, of: self)
        }
        running = runners.count
        unprepared = runners.count
        control.passes.setOwner(
            .init(
                released: { [weak self] in
                    self?.perform { $0.runners.values.forEach { $0.released() } }
                },
                tryNow: { [weak self] in self?.perform { $0.runners.values.forEach { $0.tryNow() } } }))
        let opened = opened
        let isSingleRun = isSingleRun
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
        isSingleRun = true
        await whileServing { wakeAll() }
        if let failure { throw failure }
    }

    /// In a single run, a consumer that has everything is done, unless one of its contexts has to be tried again.
    func finish(_ runner: ConsumerRunner) {
        let isBegun = errand { [contexts = runner.contexts] in
            (await contexts.retryDelay, await contexts.lasting)
        } then: { [author = runner.consumer.author] session, result in
            let (delay, trouble) = result
            if delay == nil || trouble != nil { session.runners[author]?.end() }
            if let trouble { session.end(trouble) }
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
            graceTimer = schedule(after: grace) { $0.cancelCalls() }
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
        guard unprepared == 0, !isSingleRun else { return }
        // A consumer's contexts may have used it.
        do { try opened.state.close() } catch { end(error) }
    }

    func consumerEnded(_ error: (any Error)?) {
        running -= 1
        if let error { end(error) }
        if running == 0 { resumeWaiter() }
    }

    func resumeWaiter() { waiter.take()?.resume() }

    /// Whether a consumer is anything but caught up.
    var isAtWork: Bool {
        runners.values.contains { !$0.isIdle }
    }

    func caughtUp(_ author: String, _ brought: Bool) {
        guard let runner = runners[author] else { return }
        if brought {
            // What came while the consumer did not look counts as one, too.
            do { try opened.cleaning.countNotification(through: runner.cursor) } catch { end(error) }
        }
        stoppedWorking(author)
        if isSingleRun { finish(runner) }
        if mayForgetPages, unfinished == 0 {
            mayForgetPages = false
            perform { $0.opened.source.forgetPages() }
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
    func stoppedWorking(_ author: String) {
        if let runner = runners[author], runner.isUnfinished {
            runner.isUnfinished = false
            unfinished -= 1
        }
        if unfinished == 0 { opened.cleaning.mayDeleteMore() }
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
