internal import FoundationEssentials

/// A store from its opening until it is replaced, lost, or a stop is requested.
final class StoreSession: Sendable {
    private let store: ServedStore
    private let reader: HistoryReader
    private let probe: WriterProbe
    private let fetcher: SharedFetcher
    private let state: StateDatabase
    private let reporter: any PipelineReporter
    private let stop: StopSignal
    /// Asks everybody in this session to come to an end: at a stop, and when the store is gone.
    private let ending = StopSignal()
    private let runners: [(consumer: Consumer, runner: ConsumerRunner)]
    private let schemaVersion: Locked<Int64>
    private let cleaning: CleaningTurns
    private let file: FileID?

    /// Opens the store, brings its tracking up to date, and finds each consumer's place.
    ///
    /// - Throws: `HistoryError`, `ObserverError`.
    init(
        _ store: ServedStore, hooks: HookRegistry, stateFolder: String, reporter: any PipelineReporter,
        stop: StopSignal
    ) async throws {
        self.store = store
        self.reporter = reporter
        self.stop = stop
        let problem = try Self.bringTrackingUpToDate(store, reporter)
        file = FileID(of: store.path)
        do {
            reader = try HistoryReader(path: store.path, patience: 0)
        } catch let error as HistoryError where error.code == .notTracked {
            throw problem ?? error
        }
        if let problem { reporter.report(.trackingFailed(problem)) }
        schemaVersion = Locked(try reader.schemaVersion())
        try StateOwner.take(reader.storeID, in: stateFolder, for: store.path)
        fetcher = try SharedFetcher(reader)
        state = try StateDatabase(folder: stateFolder, store: reader.storeID)
        cleaning = CleaningTurns(store, reader: reader, state: state, reporter: reporter, stop: ending)
        reporter.report(.storeOpened(newest: try reader.newestToken()))

        for consumer in try state.keepOnly(Set(store.consumers.map(\.author))) {
            reporter.report(.consumerForgotten(consumer: consumer))
        }
        var runners: [(Consumer, ConsumerRunner)] = []
        for consumer in store.consumers {
            let cursor = try Self.cursor(of: consumer, state, reader, reporter)
            let runner = ConsumerRunner(
                consumer, cursor: cursor, interrupted: try state.fetched(of: consumer.author),
                storeID: reader.storeID,
                fetcher: fetcher, hooks: hooks, state: state, reporter: reporter, stop: ending)
            runners.append((consumer, runner))
        }
        self.runners = runners
        // Last, because it must be closed by hand: nothing that may fail comes after it.
        probe = try WriterProbe(storePath: store.path)
    }

    /// Tracks as configured, or where that is left to others, what is tracked.
    ///
    /// - Returns: What stands in the way. What is tracked all the same goes on.
    private static func bringTrackingUpToDate(_ store: ServedStore, _ reporter: any PipelineReporter) throws
        -> HistoryError?
    {
        func report(_ outcome: Tracking.Outcome) {
            if !outcome.isEmpty { reporter.report(.trackingUpdated(outcome)) }
        }
        do {
            report(
                try store.entities.map { try Tracking.track(store.path, $0, patience: 0) }
                    ?? Tracking.refresh(store.path, patience: 0))
            return nil
        } catch let error as HistoryError where error.code == .notAnEntity && store.entities != nil {
            // A table or a preserved column that is named in the configuration is not there.
            do {
                report(try Tracking.refresh(store.path, patience: 0))
            } catch let refused as HistoryError where refused.code == .notTracked {
                throw error
            }
            return error
        } catch let error as HistoryError where error.code == .storeUnreadable {
            return error
        }
    }

    /// A consumer that is new begins where the history does.
    private static func cursor(
        of consumer: Consumer, _ state: StateDatabase, _ reader: HistoryReader, _ reporter: any PipelineReporter
    ) throws -> Int64 {
        if let cursor = try state.cursor(of: consumer.author) { return cursor.number }
        let oldest = try reader.oldestToken()
        try state.save(Cursor(number: oldest.number, movedAt: .now), of: consumer.author)
        reporter.report(.consumerBegan(consumer: consumer.author, at: oldest))
        return oldest.number
    }

    /// Ends the connections, and then the probe: closing it first would drop SQLite's locks.
    func close() async throws {
        for (consumer, _) in runners {
            for context in consumer.contexts { await context.close() }
        }
        try reader.close()
        try probe.close()
        try state.close()
    }

    // MARK: Running

