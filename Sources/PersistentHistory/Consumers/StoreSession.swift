internal import FoundationEssentials

/// A store from its opening until it is replaced, lost, or a stop is requested.
final class StoreSession: Sendable {
    let store: ServedStore
    let reader: HistoryReader
    private let probe: WriterProbe
    let fetcher: SharedFetcher
    let state: StateDatabase
    let reporter: any PipelineReporter
    let stop: StopSignal
    /// Asks everybody in this session to come to an end: at a stop, and when the store is gone.
    let ending = StopSignal()
    let control: StoreControl
    private let hooks: HookRegistry
    let runners: [(consumer: Consumer, runner: ConsumerRunner)]
    /// By consumer.
    let bells: [String: Bell]
    private let schemaVersion: Locked<Int64>
    let cleaning: CleaningTurns
    let feeds: FeedKeeper
    private let file: FileID?
    /// Consumers that have not begun yet.
    let unprepared: Locked<Int>

    /// How many seconds an opening waits for a lock: where writers are never still, a store is seldom free for
    /// all that has to be read.
    private static let patience: Double = 1

    /// Opens the store, brings its tracking up to date, and finds each consumer's place.
    ///
    /// - Throws: `HistoryError`, `ObserverError`.
    init(
        _ store: ServedStore, hooks: HookRegistry, stateFolder: String, reporter: any PipelineReporter,
        stop: StopSignal, control: StoreControl
    ) async throws {
        self.store = store
        self.control = control
        self.hooks = hooks
        self.reporter = reporter
        self.stop = stop
        let (problem, version) = try Self.bringTrackingUpToDate(store, reporter, patience: Self.patience)
        file = FileID(of: store.path)
        do {
            reader = try HistoryReader(path: store.path, patience: Self.patience)
        } catch let error as HistoryError where error.code == .notTracked {
            throw problem ?? error
        }
        if let problem { reporter.report(.trackingFailed(problem)) }
        schemaVersion = Locked(try version ?? reader.schemaVersion())
        try StateOwner.take(reader.storeID, in: stateFolder, for: store.path)
        let end = try reader.end()
        fetcher = try SharedFetcher(reader, after: end)
        let resting = RestingConsumers(
            store.consumers.map(\.author),
            at: Checkpoint(position: end.number, fingerprint: end.fingerprint, movedAt: store.clock.wall()))
        state = try StateDatabase(
            folder: stateFolder, store: reader.storeID, clock: store.clock, resting: resting)
        cleaning = CleaningTurns(store, reader: reader, state: state, reporter: reporter, stop: ending)
        feeds = FeedKeeper(store: store, reader: reader, state: state, reporter: reporter)
        reporter.report(.storeOpened(newest: try reader.newestToken()))

        let oldest = try reader.oldestToken()
        if state.isNew, oldest.number > 0 {
            reporter.report(.stateBegan(path: state.path, oldest: oldest))
        }
        for consumer in try state.keepOnly(store.mustHaveHad) {
            reporter.report(.consumerForgotten(consumer: consumer))
        }
        var runners: [(Consumer, ConsumerRunner)] = []
        for consumer in store.consumers {
            let cursor = try Self.cursor(of: consumer, state, reader, reporter)
            let runner = try ConsumerRunner(
                consumer, cursor: cursor, storeID: reader.storeID, fetcher: fetcher, reader: reader,
                hooks: hooks, state: state, reporter: reporter, stop: ending, passes: control.passes,
                seats: control.seats)
            runners.append((consumer, runner))
            reporter.report(
                .consumerStands(
                    consumer: consumer.author, at: HistoryToken(store: reader.storeID, number: cursor)))
        }
        try feeds.begin()
        self.runners = runners
        unprepared = Locked(runners.count)
        bells = Dictionary(uniqueKeysWithValues: store.consumers.map { ($0.author, Bell()) })
        // From now on it is read on the loop, where a lock must not be waited for.
        try reader.setPatience(0)
        // Last, because it must be closed by hand: nothing that may fail comes after it.
        probe =
            store.isUsedInProcess
            ? try WriterProbes.shared.take(store.path) : try WriterProbe(storePath: store.path)
    }

    /// Tracks as configured, or where that is left to others, what is tracked.
    ///
    /// - Returns: What stands in the way (what is tracked all the same goes on), and for which version of the
    ///   schema the tracking is right.
    private static func bringTrackingUpToDate(
        _ store: ServedStore, _ reporter: any PipelineReporter, patience: Double
    ) throws -> (problem: HistoryError?, schemaVersion: Int64?) {
        func track(_ entities: [String: [String]?]) throws -> Int64 {
            let (outcome, version) = try Tracking.bringUpToDate(store.path, entities, patience: patience)
            if !outcome.isEmpty { reporter.report(.trackingUpdated(outcome)) }
            return version
        }
        do {
            return (nil, try track(store.entities ?? [:]))
        } catch let error as HistoryError where error.code == .notAnEntity && store.entities != nil {
            // A table or a preserved column that is named in the configuration is not there.
            do {
                return (error, try track([:]))
            } catch let refused as HistoryError where refused.code == .notTracked {
                throw error
            }
        } catch let error as HistoryError where error.code == .storeUnreadable {
            return (error, nil)
        }
    }

    /// A consumer that is new begins where the history does, and is told if that is not its start.
    private static func cursor(
        of consumer: Consumer, _ state: StateDatabase, _ reader: HistoryReader, _ reporter: any PipelineReporter
    ) throws -> Int64 {
        if let checkpoint = try state.cursors.checkpoint(of: consumer.author) { return checkpoint.position }
        let oldest = try reader.oldestToken()
        try state.startOver(
            consumer.author, oldest.number > 0 ? Expiry(reason: .late, lost: nil, after: oldest) : nil,
            at: oldest.number)
        reporter.report(.consumerBegan(consumer: consumer.author, at: oldest))
        return oldest.number
    }

