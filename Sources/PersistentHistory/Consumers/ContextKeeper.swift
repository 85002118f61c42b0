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
    private let snapshots: StoreSnapshots
    private let replicas: [Replica]
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
    /// Those that could not be settled, because the store had gone on, in this run or the one before.
    private var overtaken: Set<String> = []
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
        snapshots = StoreSnapshots(reader.path)
        replicas = consumer.contexts.map { Replica($0, storePath: reader.path) }
        self.state = state
        self.reporter = reporter
    }

    nonisolated var descriptions: [ContextDescription] {
        consumer.contexts.map(\.description) + consumer.feeds.map(\.description)
    }

    /// How long until a context that failed is to be tried again; nil where none is in trouble.
    var retryDelay: Duration? {
        troubles.values.map(\.retryAt).min().map { max(.zero, $0 - .now) }
    }

    /// What is wrong with a context that has failed several times.
    var lasting: HistoryError? { troubles.values.first { $0.failures >= 5 }?.error }

    /// Everything is to be opened and looked at anew.
    func beginAnew() {
        for replica in replicas { replica.close() }
        ready = []
        troubles = [:]
    }

    /// Ends the connections.
    func close() {
        beginAnew()
        snapshots.close()
    }

    /// Fills a context anew from the store, now; where that fails, it is tried again as ever.
    ///
    /// - Returns: What it shows; nil where there is no such context.
    /// - Throws: `HistoryError`.
    func resync(_ name: String, cursor: Int64) throws -> HistoryToken? {
        guard let replica = replicas.first(where: { $0.context.name == name }) else { return nil }
        try state.replicas.refill(name, of: consumer.author)
        replica.close()
        ready.remove(name)
        troubles[name] = nil
        try tend(cursor: cursor)
        if let trouble = troubles[name] { throw trouble.error }
        return HistoryToken(store: storeID, number: try replica.prepare(snapshots).number)
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
    func tend(cursor: Int64) throws {
        for replica in replicas {
            if let trouble = troubles[replica.context.name], trouble.retryAt > .now { continue }
            try attempting(replica) { try open(replica, cursor: cursor) }
        }
    }

    private func open(_ replica: Replica, cursor: Int64) throws {
        let context = replica.context
        let isReady = ready.contains(context.name)
        let known =
            isReady
            ? ReplicaStore.Known(isHere: true)
            : try state.replicas.known(context.name, of: consumer.author, at: context.path)
        // It may be ahead of its consumer, whose checkpoint then does not show that the store was restored.
        let isReplaced =
            try known.filling.map { try reader.isReplaced($0.fingerprint, at: $0.position) } ?? false
        if known.needsFilling || isReplaced { try replica.resync() }
        let preparation = try replica.prepare(isKnown: known.isHere, snapshots)
        tell(context, preparation)
        if isReady, !preparation.isFilled { return }
        if !replica.isLevel { overtaken.insert(context.name) }
        if preparation.isFilled || !known.isHere {
            try note(context, preparation)
        }
        do {
            try catchUp(replica, from: preparation.number, to: cursor)
        } catch let error as HistoryError where error.code == .tokenExpired {
            // A cleanup came in between. That is the replica's loss, not its consumer's.
            try replica.resync()
            let preparation = try replica.prepare(snapshots)
            try note(context, preparation)
            tell(context, preparation)
        }
        ready.insert(context.name)
        unsettled.insert(context.name)
    }

    private func note(_ context: ReplicaContext, _ preparation: Replica.Preparation) throws {
        var filling: Checkpoint?
        if preparation.isFilled {
            let position = preparation.number
            filling = Checkpoint(
                position: position, fingerprint: try reader.fingerprint(at: position, in: nil),
                movedAt: state.clock.wall())
        }
        try state.replicas.save(context.name, of: consumer.author, at: context.path, filling: filling)
    }

    private func catchUp(_ replica: Replica, from start: Int64, to cursor: Int64) throws {
        var place = start
        while place < cursor {
            let batch = try reader.batch(after: place, isPlace: true)
            guard batch.end > place else { return }
            let end = min(batch.end, cursor)
            let missed = relevant(batch, after: place).filter { $0.token.number <= end }
            try replica.merge(missed, through: end)
            place = end
        }
    }

    private func tell(_ context: ReplicaContext, _ preparation: Replica.Preparation) {
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
    /// All is read in one snapshot of the store. What writers have committed since the batch was
    /// fetched becomes part of it: rows may be read only where nothing newer is there.
    ///
    /// - Returns: The batch as it is to be delivered.
    /// - Throws: `HistoryError`.
    func stage(_ batch: HistoryBatch, cursor: Int64) throws -> HistoryBatch {
        try tend(cursor: cursor)
        guard batch.isLast, !ready.isEmpty else { return batch }
        return try snapshots.read { store in
            let batch = try reader.batch(store, after: cursor, beginningAs: batch)
            guard batch.isLast else { return batch }
            let wanted = relevant(batch, after: cursor)
            if wanted.isEmpty { return batch }
            let isMuch = wanted.lazy.map(\.changes.count).reduce(0, +) > HistoryReader.batchSize
            for replica in replicas where ready.contains(replica.context.name) {
                // Much is cheaper to settle, when no hook has a say in it any more; but where writers are busy
                // there may never be a moment for that.
                guard replica.isLevel && !isMuch || overtaken.contains(replica.context.name) else { continue }
                try attempting(replica) {
                    try replica.stage(wanted, of: batch.transactions, through: batch.end, from: store)
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
    func merge(_ merge: PendingMerge, cursor: Int64, waits: Bool) throws -> Duration? {
        if waits { try tend(cursor: cursor) }
        for replica in replicas where ready.contains(replica.context.name) {
            try attempting(replica) {
                let merged = try replica.merge(merge.toMerge, through: merge.end)
                if !merged.isShown { unsettled.insert(replica.context.name) }
                tell(replica.context, merged.leftOut)
                watchLog(of: replica)
                if merged.transactions > 0, let last = merge.transactions.last?.token {
                    reporter.report(
                        .merged(
                            consumer: consumer.author, context: replica.context.name,
                            transactions: merged.transactions, last: last))
                }
            }
        }
        return waits ? retryDelay : nil
    }

    /// Lets replicas show all that they have taken in, and follow the store's schema, once their
    /// consumer is level.
    func settle(cursor: Int64) throws {
        if !troubles.isEmpty { try tend(cursor: cursor) }
        for replica in replicas
        where unsettled.contains(replica.context.name) && ready.contains(replica.context.name) {
            try attempting(replica) {
                let place = try replica.prepare(snapshots).number
                let levelled = try snapshots.read { store in
                    try HistoryHeader(store).newest == place ? try replica.level(from: store) : nil
                }
                guard let levelled else {
                    overtaken.insert(replica.context.name)
                    return
                }
                tell(replica.context, levelled.leftOut)
                unsettled.remove(replica.context.name)
                overtaken.remove(replica.context.name)
            }
        }
    }

    private func watchLog(of replica: Replica) {
        let (size, context) = (replica.logSize, replica.context)
        if size < Self.muchLog / 2 {
            logTold.remove(context.name)
        } else if size > Self.muchLog, logTold.insert(context.name).inserted {
            reporter.report(
                .replicaLogGrows(consumer: consumer.author, context: context.name, bytes: size))
        }
    }

    // MARK: Trouble

    /// Lets a context try; what is wrong with it alone is kept for later.
    private func attempting(_ replica: Replica, _ body: () throws -> Void) throws {
        let context = replica.context
        do {
            try body()
            guard let trouble = troubles[context.name] else { return }
            troubles[context.name] = nil
            if trouble.isTold {
                reporter.report(.contextRecovered(consumer: consumer.author, context: context.name))
            }
        } catch let error as HistoryError
            where error.code == .replicaUnwritable || error.code == .replicaDamaged
        {
            replica.close()
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
