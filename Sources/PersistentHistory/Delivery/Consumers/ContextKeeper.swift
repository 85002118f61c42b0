/// Keeps one consumer's contexts: opens, fills and merges them, and recovers those that fail.
///
/// A context that fails (a replica that is locked, on a full disk, or deleted under our hands; a plugin that died) is
/// left behind, tried again at growing intervals, and then catches up from the history or is filled again: the
/// consumer, its hooks and its other contexts continue. Only if merge hooks decide what is merged does the consumer
/// wait for it, because their decisions are not saved.
actor ContextKeeper {
    private nonisolated let executor = SerialThreadExecutor(measuresWork: true)
    /// The context that something is done with.
    private nonisolated let current = Locked<String?>(nil)
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let consumer: Consumer
    let source: any HistorySource
    let state: StateDatabase
    let reporter: any PipelineReporter
    let snapshots: StoreSnapshots
    let contexts: [any MergeContext]

    private var troubles = ContextTroubles()
    /// How far those are that are open.
    var positions: [String: Int64] = [:]
    /// Up to where each shows the history, as that was reported.
    private var shown: [String: Int64] = [:]
    /// Contexts whose checkpoints mean nothing in this store, which was restored from a backup.
    private var misled: Set<String> = []
    /// Contexts that are to be filled again by an operator's order.
    private var ordered: Set<String> = []
    /// Whether the contexts take in the consumer's own changes, too, as of the last batch.
    var takesOwn = false
    /// A context is called in order, also where an operator has it filled meanwhile.
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

    /// The context that waits for its disk or a lock now, for how long.
    nonisolated var stuckContext: StoreControl.Standing.Context? {
        guard let time = executor.waitingTime, let name = current.withLock(\.self) else { return nil }
        return .init(consumer: consumer.author, name: name, time: time)
    }

    nonisolated func standstill() -> Duration? { executor.standstill() }

    /// How long until a context that failed is to be tried again; nil where none is in trouble.
    var retryDelay: Duration? { troubles.delay(at: .now) }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? { troubles.lasting }

    /// Contexts that failed are tried again at the next opportunity.
    func tryNow() { troubles.tryNow(.now) }

    /// Everything is to be opened and looked at again, since the consumer has lost its position.
    func startOver(isRestored: Bool) {
        closeAll()
        if isRestored { misled = Self.misled(contexts) }
    }

    /// Not replicas, which need no notice: the state knows which of them to fill again.
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

    /// Reports what a context shows, where that is more than before: to take changes in is not to show them.
    ///
    /// - Parameter cursor: Up to where the consumer is done, if no more than what the context has taken in is for it.
    func reportShown(by context: any MergeContext, through cursor: Int64 = 0) {
        guard let position = positions[context.name] else { return }
        let taken = max(position, context.isUnsettled ? 0 : cursor)
        let number = context.isUnsettled ? context.shownPosition ?? position : taken
        if let known = shown[context.name], known >= number { return }
        shown[context.name] = number
        reporter.report(
            .contextShows(
                consumer: consumer.author, context: context.name,
                HistoryToken(store: source.storeID, number: number)))
    }

    /// Fills a replica or a plugin's context again from the store, now; where that fails, it is tried again as ever.
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

    // MARK: Opening

    /// Opens the contexts whose time has come, and brings those that are behind the cursor up to it.
    ///
    /// A context's position and the cursor lie in different files: the last of what was written may be
    /// lost when the power fails, and a context that failed was left behind.
    ///
    /// - Throws: `HistoryError` for what is wrong with the store or the state.
    func tend(cursor: Int64, takesOwn: Bool = false) async throws {
        self.takesOwn = takesOwn
        await calls.lock()
        defer { calls.unlock() }
        try await openAll(cursor: cursor)
    }

    func openAll(cursor: Int64) async throws {
        for context in contexts where !troubles.isPaused(context.name, at: .now) {
            let failing: ContextTroubles.Stage = context.copiesRows ? .opened : .written
            try await attempting(context, failing) { try await open(context, cursor: cursor) }
        }
    }

    private func open(_ context: any MergeContext, cursor: Int64) async throws -> ContextTroubles.Stage {
        let (name, author) = (context.name, consumer.author)
        if positions[name] != nil, context.isOpen { return .opened }
        let known = try context.stateKey.map { try state.replicas.known(name, of: author, at: $0) }
        let token = try await asking(context) { try await context.open(isKnown: known?.isHere ?? false) }
        // Before fingerprints are compared: what a restored store grows to in between has one.
        let bounds = try source.bounds()
        // It may be ahead of its consumer, whose checkpoint then does not show that the store was restored.
        if let token, try isReplaced(context, known, at: token) { misled.insert(name) }
        let loss = token.flatMap { expiry(of: $0, context, bounds) }
        let isFilled = token == nil || loss != nil || known?.needsFilling ?? false || ordered.contains(name)
        let start: Int64
        if isFilled {
            start = try await refill(context, loss)
        } else {
            start = token?.number ?? 0
            if let key = context.stateKey, known?.isHere == false {
                try state.replicas.save(name, of: author, at: key, filling: nil)
            }
        }
        let position = try await catchUp(context, from: start, to: cursor)
        positions[name] = position
        reportShown(by: context)
        // Others have everything by their own checkpoints, also if the call that failed was what brought them there.
        return isFilled || position > start || !context.copiesRows ? .written : .opened
    }

    /// Whether a context has taken in transactions that the store had before it was restored. Numbers do not tell: the
    /// restored store gives them again.
    private func isReplaced(
        _ context: any MergeContext, _ known: ReplicaStore.Known?, at token: HistoryToken
    ) throws -> Bool {
        if try source.isReplaced(context.fingerprint, at: token.number) { return true }
        if try known?.isReplaced(in: source) ?? false { return true }
        return try state.given.isReplaced(context.name, of: consumer.author, in: source)
    }

    /// Why a context that is at a token must be filled again; nil if it need not.
    private func expiry(of token: HistoryToken, _ context: any MergeContext, _ bounds: HistoryBounds) -> Expiry?
    {
        let isMisled = misled.contains(context.name)
        guard let loss = isMisled ? .otherStore : bounds.loss(at: token) else { return nil }
        return Expiry(reason: loss == .expired ? .expired : .restored, lost: token, after: bounds.newest)
    }

    func refill(_ context: any MergeContext, _ expiry: Expiry?) async throws -> Int64 {
        let (name, author) = (context.name, consumer.author)
        shown[name] = nil
        let filled = try await asking(context) { try await context.refill(expiry) }
        misled.remove(name)
        guard let token = filled, self.expiry(of: token, context, try source.bounds()) == nil else {
            throw failure(of: context, "it has no checkpoint in this store after it was filled")
        }
        reporter.report(.replicaFilled(consumer: author, context: name, at: token))
        try state.given.forget(name, of: author)
        if let key = context.stateKey {
            var filling = try source.checkpoint(at: token.number, state.clock)
            // That of the file that was copied.
            if let fingerprint = context.fingerprint { filling.fingerprint = fingerprint }
            try state.replicas.save(name, of: author, at: key, filling: filling)
        }
        ordered.remove(name)
        return token.number
    }

    /// Brings a context up to the cursor.
    ///
    /// - Returns: Where it is then.
    private func catchUp(_ context: any MergeContext, from start: Int64, to cursor: Int64) async throws -> Int64
    {
        var position = start
        while position < cursor {
            do {
                let batch = try source.outlinedBatch(after: position)
                guard batch.end > position else { break }
                // Changes may have gone unrecorded there.
                if !context.copiesRows, let recreation = batch.transactions.first.flatMap({ Expiry($0) }) {
                    position = try await refill(context, recreation)
                    continue
                }
                let end = min(batch.end, cursor)
                let own =
                    takesOwn ? consumer.rule.own(batch.transactions, after: position, of: consumer.author) : []
                let missed = (own + relevant(batch, after: position)).filter { $0.number <= end }
                    .sorted { $0.number < $1.number }
                try await merge(
                    context.takesParts ? missed : missed.map(source.whole), through: end,
                    source.fingerprint(at: end, in: batch), into: context)
                position = end
            } catch let error as HistoryError where error.code == .tokenExpired {
                // A cleanup came in between. That is the context's loss, not its consumer's.
                let lost = HistoryToken(store: source.storeID, number: position)
                position = try await refill(
                    context, Expiry(reason: .expired, lost: lost, after: try source.newestToken()))
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

    /// What is wrong then is wrong with the context; one that copies rows tells that apart by itself.
    func asking<T>(_ context: any MergeContext, _ body: () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch  where !context.copiesRows {
            // The owner ends, which is no fault of the context.
            try Task.checkCancellation()
            throw failure(of: context, "\(error)")
        }
    }

    private func failure(of context: any MergeContext, _ cause: String) -> HistoryError {
        HistoryError(
            .contextFailed, "The context \"\(context.name)\" failed: \(cause).", hint: "It is tried again.")
    }
}

extension HistoryError {
    /// Whether a context alone is concerned, and neither the store nor the state.
    var isOfContext: Bool {
        code == .replicaUnwritable || code == .replicaDamaged || code == .contextFailed
    }
}
