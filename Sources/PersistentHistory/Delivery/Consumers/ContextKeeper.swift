/// Keeps one consumer's contexts: opens, fills and merges them, and recovers those that fail.
///
/// A context may fail: a replica that is locked, on a full disk, or deleted while in use; a plugin that
/// died. It is left behind and retried at growing intervals, and then catches up from the history or is
/// filled again. The consumer, its hooks and its other contexts continue. The consumer waits for it only
/// if merge hooks decide what is merged, because their decisions are not saved.
actor ContextKeeper {
    private nonisolated let executor = SerialThreadExecutor(measuresWork: true)
    /// The context that is being used now.
    private nonisolated let current = Locked<String?>(nil)
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let consumer: Consumer
    let source: any HistorySource
    let state: StateDatabase
    let reporter: any PipelineReporter
    let snapshots: StoreSnapshots
    let contexts: [any MergeContext]

    var troubles = ContextTroubles()
    /// The positions of the open contexts.
    var positions: [String: Int64] = [:]
    /// The position up to which each context shows the history, as last reported.
    var shown: [String: Int64] = [:]
    /// Contexts whose checkpoints are invalid because the store was restored from a backup.
    var misled: Set<String> = []
    /// Contexts that an operator wants filled again.
    var ordered: Set<String> = []
    /// Whether the contexts also merge the consumer's own changes, as of the last batch.
    var takesOwn = false
    /// Calls to a context stay in order, even if an operator has it filled meanwhile.
    let calls = AsyncLock()

    /// - Parameter isRestored: Whether the consumer has yet to be notified that the store was restored.
    init(
        _ consumer: Consumer, source: any HistorySource, state: StateDatabase, reporter: any PipelineReporter,
        isRestored: Bool = false
    ) {
        (self.consumer, self.source, self.state, self.reporter) = (consumer, source, state, reporter)
        let snapshots = StoreSnapshots(source.path)
        self.snapshots = snapshots
        let replicas = consumer.contexts.map {
            Replica($0, of: consumer.author, in: source, snapshots: snapshots, reporter: reporter)
        }
        let plugins = consumer.pluginContexts.compactMap { context in
            source.recorder.map { PluginMerger(context, of: consumer, reader: $0, state: state) }
        }
        contexts =
            replicas + consumer.programContexts.map { ProgramContext($0, storePath: source.path) } + plugins
        if isRestored { misled = Self.misled(contexts) }
    }

    /// The context that waits for its disk or a lock now, and for how long.
    nonisolated var stuckContext: StoreControl.Standing.Context? {
        guard let time = executor.waitingTime, let name = current.withLock(\.self) else { return nil }
        return .init(consumer: consumer.author, name: name, time: time)
    }

    nonisolated func standstill() -> Duration? { executor.standstill() }

    /// How long until a failed context is retried; nil if none has failed.
    var retryDelay: Duration? { troubles.delay(at: .now) }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? { troubles.lasting }

    /// Retries failed contexts at the next opportunity.
    func tryNow() { troubles.tryNow(.now) }

    /// Opens and checks everything again, because the consumer has lost its position.
    func startOver(isRestored: Bool) {
        closeAll()
        if isRestored { misled = Self.misled(contexts) }
    }

    /// Replicas are not included: the state knows which of them to fill again.
    private static func misled(_ contexts: [any MergeContext]) -> Set<String> {
        Set(contexts.filter { !$0.copiesRows }.map(\.name))
    }

    /// Ends the connections.
    func close() {
        closeAll()
        snapshots.close()
    }

    private func closeAll() {
        for context in contexts {
            current.withLock { $0 = context.name }
            context.close()
        }
        current.withLock { $0 = nil }
        positions = [:]
        shown = [:]
        troubles.forget()
    }

    /// Reports what a context shows if that is more than before. Merged changes need not be visible yet.
    ///
    /// - Parameter cursor: The consumer's position, if the context has merged everything up to it that is
    ///   for it.
    func reportShown(by context: any MergeContext, through cursor: Int64 = 0) {
        guard let position = positions[context.name] else { return }
        let taken = max(position, context.isOutdated ? 0 : cursor)
        let number = context.isOutdated ? context.shownPosition ?? position : taken
        if let known = shown[context.name], known >= number { return }
        shown[context.name] = number
        reporter.report(
            .contextShows(
                consumer: consumer.author, context: context.name,
                HistoryToken(store: source.storeID, number: number)))
    }

    /// Fills a replica or a plugin's context again from the store now. If that fails, it is retried like
    /// any other failure.
    ///
    /// - Returns: What it shows; nil if there is no such context.
    func resync(_ name: String, cursor: Int64) async throws -> HistoryToken? {
        guard let context = contexts.first(where: { $0.name == name && $0.stateKey != nil }) else { return nil }
        await calls.lock()
        defer { calls.unlock() }
        try state.replicas.refill(name, of: consumer.author)
        ordered.insert(name)
        context.close()
        positions[name] = nil
        tryNow()
        try await openAll(cursor: cursor)
        if let error = troubles.error(of: name) { throw error }
        return positions[name].map { HistoryToken(store: source.storeID, number: $0) }
    }

    /// A process of a plugin runs: what another one had in memory is gone.
    ///
    /// - Returns: Whether a context has to be opened again.
    func processBegan(_ process: Int, of plugin: String) async -> Bool {
        await calls.lock()
        defer { calls.unlock() }
        let others = contexts.compactMap { $0 as? PluginMerger }.filter {
            $0.context.plugin == plugin && positions[$0.name] != nil && $0.process != process
        }
        for context in others { positions[context.name] = nil }
        return !others.isEmpty
    }

    // MARK: Trouble

    /// Lets a context try. A failure that concerns only the context is kept for later.
    ///
    /// - Parameters:
    ///   - stage: The stage that counts as failed on a failure.
    ///   - body: Returns the stage that it reached.
    func attempting(
        _ context: any MergeContext, _ stage: ContextTroubles.Stage,
        _ body: () async throws -> ContextTroubles.Stage
    ) async throws {
        current.withLock { $0 = context.name }
        defer { current.withLock { $0 = nil } }
        do {
            let reached = try await body()
            if let attempts = troubles.succeed(context.name, at: reached, now: .now) {
                reporter.report(
                    .contextRecovered(consumer: consumer.author, context: context.name, attempts: attempts))
            }
        } catch let error as HistoryError where error.isOfContext {
            failed(context, error, stage)
        }
    }

    func failed(_ context: any MergeContext, _ error: HistoryError, _ stage: ContextTroubles.Stage) {
        context.close()
        positions[context.name] = nil
        let attempt = troubles.fail(context.name, error, at: stage, now: .now)
        reporter.report(
            .contextFailed(consumer: consumer.author, context: context.name, error, attempt: attempt))
    }

    /// Treats any failure as the context's. A context that copies rows distinguishes them itself.
    func asking<T>(_ context: any MergeContext, _ body: () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch  where !context.copiesRows {
            // The owner is ending, which is not the context's fault.
            try Task.checkCancellation()
            throw failure(of: context, "\(error)")
        }
    }

    func failure(of context: any MergeContext, _ cause: String) -> HistoryError {
        HistoryError(
            .contextFailed, "The context \"\(context.name)\" failed: \(cause).", hint: "It is tried again.")
    }
}

extension HistoryError {
    /// Whether the error concerns a context alone, and neither the store nor the state.
    var isOfContext: Bool {
        code == .replicaUnwritable || code == .replicaDamaged || code == .contextFailed
    }
}
