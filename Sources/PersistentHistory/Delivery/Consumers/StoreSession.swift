/// Owns a store, its wake-ups and its consumers, from its opening until it is replaced or lost, or a stop
/// is requested.
///
/// It runs on its store's thread, which may wait for the store's locks and for the disks of the store and
/// the state. The work of one store runs there in order, and that of no other. The loop hands over
/// signals, timers and answers, and never waits for it.
actor StoreSession {
    nonisolated let executor: SerialThreadExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    nonisolated let opened: OpenStore
    nonisolated let control: StoreControl
    nonisolated let hooks: HookRegistry
    nonisolated let stop: OneShotEvent
    nonisolated let tasks = SessionTasks()
    var runners: [String: ConsumerRunner] = [:]
    var running = 0
    /// Consumers that have not started yet.
    var unprepared = 0
    /// How many consumers were woken and have neither caught up nor failed since.
    var unfinished = 0
    /// True until all consumers have caught up for the first time: most of many stores then wait for
    /// long.
    var mayForgetPages = true

    /// The processing of the last signal that was taken.
    enum Phase {
        /// Everything that it announced has been seen.
        case idle
        /// The next look comes when the timer fires, or when the rule lets another signal interrupt.
        case waiting(VisibilityRule)
        /// The schema has changed, and the tracking is being updated.
        case tracking
    }

    var phase = Phase.idle
    var lookTimer: StoreTimer?
    var restTimer: StoreTimer?
    /// When something new was last seen.
    var lastCommit = ContinuousClock.now
    var signals: StoreSignals?
    /// What the last look has seen of the write-ahead log.
    var seen = SeenPublication()
    /// Runs while a migration has removed the store's triggers.
    var migrationTimer: StoreTimer?
    var isMigrating = false
    var schemaVersion: Int64
    /// Whether there are feeds whose programs may want values.
    let hasFeedsWithValues: Bool
    /// For a version of the hooks.
    var wantedByHooks: (version: Int, wanted: WantedValues?)?

    var failure: (any Error)?
    var isEnding = false
    /// Whether the connections are closed.
    var isClosed = false
    var graceTimer: StoreTimer?
    var cleaningTimer: StoreTimer?
    /// Waits for the end of the last consumer; of a store without consumers, for the session's.
    var waiter: CheckedContinuation<Void, Never>?
    /// Whether a consumer ends once it has caught up.
    var isSingleRun = false

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
            consumer.feeds.contains { $0.wantedRows != nil }
        }
        schemaVersion = opened.schemaVersion
        isMigrating = schemaVersion < 0
    }

    /// Closes the connections.
    func close() async throws {
        for contexts in runners.values.map(\.contexts) { await contexts.close() }
        // A report that took too long for its caller still has a connection. The probe is closed after
        // that.
        await opened.reports.turn()
        isClosed = true
        control.progress.clear()
        try opened.close()
    }

    // MARK: Running

    /// How long the calls in flight may take when the session ends. A call that takes longer is
    /// cancelled, and repeated with the same delivery id.
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
            // The file may have been replaced by a rename while it was opened.
            if isMoved() { end() }
            wakeAll()
            receive()
            if isMigrating { awaitMigration() }
            beginAwaitingRest()
            isUp()
        }
        signals.setReceiver(nil)
        await control.waitUntilClosed()
        if let failure { throw failure }
    }

    /// Serves until all consumers have ended.
    func whileServing(_ begin: () -> Void) async {
        for beginning in opened.beginnings {
            runners[beginning.consumer.author] = ConsumerRunner(beginning, of: self)
        }
        control.progress.began(runners.values.map(\.contexts))
        running = runners.count
        unprepared = runners.count
        control.passes.setOwner(
            .init(
                released: { [weak self] in
                    self?.perform { $0.runners.values.forEach { $0.released() } }
                },
                tryNow: { [weak self] in self?.perform { $0.runners.values.forEach { $0.tryNow() } } },
                held: { [weak self] consumer in self?.perform(for: consumer) { $0.wakeUp() } }))
        let opened = opened
        let isSingleRun = isSingleRun
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [tasks] in await tasks.run() }
            group.addTask {
                await self.stop.wait()
                // A cancelled task waits for nothing.
                await self.stopped()
            }
            if !isSingleRun { group.addTask { await self.clean() } }
            group.addTask { await self.saveCursors() }
            for beginning in opened.beginnings where !isSingleRun {
                let consumer = beginning.consumer
                for context in consumer.pluginContexts {
                    // From before the contexts are opened.
                    let processes = context.endpoint.processes
                    group.addTask { await self.follow(processes, of: context.plugin, for: consumer.author) }
                }
            }
            group.addTask { await onPool { await opened.state.connection.keepLogShort() } }
            group.addTask { await self.endWhenDamaged() }
            begin()
            await withCheckedContinuation { continuation in
                waiter = continuation
                // A store without consumers is served as well: it is tracked, cleaned and looked at.
                if running == 0, isEnding || isSingleRun { resumeWaiter() }
            }
            graceTimer?.cancel()
            cleaningTimer?.cancel()
            lookTimer?.cancel()
            restTimer?.cancel()
            migrationTimer?.cancel()
            tasks.end()
            opened.state.cursors.hasUnsaved.end()
            opened.state.connection.damaged.end()
            opened.state.connection.logHasGrown.end()
            // A single run cleans afterwards.
            if !isSingleRun { opened.ending.signal() }
            opened.cleaning.wakeUp.notify()
            group.cancelAll()
            await group.waitForAll()
        }
        control.passes.setOwner(nil)
    }

    /// A context that a plugin has in memory is gone with the plugin's process: it is filled again without a commit.
    private nonisolated func follow(_ processes: AsyncStream<Int>, of plugin: String, for author: String) async
    {
        for await process in processes { perform(for: author) { $0.pluginBegan(plugin, process) } }
    }

    private func clean() async {
        let cleaning = opened.cleaning
        do { try await onPool { try await cleaning.run() } } catch { end(error) }
    }

    /// Processes everything there is, once: for cron and for tests.
    func runOnce() async throws {
        isSingleRun = true
        await whileServing { wakeAll() }
        if let failure { throw failure }
    }

    /// In a single run, a consumer that has caught up is done, unless one of its contexts has to be
    /// retried.
    func finish(_ runner: ConsumerRunner) {
        let isBegun = work { [contexts = runner.contexts] in
            (await contexts.retryDelay, await contexts.lasting)
        } then: { [author = runner.consumer.author] session, result in
            let (delay, trouble) = result
            if delay == nil || trouble != nil { session.runners[author]?.end() }
            if let trouble { session.end(trouble) }
        }
        if !isBegun { runner.end() }
    }

    func stopped() { if waiter != nil { end(atOnce: !stop.isSignaled) } }

    /// Asks all parts to end.
    func end(_ error: (any Error)? = nil, atOnce: Bool = false) {
        // A failure that comes from the path leading to another file is not reported as one.
        if failure == nil, let error, isEnding || !isMoved() { failure = error }
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
        if running == 0 { resumeWaiter() }
    }

    func cancelCalls() {
        tasks.cancel()
        for runner in runners.values { runner.cancelCall() }
    }

    func resumeWaiter() { waiter.take()?.resume() }

}