    /// Ends the connections, and then the probe: closing it first would drop SQLite's locks.
    func close() async throws {
        for (_, runner) in runners { await runner.close() }
        // Each is closed, whatever becomes of the others.
        // A store that is gone tells no number, and that is told elsewhere.
        let results = [
            Result { try state.saveServed(newest: try? reader.newestToken().number) },
            Result { try reader.close() },
            Result {
                if store.isUsedInProcess { WriterProbes.shared.keep(probe) } else { try probe.close() }
            },
            Result { try state.close() },
        ]
        for result in results { try result.get() }
    }

    // MARK: Running

    /// How long the calls in flight may take when the session ends. One that takes longer is cancelled, and
    /// made again with the same delivery id.
    var grace: Duration { stop.isRequested ? control.stopTimeout : .seconds(1) }

    /// - Throws: `HistoryError` where the store is lost.
    func run(watching signals: SignalRelay, isUp: @escaping @Sendable () -> Void) async throws {
        control.opened(self)
        let result: Result<Void, any Error>
        do {
            result = .success(try await serve(watching: signals, isUp: isUp))
        } catch {
            result = .failure(error)
        }
        ending.request()
        await control.closed()
        try result.get()
    }

    private func serve(watching signals: SignalRelay, isUp: @escaping @Sendable () -> Void) async throws {
        async let _ = passOnStop()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (consumer, runner) in runners {
                guard let bell = bells[consumer.author] else { continue }
                group.addTask {
                    try await self.ending.cancelling(after: self.grace) {
                        try await self.serve(consumer, runner, bell)
                    }
                }
            }
            group.addTask { await onPool { await self.cleaning.run() } }
            group.addTask { try await self.saveCursors() }
            group.addTask {
                defer {
                    for bell in [self.cleaning.bell, self.state.cursors.hasUnsaved] + self.bells.values {
                        bell.end()
                    }
                    self.ending.request()
                }
                try await self.listen(signals)
            }
            ringAll()
            isUp()
            // The first to fail ends the session; the others come to a good end.
            var failure: (any Error)?
            while let result = await group.nextResult() {
                guard case .failure(let error) = result else { continue }
                failure = failure ?? error
                ending.request()
            }
            if let failure { throw failure }
        }
    }

    /// Hears of commits, looks for them, and wakes the consumers.
    private func listen(_ signals: SignalRelay) async throws {
        do {
            try await ending.cancelling {
                while let signal = await signals.next() {
                    if signal.contains(.overflowed) { self.reporter.report(.watchOverflowed) }
                    if self.isGone(signal) { return }
                    try await self.probe.settle { try await self.look() }
                    try await self.refreshTracking()
                }
            }
        } catch is CancellationError {
            // Asked to come to an end.
        } catch let error as HistoryError where error.code == .tokenAhead {
            // The same file, with the pages of an older one: everybody's place is looked at anew.
            reporter.report(.storeReplaced)
        }
    }

    /// Whether the store's path leads to another file now, or to none.
    private func isGone(_ signal: StoreSignal) -> Bool {
        guard !signal.isDisjoint(with: [.replaced, .disappeared, .appeared, .overflowed]) else { return false }
        guard FileID(of: store.path) != file else { return false }
        reporter.report(.storeReplaced)
        return true
    }

    /// - Returns: Whether there was something new; nil where a lock stood in the way.
    func look() async throws -> Bool? {
        do {
            guard let look = try await fetcher.look() else { return false }
            try await tellConsumers(of: look)
            control.tellFollowers()
            return true
        } catch let error as HistoryError where error.code == .storeBusy {
            return nil
        }
    }

    /// Wakes those whom it may concern, and moves the others past it.
    private func tellConsumers(of look: HistoryReader.Look) async throws {
        let place = Checkpoint(
            position: look.end, fingerprint: look.fingerprint, movedAt: store.clock.wall(),
            movedAtServed: state.served)
        let version = control.passes.isHeld ? nil : await hooks.version
        let (woken, moved) = state.cursors.resting.pass(look.batch, to: place, hooks: version)
        for consumer in woken { bells[consumer]?.ring() }
        guard moved > 0 else { return }
        state.cursors.hasUnsaved.ring()
        try cleaning.countPass()
        reporter.report(
            .cursorsMoved(
                MovedConsumers(resting: state.cursors.resting, count: moved),
                to: HistoryToken(store: reader.storeID, number: look.end)))
    }

    func ringAll() { for bell in bells.values { bell.ring() } }

    /// Brings the tracking up to date where the schema has changed. A writer that holds the lock
    /// is waited for: nobody else can commit meanwhile.
    private func refreshTracking() async throws {
        var failures = 0
        while !ending.isRequested {
            do {
                let version = await fetcher.schemaVersion
                guard schemaVersion.withLock({ $0 != version }) else { return }
                // With a thousand tables this takes a while.
                let (problem, tracked) = try await onPool {
                    try Self.bringTrackingUpToDate(store, reporter, patience: 0)
                }
                if let problem { reporter.report(.trackingFailed(problem)) }
                let now = try tracked ?? reader.schemaVersion()
                schemaVersion.withLock { $0 = now }
                for (_, runner) in runners { await runner.followSchema() }
                ringAll()
                return
            } catch let error as HistoryError where error.code == .storeBusy {
                failures += 1
                await ending.sleep(for: Backoff.delay(afterFailures: failures))
            }
        }
    }
}
