/// Keeps a consumer's contexts that are the program's own or a plugin's, as `ContextKeeper` keeps its replicas.
///
/// Each knows by itself how far it is. One that fails is left behind, tried again at growing intervals, and then
/// catches up from the history.
actor ProgramContexts {
    private nonisolated let executor = SerialThreadExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    private let consumer: Consumer
    private let contexts: [any HistoryContext]
    private let source: any HistorySource
    private let reporter: any PipelineReporter
    private var troubles = ContextTroubles()
    /// How far those are that are ready.
    private var positions: [String: Int64] = [:]
    /// A context is called in order, also where an operator has it filled meanwhile.
    private let calls = AsyncLock()
    /// Those whose checkpoints mean nothing in this store, which was restored from a backup.
    private var misled: Set<String>

    /// - Parameter isRestored: Whether the consumer has yet to be notified that the store was restored.
    init(
        _ consumer: Consumer, source: any HistorySource, state: StateDatabase, reporter: any PipelineReporter,
        isRestored: Bool
    ) {
        self.consumer = consumer
        contexts =
            consumer.programContexts
            + consumer.pluginContexts.compactMap { [executor] context in
                source.recorder.map {
                    PluginMerger(context, of: consumer, reader: $0, state: state, on: executor)
                }
            }
        self.source = source
        self.reporter = reporter
        misled = isRestored ? Set(contexts.map(\.name)) : []
    }

    /// How long until a context that failed is to be tried again; nil where none is in trouble.
    var retryDelay: Duration? { troubles.delay(at: .now) }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? { troubles.lasting }

    /// Contexts that failed are tried again at the next opportunity.
    func tryNow() { troubles.tryNow(.now) }

    /// Everything is to be looked at again, since the consumer has lost its position.
    func beginAgain(isRestored: Bool) {
        positions = [:]
        troubles.forget()
        if isRestored { misled = Set(contexts.map(\.name)) }
    }

    /// Has a plugin's context filled again, now; where that fails, it is tried again as ever.
    ///
    /// - Returns: What it shows; nil if there is no such context.
    /// - Throws: `HistoryError`.
    func resync(_ name: String, cursor: Int64) async throws -> HistoryToken? {
        let context = contexts.lazy.compactMap { $0 as? PluginMerger }.first { $0.name == name }
        guard let context else { return nil }
        await calls.lock()
        defer { calls.unlock() }
        try await context.requireFilling()
        positions[name] = nil
        tryNow()
        try await tendAll(cursor: cursor)
        if let error = troubles.error(of: name) { throw error }
        return positions[name].map { HistoryToken(store: source.storeID, number: $0) }
    }

    /// Brings those up to the cursor that are behind it, when their time has come.
    ///
    /// - Throws: `HistoryError` for what is wrong with the store.
    func tend(cursor: Int64) async throws {
        await calls.lock()
        defer { calls.unlock() }
        try await tendAll(cursor: cursor)
    }

    private func tendAll(cursor: Int64) async throws {
        for context in contexts where positions[context.name] == nil {
            if troubles.isPaused(context.name, at: .now) { continue }
            try await attempting(context) { try await open(context, cursor: cursor) }
        }
    }

    /// The default merge.
    ///
    /// - Parameter waits: Whether the consumer is to wait for a context that fails.
    /// - Returns: How long it has to wait.
    func merge(_ merge: PendingMerge, cursor: Int64, waits: Bool) async throws -> Duration? {
        if contexts.isEmpty { return nil }
        await calls.lock()
        defer { calls.unlock() }
        if waits { try await tendAll(cursor: cursor) }
        let transactions = merge.toMerge
        let whole = consumer.programContexts.isEmpty ? [] : try transactions.map(source.whole)
        for context in contexts {
            guard let position = positions[context.name], position < merge.end else { continue }
            try await attempting(context) {
                if let recreation = merge.recreation {
                    positions[context.name] = try await refill(context, recreation)
                    return
                }
                let missed = (context is PluginMerger ? transactions : whole).filter { $0.number > position }
                try await take(missed, through: merge.end, context)
            }
        }
        return waits ? retryDelay : nil
    }

    // MARK: One context

    private func open(_ context: any HistoryContext, cursor: Int64) async throws {
        let known = try await asking { try await context.checkpoint() }
        var position: Int64
        let condition = try await (context as? PluginMerger)?.condition()
        if condition?.isReplaced ?? false { misled.insert(context.name) }
        if let known, condition?.needsFilling != true, try loss(of: known, context) == nil {
            position = known.number
        } else {
            position = try await refill(context, expiry(of: known, context))
        }
        while position < cursor {
            let batch: HistoryBatch
            var missed: [HistoryTransaction]
            do {
                batch = try source.outlinedBatch(after: position)
                missed = consumer.rule.relevant(batch.transactions, after: position, to: consumer.author)
                if !(context is PluginMerger) { missed = try missed.map(source.whole) }
            } catch let error as HistoryError where error.code == .tokenExpired {
                // A cleanup came in between.
                let lost = HistoryToken(store: source.storeID, number: position)
                position = try await refill(
                    context, Expiry(reason: .expired, lost: lost, after: source.newestToken()))
                continue
            }
            guard batch.end > position else { break }
            // Changes may have gone unrecorded there.
            if let recreation = batch.transactions.first.flatMap({ Expiry($0) }) {
                position = try await refill(context, recreation)
                continue
            }
            let end = min(batch.end, cursor)
            try await take(missed.filter { $0.number <= end }, through: end, context)
            position = end
        }
        positions[context.name] = position
    }

    private func loss(of token: HistoryToken, _ context: any HistoryContext) throws -> Expiry.Reason? {
        if token.store != source.storeID || misled.contains(context.name) { return .restored }
        if token.number > max(try source.newestToken().number, try source.oldestToken().number) {
            return .restored
        }
        return try token.number < source.oldestToken().number ? .expired : nil
    }

    /// What a context is told before it is filled; nil where it is new, or filled by an operator's order.
    private func expiry(of known: HistoryToken?, _ context: any HistoryContext) throws -> Expiry? {
        guard let known, let reason = try loss(of: known, context) else { return nil }
        return Expiry(reason: reason, lost: known, after: try source.newestToken())
    }

    private func refill(_ context: any HistoryContext, _ expiry: Expiry?) async throws -> Int64 {
        if let expiry { try await asking { try await context.expired(expiry) } }
        let path = source.path
        let filled = try await asking { () -> HistoryToken? in
            if let plugin = context as? PluginMerger { return try await plugin.fill() }
            try await context.refill(from: StoreSnapshot(path: path))
            return try await context.checkpoint()
        }
        misled.remove(context.name)
        guard let token = filled, try loss(of: token, context) == nil else {
            throw Failed(cause: "it has no checkpoint in this store after it was filled")
        }
        reporter.report(.replicaFilled(consumer: consumer.author, context: context.name, at: token))
        return token.number
    }

    private func take(
        _ transactions: [HistoryTransaction], through end: Int64, _ context: any HistoryContext
    ) async throws {
        let token = HistoryToken(store: source.storeID, number: end)
        try await asking { try await context.merge(transactions, through: token) }
        positions[context.name] = end
        guard let last = transactions.last?.token else { return }
        reporter.report(
            .merged(
                consumer: consumer.author, context: context.name, transactions: transactions.count, last: last))
    }

    // MARK: Trouble

    /// What is wrong with a context, and not with the store.
    private struct Failed: Error { let cause: String }

    private func asking<T: Sendable>(_ body: () async throws -> T) async throws -> T {
        do {
            return try await body()
        } catch {
            // The owner ends, which is no fault of the context.
            try Task.checkCancellation()
            throw Failed(cause: "\(error)")
        }
    }

    /// Lets a context try. A failure of the context alone is kept for later.
    private func attempting(_ context: any HistoryContext, _ body: () async throws -> Void) async throws {
        let (author, name) = (consumer.author, context.name)
        do {
            try await body()
            // By its own checkpoint it has everything, also if the call that failed was what brought it there.
            guard let attempts = troubles.succeed(name, at: .written, now: .now) else { return }
            reporter.report(.contextRecovered(consumer: author, context: name, attempts: attempts))
        } catch let failed as Failed {
            positions[name] = nil
            let error = HistoryError(
                .contextFailed, "The context \"\(name)\" failed: \(failed.cause).", hint: "It is tried again.")
            let attempt = troubles.fail(name, error, at: .written, now: .now)
            reporter.report(.contextFailed(consumer: author, context: name, error, attempt: attempt))
        }
    }
}
