/// An open store with everything that serves it: connections, up-to-date tracking, and each consumer's
/// position.
struct OpenStore: Sendable {
    let store: ServedStore
    let loop: HistoryLoop
    let storeID: StoreID
    let source: any HistorySource
    let probe: WriterProbe
    let fetcher: SharedFetcher
    let state: StateDatabase
    let reporter: any PipelineReporter
    let cleaning: CleaningTurns
    let feeds: FeedKeeper
    let unlisted = UnlistedCount()
    let size = HistorySize()
    /// Reads for reports, one at a time, through separate connections.
    let reports = SerialThreadExecutor()
    /// Held as long as the store is open.
    private let lease: ConsumerLease
    let file: FileID
    let sideFiles: UsedSideFiles
    let beginnings: [Beginning]
    /// The schema version that the tracking is up to date with.
    let schemaVersion: Int64
    /// Asks all parts that serve the store to end: at a stop, and when the store is gone.
    let ending = OneShotEvent()

    /// A consumer's starting point from the state.
    struct Beginning: Sendable {
        let consumer: Consumer
        let cursor: Int64
        let fingerprint: String?
        /// The end of a batch that an earlier run may not have finished.
        let batchEnd: Int64
        let expiry: Expiry?
        /// Calls behind the cursor that became dead letters.
        let givenUp: GivenUpCalls
        /// What is repeated, if the consumer was moved back.
        var replay: Replay?
    }

    /// How long an opening waits for a lock: where writers never pause, a store is rarely free long
    /// enough to read everything.
    private static let timeout: Duration = .seconds(1)

    /// Opens the store, brings its tracking up to date, and finds each consumer's position.
    init(_ store: ServedStore, stateFolder: String, reporter: any PipelineReporter) throws {
        assertMayWait()
        self.store = store
        self.reporter = reporter
        loop = try HistoryLoop.shared()
        let isMigrating =
            !store.source.isOnlyRead
            && WriterProbe.isMigrating(store.path, isUsedInProcess: store.isUsedInProcess)
        let (problem, version) = try Self.bringTrackingUpToDate(
            store, reporter, timeout: Self.timeout, isMigrating: isMigrating)
        // The program's own connection would share its open files with the new one.
        if store.isUsedInProcess, UsedSideFiles.areLost(of: store.path) {
            throw HistoryError.sideFilesLost(of: store.path)
        }
        // What is opened here is closed if the rest fails.
        var opened: [() throws -> Void] = []
        defer { for close in opened { try? close() } }
        do {
            source = try Self.source(of: store)
            opened.append(source.close)
        } catch let error as HistoryError where error.code == .notTracked {
            throw problem ?? error
        }
        file = try source.file()
        storeID = source.storeID
        sideFiles = UsedSideFiles(of: store.path)
        reporter.report(problem.map { .trackingFailed($0) } ?? .trackingComplete)
        // The tracking has yet to follow whatever a migration does to the schema.
        schemaVersion = isMigrating ? -1 : try version ?? source.schemaVersion()
        try StateOwner.take(source.storeID, in: stateFolder, for: store.path)
        lease = try ConsumerLease(store.consumers.map(\.author), of: source.storeID, in: stateFolder)
        fetcher = try SharedFetcher(source)
        let end = fetcher.end
        let idle = IdleConsumers(
            store.consumers.map(\.author),
            at: Checkpoint(position: end.number, fingerprint: end.fingerprint, movedAt: store.clock.wall()))
        state = try StateDatabase(
            folder: stateFolder, store: source.storeID, clock: store.clock, idle: idle)
        opened.append(state.close)
        cleaning = CleaningTurns(store: store, source: source, state: state, reporter: reporter, stop: ending)
        feeds = FeedKeeper(store: store, source: source, state: state, reporter: reporter)
        reporter.report(.storeOpened(newest: try source.newestToken()))

        let oldest = try source.oldestToken()
        if state.connection.isNew, oldest.number > 0 {
            reporter.report(.stateBegan(path: state.path, oldest: oldest))
        }
        for consumer in try state.keepOnly(store.mustHaveHad) {
            reporter.report(.consumerForgotten(consumer: consumer))
        }
        let deadLetters = try state.deadLetters.counts()
        var beginnings: [Beginning] = []
        for consumer in store.consumers {
            let beginning = try Self.beginning(of: consumer, state, source, deadLetters, reporter)
            beginnings.append(beginning)
            if consumer.hasContexts {
                reporter.report(.contextsClosed(consumer: consumer.author, contexts: consumer.contextNames))
            }
            reporter.report(
                .consumerStands(
                    consumer: consumer.author,
                    at: HistoryToken(store: source.storeID, number: beginning.cursor)))
        }
        self.beginnings = beginnings
        reporter.report(.deadLettersFound(deadLetters))
        try feeds.begin()
        // Most stores need the state only after a commit or a save. Closing it before the next store is
        // opened frees memory for that one.
        try state.close()
        // From now on, looks find out when a lock is free: they are repeated, and so are signals.
        try source.stopWaitingForLocks()
        // Last, because it must be closed by hand: nothing that may fail comes after it.
        probe = try WriterProbes.shared.take(store.path)
        opened = []
    }

