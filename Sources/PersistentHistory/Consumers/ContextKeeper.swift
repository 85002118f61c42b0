/// Keeps one consumer's replicas: opens, fills and merges them, and recovers those that fail.
///
/// A replica that cannot be written (locked, on a full disk, deleted under our hands) is left
/// behind, tried again at growing intervals, and then catches up from the history or is filled again:
/// the consumer, its hooks and its other replicas continue. Only if merge hooks decide what is
/// merged does the consumer wait for it, because their decisions are not saved.
actor ContextKeeper {
    private nonisolated let executor = SerialThreadExecutor()
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    let consumer: Consumer
    private let storeID: StoreID
    private let source: any HistorySource
    private let snapshots: StoreSnapshots
    private let replicas: [Replica]
    private let state: StateDatabase
    let reporter: any PipelineReporter
    /// Those that are not replicas.
    private nonisolated let others: ProgramContexts

    var troubles = ContextTroubles()
    /// Those that are open.
    var ready: Set<String> = []
    /// Those that have taken in more than they show.
    private var unsettled: Set<String> = []
    /// Those that could not be settled, because the store had gone on, in this run or the one before.
    private var overtaken: Set<String> = []
    var logTold: Set<String> = []

    /// More than this in a replica's write-ahead log is worth a word.
    static let muchLog: Int64 = 256 << 20

    init(
        _ consumer: Consumer, storeID: StoreID, source: any HistorySource, state: StateDatabase,
        reporter: any PipelineReporter, isRestored: Bool = false
    ) {
        self.consumer = consumer
        self.storeID = storeID
        self.source = source
        snapshots = StoreSnapshots(source.path)
        replicas = consumer.contexts.map { Replica($0, storePath: source.path) }
        self.state = state
        self.reporter = reporter
        others = ProgramContexts(
            consumer, source: source, state: state, reporter: reporter, isRestored: isRestored)
    }

    /// How long until a context that failed is to be tried again; nil where none is in trouble.
    var retryDelay: Duration? {
        get async { [troubles.delay(at: .now), await others.retryDelay].compactMap { $0 }.min() }
    }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? {
        get async {
            if let lasting = troubles.lasting { return lasting }
            return await others.lasting
        }
    }

    /// Contexts that failed are tried again at the next opportunity.
    func tryNow() async {
        troubles.tryNow(.now)
        await others.tryNow()
    }

    /// Everything is to be opened and looked at again.
    func beginAnew(isRestored: Bool) async {
        closeReplicas()
        await others.beginAgain(isRestored: isRestored)
    }

    private func closeReplicas() {
        for replica in replicas { replica.close() }
        ready = []
        troubles.forget()
    }

    /// Ends the connections.
    func close() {
        closeReplicas()
        snapshots.close()
    }

    /// Fills a context again from the store, now; where that fails, it is tried again as ever.
    ///
    /// - Returns: What it shows; nil if there is no such context.
    /// - Throws: `HistoryError`.
    func resync(_ name: String, cursor: Int64) async throws -> HistoryToken? {
        guard let replica = replicas.first(where: { $0.context.name == name }) else {
            return try await others.resync(name, cursor: cursor)
        }
        try state.replicas.refill(name, of: consumer.author)
        replica.close()
        ready.remove(name)
        await tryNow()
        try await tend(cursor: cursor)
        if let error = troubles.error(of: name) { throw error }
        return HistoryToken(store: storeID, number: try replica.prepare(snapshots).number)
    }

    /// The store's schema has changed.
    func followSchema() { unsettled = Set(consumer.contexts.map(\.name)) }

    // MARK: Opening

    /// Opens the contexts whose time has come, and brings those that are behind the cursor up to it.
    ///
    /// A replica's position and the cursor lie in different files: the last of what was written may be
    /// lost when the power fails, and a replica that failed was left behind.
    ///
    /// - Throws: `HistoryError` for what is wrong with the store or the state.
    func tend(cursor: Int64) async throws {
        for replica in replicas {
            if troubles.isPaused(replica.context.name, at: .now) { continue }
            try attempting(replica, .opened) { try open(replica, cursor: cursor) }
        }
        try await others.tend(cursor: cursor)
    }

    /// - Returns: Whether the replica was written.
    private func open(_ replica: Replica, cursor: Int64) throws -> ContextTroubles.Stage {
        let context = replica.context
        let isReady = ready.contains(context.name)
        let known =
            isReady
            ? ReplicaStore.Known(isHere: true)
            : try state.replicas.known(context.name, of: consumer.author, at: context.path)
        // It may be ahead of its consumer, whose checkpoint then does not show that the store was restored.
        let isReplaced =
            try known.filling.map { try source.isReplaced($0.fingerprint, at: $0.position) } ?? false
        if known.needsFilling || isReplaced { try replica.resync() }
        let preparation = try replica.prepare(isKnown: known.isHere, snapshots)
        tell(context, preparation)
        if isReady, !preparation.isFilled { return .opened }
        var stage: ContextTroubles.Stage = preparation.isFilled ? .written : .opened
        if !replica.isLevel { overtaken.insert(context.name) }
        if preparation.isFilled || !known.isHere {
            try note(context, preparation)
        }
        do {
            if try catchUp(replica, from: preparation.number, to: cursor) { stage = .written }
        } catch let error as HistoryError where error.code == .tokenExpired {
            // A cleanup came in between. That is the replica's loss, not its consumer's.
            try replica.resync()
            let preparation = try replica.prepare(snapshots)
            try note(context, preparation)
            tell(context, preparation)
            stage = .written
        }
        ready.insert(context.name)
        unsettled.insert(context.name)
        return stage
    }

    private func note(_ context: ReplicaContext, _ preparation: Replica.Preparation) throws {
        var filling: Checkpoint?
        if preparation.isFilled {
            let position = preparation.number
            filling = Checkpoint(
                position: position, fingerprint: try source.fingerprint(at: position, in: nil),
                movedAt: state.clock.wall())
        }
        try state.replicas.save(context.name, of: consumer.author, at: context.path, filling: filling)
    }

    /// - Returns: Whether the replica was behind, and was written.
    private func catchUp(_ replica: Replica, from start: Int64, to cursor: Int64) throws -> Bool {
        var position = start
        while position < cursor {
            let batch = try source.outlinedBatch(after: position)
            guard batch.end > position else { break }
            let end = min(batch.end, cursor)
            let missed = relevant(batch, after: position).filter { $0.token.number <= end }
            try replica.merge(missed, through: end, reading: source.recorder)
            position = end
        }
        return position > start
    }

    private func tell(_ context: ReplicaContext, _ preparation: Replica.Preparation) {
        let (author, name) = (consumer.author, context.name)
        if let newPath = preparation.movedAside {
            reporter.report(.replicaMovedAside(consumer: author, context: name, to: newPath))
        }
        if preparation.isFilled {
            let token = HistoryToken(store: storeID, number: preparation.number)
            reporter.report(.replicaFilled(consumer: author, context: name, at: token))
        }
        tell(context, preparation.leftOut)
    }

    private func tell(_ context: ReplicaContext, _ leftOut: [ReplicaContext.LeftOut]) {
        let (author, name) = (consumer.author, context.name)
        for part in leftOut {
            switch part.kind {
            case .table: reporter.report(.replicaTableLeftOut(consumer: author, context: name, part))
            case .index: reporter.report(.replicaIndexLeftOut(consumer: author, context: name, part))
            }
        }
    }

    // MARK: Merging

    /// Reads the rows of a batch, before the hooks have their say.
    ///
    /// All is read in one snapshot of the store. What writers have committed since the batch was
    /// fetched becomes part of it: rows may be read only if nothing newer is there.
    ///
    /// - Returns: The batch as it is to be delivered.
    /// - Throws: `HistoryError`.
    func stage(_ batch: HistoryBatch, cursor: Int64, takesOwn: Bool) async throws -> HistoryBatch {
        try await tend(cursor: cursor)
        guard batch.isLast, !ready.isEmpty, let recorder = source.recorder else { return batch }
        return try snapshots.read { store in
            let batch = try recorder.batch(store, after: cursor, beginningAs: batch)
            guard batch.isLast else { return batch }
            let own = takesOwn ? consumer.rule.own(batch.transactions, after: cursor, of: consumer.author) : []
            let wanted = PendingMerge(relevant(batch, after: cursor), own: own, after: cursor, end: batch.end)
                .toMerge
            // Of a large transaction the objects are noted when it is merged, and their rows are read when settled.
            if wanted.isEmpty || wanted.contains(where: { $0.outline != nil }) { return batch }
            let isMuch = wanted.lazy.map(\.changes.count).reduce(0, +) > HistoryReader.batchSize
            for replica in replicas where ready.contains(replica.context.name) {
                // Much is cheaper to settle, when no hook has a say in it any more; but where writers are busy
                // there may never be a moment for that.
                guard replica.isLevel && !isMuch || overtaken.contains(replica.context.name) else { continue }
                try attempting(replica, .written) {
                    try replica.stage(wanted, of: batch.transactions, through: batch.end, from: store)
                    return .opened
                }
            }
            return batch
        }
    }

    private func relevant(_ batch: HistoryBatch, after cursor: Int64) -> [HistoryTransaction] {
        consumer.rule.relevant(batch.transactions, after: cursor, to: consumer.author)
    }

    /// The default merge.
    ///
    /// - Parameter waits: Whether the consumer is to wait for a context that fails.
    /// - Returns: How long it has to wait.
    func merge(_ merge: PendingMerge, cursor: Int64, waits: Bool) async throws -> Duration? {
        if waits { try await tend(cursor: cursor) }
        for replica in replicas where ready.contains(replica.context.name) {
            try attempting(replica, .written) {
                let merged = try replica.merge(merge.toMerge, through: merge.end, reading: source.recorder)
                if !merged.isShown { unsettled.insert(replica.context.name) }
                tell(replica.context, merged.leftOut)
                watchLog(of: replica)
                if merged.transactions > 0, let last = merge.toMerge.last?.token {
                    reporter.report(
                        .merged(
                            consumer: consumer.author, context: replica.context.name,
                            transactions: merged.transactions, last: last))
                }
                return .written
            }
        }
        let delay = try await others.merge(merge, cursor: cursor, waits: waits)
        return waits ? [troubles.delay(at: .now), delay].compactMap { $0 }.min() : nil
    }

    /// Lets replicas show all that they have taken in, and follow the store's schema, once their
    /// consumer is level.
    func settle(cursor: Int64) async throws {
        if await retryDelay != nil { try await tend(cursor: cursor) }
        for replica in replicas
        where unsettled.contains(replica.context.name) && ready.contains(replica.context.name) {
            try attempting(replica, .written) {
                let position = try replica.prepare(snapshots).number
                let levelled = try snapshots.read { store in
                    try HistoryHeader(store).newest == position ? try replica.level(from: store) : nil
                }
                guard let levelled else {
                    overtaken.insert(replica.context.name)
                    return .opened
                }
                tell(replica.context, levelled.leftOut)
                unsettled.remove(replica.context.name)
                overtaken.remove(replica.context.name)
                return .written
            }
        }
    }
}