    /// - Throws: `HistoryError` where the store is lost.
    func run(watching signals: SignalRelay, isUp: @escaping @Sendable () -> Void) async throws {
        let bells = runners.map { _ in Bell() }
        async let _ = passOnStop()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for ((consumer, runner), bell) in zip(runners, bells) {
                group.addTask { try await self.serve(consumer, runner, bell) }
            }
            group.addTask { await self.cleaning.run() }
            group.addTask {
                defer {
                    for bell in bells + [self.cleaning.bell] { bell.end() }
                    self.ending.request()
                }
                try await self.listen(signals, bells)
            }
            for bell in bells { bell.ring() }
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
    private func listen(_ signals: SignalRelay, _ bells: [Bell]) async throws {
        do {
            try await ending.cancelling {
                while let signal = await signals.next() {
                    if self.isGone(signal) { return }
                    try await self.probe.settle { try await self.look(bells) }
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

    private func look(_ bells: [Bell]) async throws -> Bool {
        do {
            guard try await fetcher.look() else { return false }
            for bell in bells { bell.ring() }
            return true
        } catch let error as HistoryError where error.code == .storeBusy {
            // Whoever holds the lock is a writer: it is looked again as long as it does.
            return false
        }
    }

    /// Brings the tracking up to date where the schema has changed. A writer that holds the lock
    /// is waited for: nobody else can commit meanwhile.
    private func refreshTracking() async throws {
        var failures = 0
        while !ending.isRequested {
            do {
                let version = try reader.schemaVersion()
                guard schemaVersion.withLock({ $0 != version }) else { return }
                if let problem = try Self.bringTrackingUpToDate(store, reporter) {
                    reporter.report(.trackingFailed(problem))
                }
                let now = try reader.schemaVersion()
                schemaVersion.withLock { $0 = now }
                return
            } catch let error as HistoryError where error.code == .storeBusy {
                failures += 1
                await ending.sleep(for: Backoff.delay(afterFailures: failures))
            }
        }
    }

    // MARK: Consumers

    private func serve(_ consumer: Consumer, _ runner: ConsumerRunner, _ bell: Bell) async throws {
        try await retrying(consumer) { try await runner.prepareContexts(self.reader) }
        for await _ in bell {
            try await retrying(consumer) {
                if try await runner.pass() { try self.cleaning.countPass() }
            }
        }
    }

    /// Retries what heals; what does not ends the session.
    private func retrying(_ consumer: Consumer, _ body: () async throws -> Void) async throws {
        var failures = 0
        while !ending.isRequested, !Task.isCancelled {
            do {
                return try await body()
            } catch let error as HistoryError where error.code == .tokenExpired || error.code == .tokenAhead {
                try await beginAnew(consumer, error)
            } catch let error as HistoryError where error.heals {
                failures += 1
                let delay = Backoff.delay(afterFailures: failures)
                // A lock is held now and then; it is worth a word when it lasts.
                if failures == 5 {
                    reporter.report(.consumerFailed(consumer: consumer.author, error, retryAfter: delay))
                }
                await ending.sleep(for: delay)
            }
        }
    }

    /// A consumer whose place no longer exists goes on where history is, and has its contexts filled anew.
    private func beginAnew(_ consumer: Consumer, _ error: HistoryError) async throws {
        reporter.report(.tokenExpired(consumer: consumer.author, error))
        let place = error.code == .tokenAhead ? try reader.newestToken() : try reader.oldestToken()
        try state.save(Cursor(number: place.number, movedAt: .now), of: consumer.author)
        for (each, runner) in runners where each.author == consumer.author {
            await runner.begin(at: place.number)
        }
        for context in consumer.contexts {
            try await context.resync()
            let filled = try await context.prepare()
            reporter.report(
                .replicaFilled(
                    consumer: consumer.author, context: context.name,
                    at: HistoryToken(store: reader.storeID, number: filled.number)))
        }
    }

    /// Works off everything there is, once: for cron, and for tests.
    func runOnce() async throws {
        async let _ = passOnStop()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (consumer, runner) in runners {
                group.addTask {
                    try await self.retrying(consumer) {
                        try await runner.prepareContexts(self.reader)
                        if try await runner.pass() { try self.cleaning.countPass() }
                    }
                }
            }
            try await group.waitForAll()
        }
        await cleaning.cleanIfDue()
    }

    /// Until the task is cancelled.
    private func passOnStop() async {
        await stop.wait()
        if stop.isRequested { ending.request() }
    }
}