    static func source(of store: ServedStore) throws -> any HistorySource {
        switch store.source {
        case .recorded: try HistoryReader(path: store.path, timeout: timeout, partSize: store.partSize)
        case .coreData: try CoreDataReader(path: store.path, timeout: timeout, partSize: store.partSize)
        }
    }

    /// Tracks as configured, or where that is left to others, checks what is tracked. Configured entities
    /// that do not exist are reported.
    ///
    /// - Parameters:
    ///   - isMigrating: Whether a migration runs. The tracking is then left alone.
    ///   - expectsChange: Whether the schema has changed, so that there is likely something to do.
    /// - Returns: The obstacle, if any (existing tracking continues), and the schema version that the
    ///   tracking is up to date with.
    static func bringTrackingUpToDate(
        _ store: ServedStore, _ reporter: any PipelineReporter, timeout: Duration, isMigrating: Bool = false,
        expectsChange: Bool = false
    ) throws -> (problem: HistoryError?, schemaVersion: Int64?) {
        // Not a byte of such a store is changed.
        if store.source.isOnlyRead { return (nil, nil) }
        if store.isMirror { return (nil, try Tracking.checkMirror(store.path, timeout: timeout)) }
        if isMigrating {
            reporter.report(.migrationUnderWay)
            return (nil, nil)
        }
        do {
            let (outcome, version) = try Tracking.bringUpToDate(
                store.path, store.entities ?? [:], all: store.tracksEveryTable, leavesOutUnfit: true,
                expectsChange: expectsChange, timeout: timeout
            ) { done, all in
                reporter.report(.trackingUnderWay(done: done, of: all))
            }
            if !outcome.isEmpty { reporter.report(.trackingUpdated(outcome)) }
            reporter.report(.entitiesUntracked(outcome.unfit))
            reporter.report(.recordingDoubtful(outcome.doubts))
            return (nil, version)
        } catch let error as HistoryError where error.code == .storeUnreadable {
            return (error, nil)
        }
    }

    /// Where a consumer begins. A new one begins with the oldest history, and is notified if older history was
    /// deleted; or it begins at the end, as configured.
    private static func beginning(
        of consumer: Consumer, _ state: StateDatabase, _ source: any HistorySource,
        _ deadLetters: [String: Int], _ reporter: any PipelineReporter
    ) throws -> Beginning {
        if try state.cursors.checkpoint(of: consumer.author) == nil {
            switch consumer.startAt {
            case .oldest:
                let oldest = try source.oldestToken()
                try state.startOver(
                    consumer.author, oldest.number > 0 ? Expiry(reason: .late, lost: nil, after: oldest) : nil,
                    at: oldest.number)
                reporter.report(.consumerBegan(consumer: consumer.author, at: oldest))
            case .newest:
                let end = try source.end()
                try state.startOver(consumer.author, nil, at: end.number, fingerprint: end.fingerprint)
                let newest = HistoryToken(store: source.storeID, number: end.number)
                reporter.report(.consumerBegan(consumer: consumer.author, at: newest))
            }
        }
        let checkpoint = try state.cursors.checkpoint(of: consumer.author)
        let cursor = checkpoint?.position ?? 0
        let replay = try state.replays.last(of: consumer.author)
        let batchEnd = try state.cursors.batchEnd(of: consumer.author)
        return Beginning(
            consumer: consumer, cursor: cursor, fingerprint: checkpoint?.fingerprint,
            batchEnd: replay?.batchEnd(at: cursor, saved: batchEnd) ?? batchEnd,
            expiry: try state.cursors.expiry(of: consumer.author, store: source.storeID),
            givenUp: deadLetters[consumer.author] == nil
                ? GivenUpCalls() : try state.deadLetters.calls(of: consumer.author, after: cursor),
            replay: replay)
    }

    /// Where a consumer continues if its position no longer exists.
    func expiry(of error: HistoryError, at cursor: Int64) throws -> Expiry {
        let isAhead = error.code == .tokenAhead
        return Expiry(
            reason: isAhead ? .restored : .expired, lost: HistoryToken(store: storeID, number: cursor),
            after: isAhead ? try source.newestToken() : try source.oldestToken())
    }

    /// Closes the connections, and then the probe: closing it first would drop SQLite's locks.
    func close() throws {
        // Each is closed even if others fail. A store that is gone has no number; that is reported
        // elsewhere.
        let results = [
            Result {
                // Served time matters only if consumers may expire; otherwise a closed state stays
                // closed.
                if store.maximumDuration == nil { return try state.cursors.flush() }
                try state.saveServed(newest: try? source.newestToken().number)
            },
            Result { try source.close() },
            Result { try state.close() },
        ]
        WriterProbes.shared.end(probe, isUsedInProcess: store.isUsedInProcess)
        lease.end()
        for result in results { try result.get() }
    }
}
