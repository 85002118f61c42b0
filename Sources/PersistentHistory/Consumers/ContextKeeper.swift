/// Keeps one consumer's contexts: opens, fills and merges them, and recovers those that fail.
///
/// A context that fails (a replica that is locked, on a full disk, or deleted under our hands; a plugin that died) is
/// left behind, tried again at growing intervals, and then catches up from the history or is filled again: the
/// consumer, its hooks and its other contexts continue. Only if merge hooks decide what is merged does the consumer
/// wait for it, because their decisions are not saved.
actor ContextKeeper {
    private nonisolated let executor = SerialThreadExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let consumer: Consumer
    let source: any HistorySource
    let state: StateDatabase
    let reporter: any PipelineReporter
    let snapshots: StoreSnapshots
    let replicas: [Replica]
    /// The program's own contexts, and those that plugins keep.
    private let others: [any HistoryContext]

    var troubles = ContextTroubles()
    /// How far those are that are open.
    var positions: [String: Int64] = [:]
    /// Replicas that have taken in more than they show.
    var unsettled: Set<String> = []
    /// Replicas that could not be settled, because the store had gone on, in this run or the one before.
    var overtaken: Set<String> = []
    /// Replicas with a long write-ahead log, which has been reported.
    var reportedLogs: Set<String> = []
    /// Others whose checkpoints mean nothing in this store, which was restored from a backup.
    var misled: Set<String>
    /// A context is called in order, also where an operator has it filled meanwhile.
    private let calls = AsyncLock()

    /// - Parameter isRestored: Whether the consumer has yet to be notified that the store was restored.
    init(
        _ consumer: Consumer, source: any HistorySource, state: StateDatabase, reporter: any PipelineReporter,
        isRestored: Bool = false
    ) {
        self.consumer = consumer
        self.source = source
        self.state = state
        self.reporter = reporter
        snapshots = StoreSnapshots(source.path)
        replicas = consumer.contexts.map { Replica($0, storePath: source.path) }
        let plugins = consumer.pluginContexts.compactMap { [executor] context in
            source.recorder.map { PluginMerger(context, of: consumer, reader: $0, state: state, on: executor) }
        }
        others = consumer.programContexts + plugins
        misled = isRestored ? Set(others.map(\.name)) : []
    }

    /// How long until a context that failed is to be tried again; nil where none is in trouble.
    var retryDelay: Duration? { troubles.delay(at: .now) }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? { troubles.lasting }

    /// Contexts that failed are tried again at the next opportunity.
    func tryNow() { troubles.tryNow(.now) }

    /// Everything is to be opened and looked at again, since the consumer has lost its position.
    func beginAnew(isRestored: Bool) {
        closeAll()
        if isRestored { misled = Set(others.map(\.name)) }
    }

    /// Ends the connections.
    func close() {
        closeAll()
        snapshots.close()
    }

    private func closeAll() {
        for replica in replicas { replica.close() }
        positions = [:]
        troubles.forget()
    }

    /// Fills a replica or a plugin's context again from the store, now; where that fails, it is tried again as ever.
    ///
    /// - Returns: What it shows; nil if there is no such context.
    func resync(_ name: String, cursor: Int64) async throws -> HistoryToken? {
        let replica = replicas.first { $0.context.name == name }
        let plugin = others.lazy.compactMap { $0 as? PluginMerger }.first { $0.name == name }
        if replica == nil, plugin == nil { return nil }
        await calls.lock()
        defer { calls.unlock() }
        if let replica {
            try state.replicas.refill(name, of: consumer.author)
            replica.close()
        } else {
            try await plugin?.requireFilling()
        }
        positions[name] = nil
        tryNow()
        try await openAll(cursor: cursor)
        if let error = troubles.error(of: name) { throw error }
        return positions[name].map { HistoryToken(store: source.storeID, number: $0) }
    }

    // MARK: All contexts

    /// Opens the contexts whose time has come, and brings those that are behind the cursor up to it.
    ///
    /// A context's position and the cursor lie in different files: the last of what was written may be
    /// lost when the power fails, and a context that failed was left behind.
    ///
    /// - Throws: `HistoryError` for what is wrong with the store or the state.
    func tend(cursor: Int64) async throws {
        await calls.lock()
        defer { calls.unlock() }
        try await openAll(cursor: cursor)
    }

    private func openAll(cursor: Int64) async throws {
        for replica in replicas where !troubles.isPaused(replica.context.name, at: .now) {
            try await attempting(replica.context.name, .opened) { try await open(replica, cursor: cursor) }
        }
        for context in others where positions[context.name] == nil {
            if troubles.isPaused(context.name, at: .now) { continue }
            try await attempting(context.name, .written) {
                try await open(context, cursor: cursor)
                // By its own checkpoint it has everything, also if the call that failed was what brought it there.
                return .written
            }
        }
    }

    /// The default merge.
    ///
    /// - Parameter waits: Whether the consumer is to wait for a context that fails.
    /// - Returns: How long it has to wait.
    func merge(_ merge: PendingMerge, cursor: Int64, waits: Bool) async throws -> Duration? {
        await calls.lock()
        defer { calls.unlock() }
        if waits { try await openAll(cursor: cursor) }
        for replica in replicas where positions[replica.context.name] != nil {
            try attempting(replica.context.name, .written) {
                try self.merge(merge, into: replica)
                return .written
            }
        }
        let whole = consumer.programContexts.isEmpty ? [] : try merge.toMerge.map(source.whole)
        for context in others {
            guard let position = positions[context.name], position < merge.end else { continue }
            try await attempting(context.name, .written) {
                if let recreation = merge.recreation {
                    positions[context.name] = try await refill(context, recreation)
                } else {
                    let missed = context is PluginMerger ? merge.toMerge : whole
                    try await take(missed.filter { $0.number > position }, through: merge.end, context)
                    positions[context.name] = merge.end
                }
                return .written
            }
        }
        return waits ? retryDelay : nil
    }

    /// Brings a context up to the cursor.
    ///
    /// - Parameters:
    ///   - merge: Has it take in transactions, and be at a position then.
    ///   - refill: Has it filled again where history is missing; nil where that is no loss to it.
    /// - Returns: Where it is then.
    func catchUp(
        from start: Int64, to cursor: Int64, merge: ([HistoryTransaction], Int64) async throws -> Void,
        refill: (Expiry) async throws -> Int64?
    ) async throws -> Int64 {
        var position = start
        while position < cursor {
            do {
                let batch = try source.outlinedBatch(after: position)
                guard batch.end > position else { break }
                // Changes may have gone unrecorded there.
                if let recreation = batch.transactions.first.flatMap({ Expiry($0) }),
                    let filled = try await refill(recreation)
                {
                    position = filled
                    continue
                }
                let end = min(batch.end, cursor)
                try await merge(relevant(batch, after: position).filter { $0.number <= end }, end)
                position = end
            } catch let error as HistoryError where error.code == .tokenExpired {
                // A cleanup came in between. That is the context's loss, not its consumer's.
                let lost = HistoryToken(store: source.storeID, number: position)
                let expiry = Expiry(reason: .expired, lost: lost, after: try source.newestToken())
                guard let filled = try await refill(expiry) else { throw error }
                position = filled
            }
        }
        return position
    }

    func relevant(_ batch: HistoryBatch, after cursor: Int64) -> [HistoryTransaction] {
        consumer.rule.relevant(batch.transactions, after: cursor, to: consumer.author)
    }

    // MARK: Trouble

    /// Lets a context try. A failure of the context alone is kept for later.
    ///
    /// - Parameters:
    ///   - stage: The stage that a failure shows to fail.
    ///   - body: Returns the stage that it reached.
    func attempting(
        _ name: String, _ stage: ContextTroubles.Stage, _ body: () async throws -> ContextTroubles.Stage
    ) async throws {
        do {
            succeeded(name, try await body())
        } catch let error as HistoryError where error.isOfContext {
            failed(name, error, stage)
        }
    }

    /// The same within a snapshot of the store, which no other thread may read.
    func attempting(
        _ name: String, _ stage: ContextTroubles.Stage, _ body: () throws -> ContextTroubles.Stage
    ) throws {
        do {
            succeeded(name, try body())
        } catch let error as HistoryError where error.isOfContext {
            failed(name, error, stage)
        }
    }

    private func succeeded(_ name: String, _ stage: ContextTroubles.Stage) {
        guard let attempts = troubles.succeed(name, at: stage, now: .now) else { return }
        reporter.report(.contextRecovered(consumer: consumer.author, context: name, attempts: attempts))
    }

    private func failed(_ name: String, _ error: HistoryError, _ stage: ContextTroubles.Stage) {
        replicas.first { $0.context.name == name }?.close()
        positions[name] = nil
        let attempt = troubles.fail(name, error, at: stage, now: .now)
        reporter.report(
            .contextFailed(consumer: consumer.author, context: name, error, attempt: attempt))
    }
}

extension HistoryError {
    /// Whether a context alone is concerned, and neither the store nor the state.
    fileprivate var isOfContext: Bool {
        code == .replicaUnwritable || code == .replicaDamaged || code == .contextFailed
    }
}
