/// Keeps one consumer's replicas: opens, fills, merges, and lets one that fails heal by itself.
///
/// A replica that can not be written (locked, on a full disk, deleted under our hands) is left
/// behind, tried again at growing intervals, and then catches up from the history or is filled anew:
/// the consumer, its hooks and its other replicas go on. Only where merge hooks decide what is
/// merged does the consumer wait for it: what they decided is known to nobody else.
actor ContextKeeper {
    private let consumer: Consumer
    private let storeID: StoreID
    private let reader: HistoryReader
    private let state: StateDatabase
    private let reporter: any PipelineReporter

    private struct Trouble {
        var failures = 0
        var isTold = false
        var retryAt: ContinuousClock.Instant
        let error: HistoryError
    }

    /// The contexts that fail at present.
    private var troubles: [String: Trouble] = [:]
    /// Those that are open.
    private var ready: Set<String> = []
    /// Those that have taken in more than they show.
    private var unsettled: Set<String> = []
    private var logTold: Set<String> = []

    /// More than this in a replica's write-ahead log is worth a word.
    private static let muchLog: Int64 = 256 << 20

    init(
        _ consumer: Consumer, storeID: StoreID, reader: HistoryReader, state: StateDatabase,
        reporter: any PipelineReporter
    ) {
        self.consumer = consumer
        self.storeID = storeID
        self.reader = reader
        self.state = state
        self.reporter = reporter
    }

    nonisolated var descriptions: [ContextDescription] { consumer.contexts.map(\.description) }

    /// How long until a context that failed is to be tried again; nil where none is in trouble.
    var retryDelay: Duration? {
        troubles.values.map(\.retryAt).min().map { max(.zero, $0 - .now) }
    }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? { troubles.values.first { $0.failures >= 5 }?.error }

    /// Everything is to be opened and looked at anew.
    func beginAnew() async {
        for context in consumer.contexts { await context.close() }
        ready = []
        troubles = [:]
    }

    /// The store's schema has changed.
    func followSchema() { unsettled = Set(consumer.contexts.map(\.name)) }

    // MARK: Opening

    /// Opens the contexts whose time has come, and brings those that are behind the cursor up to it.
    ///
    /// A replica's place and the cursor lie in different files: the last of what was written may be
    /// lost when the power fails, and a replica that failed was left behind.
    ///
    /// - Throws: `HistoryError` for what is wrong with the store or the state.
    func tend(cursor: Int64) async throws {
        for context in consumer.contexts {
            if let trouble = troubles[context.name], trouble.retryAt > .now { continue }
            try await attempting(context) { try await self.open(context, cursor: cursor) }
        }
    }

    private func open(_ context: ReplicaContext, cursor: Int64) async throws {
        let isReady = ready.contains(context.name)
        let known =
            isReady
            ? (isKnown: true, isToBeFilled: false)
            : try state.replica(context.name, of: consumer.author, at: context.path)
        if known.isToBeFilled { try await context.resync() }
        let preparation = try await context.prepare(isKnown: known.isKnown)
        tell(context, preparation)
        if isReady, !preparation.isFilled { return }
        if preparation.isFilled || !known.isKnown {
            try state.noteReplica(context.name, of: consumer.author, at: context.path)
        }
        var place = preparation.number
        while place < cursor {
            let batch = try reader.batch(after: place, isPlace: true)
            guard batch.end > place else { break }
            let end = min(batch.end, cursor)
            let missed = batch.transactions.filter {
                $0.token.number <= end && consumer.rule.delivers($0.author, to: consumer.author)
            }
            try await context.merge(missed, through: end)
            place = end
        }
        ready.insert(context.name)
        unsettled.insert(context.name)
    }

    private func tell(_ context: ReplicaContext, _ preparation: ReplicaContext.Preparation) {
        let (author, name) = (consumer.author, context.name)
        if let place = preparation.movedAside {
            reporter.report(.replicaMovedAside(consumer: author, context: name, to: place))
        }
        if preparation.isFilled {
            let token = HistoryToken(store: storeID, number: preparation.number)
            reporter.report(.replicaFilled(consumer: author, context: name, at: token))
        }
        tell(context, preparation.leftOut)
    }

    private func tell(_ context: ReplicaContext, _ leftOut: [ReplicaContext.LeftOutIndex]) {
        for index in leftOut {
            reporter.report(
                .replicaIndexLeftOut(consumer: consumer.author, context: context.name, index))
        }
    }

    // MARK: Merging

    /// Reads the rows of a batch, before the hooks have their say.
    ///
    /// - Returns: Whether the store has nothing newer than the batch, as far as any context asked.
    func stage(_ transactions: [HistoryTransaction], of batch: HistoryBatch, cursor: Int64) async throws -> Bool
    {
        try await tend(cursor: cursor)
        var isLevel = true
        for context in consumer.contexts where ready.contains(context.name) {
            try await attempting(context) {
                let isStaged = try await context.stage(
                    transactions, of: batch.transactions, through: batch.end)
                isLevel = isLevel && isStaged
            }
        }
        return isLevel
    }

    /// The default merge.
    ///
    /// - Parameter waits: Whether the consumer is to wait for a context that fails.
    /// - Returns: How long it has to wait.
    func merge(_ merge: PendingMerge, cursor: Int64, waits: Bool) async throws -> Duration? {
        if waits { try await tend(cursor: cursor) }
        for context in consumer.contexts where ready.contains(context.name) {
            try await attempting(context) {
                let merged = try await context.merge(merge.toMerge, through: merge.end)
                if !merged.isShown { unsettled.insert(context.name) }
                tell(context, merged.leftOut)
                try await watchLog(of: context)
                if merged.transactions > 0, let last = merge.transactions.last?.token {
                    reporter.report(
                        .merged(
                            consumer: consumer.author, context: context.name,
                            transactions: merged.transactions, last: last))
                }
            }
        }
        return waits ? retryDelay : nil
    }

    /// Lets replicas show all that they have taken in, and follow the store's schema, once their
    /// consumer is level.
    func settle(cursor: Int64) async throws {
        if !troubles.isEmpty { try await tend(cursor: cursor) }
        for context in consumer.contexts where unsettled.contains(context.name) && ready.contains(context.name)
        {
            try await attempting(context) {
                let place = try await context.prepare().number
                guard try await context.stage([], of: [], through: place) else { return }
                let merged = try await context.merge([], through: place)
                tell(context, merged.leftOut)
                if merged.isShown { unsettled.remove(context.name) }
            }
        }
    }

    private func watchLog(of context: ReplicaContext) async throws {
        let size = await context.logSize
        if size < Self.muchLog / 2 {
            logTold.remove(context.name)
        } else if size > Self.muchLog, logTold.insert(context.name).inserted {
            reporter.report(
                .replicaLogGrows(consumer: consumer.author, context: context.name, bytes: size))
        }
    }

    // MARK: Trouble

    /// Lets a context try; what is wrong with it alone is kept for later.
    private func attempting(_ context: ReplicaContext, _ body: () async throws -> Void) async throws {
        do {
            try await body()
            guard let trouble = troubles[context.name] else { return }
            troubles[context.name] = nil
            if trouble.isTold {
                reporter.report(.contextRecovered(consumer: consumer.author, context: context.name))
            }
        } catch let error as HistoryError
            where error.code == .replicaUnwritable || error.code == .replicaDamaged
        {
            await context.close()
            ready.remove(context.name)
            var trouble = troubles[context.name] ?? Trouble(retryAt: .now, error: error)
            trouble.failures += 1
            trouble.retryAt = .now + Backoff.delay(afterFailures: trouble.failures)
            // What heals at once is not worth a word: a lock, a file that is made anew.
            if !trouble.isTold, trouble.failures >= 3 {
                trouble.isTold = true
                reporter.report(.contextFailed(consumer: consumer.author, context: context.name, error))
            }
            troubles[context.name] = trouble
        }
    }
}
