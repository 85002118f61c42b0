/// Takes one consumer from its cursor to the end of the history: fetch, observers, merge hooks,
/// default merge, cursor; again and again until it is level.
///
/// When a hook fails, the batch is cut before the transaction that could not be delivered: what
/// stands in front of it is merged and the cursor saved, so that a retry, or a new start, begins
/// exactly there.
actor ConsumerRunner {
    private let consumer: Consumer
    private let fetcher: SharedFetcher
    private let hooks: HookRegistry
    private let state: StateDatabase
    private let storeID: StoreID
    private let reporter: any PipelineReporter
    private let stop: StopSignal
    private let passes: PassControl
    private let reader: HistoryReader
    private let contexts: ContextKeeper
    private let seats: FeedSeats

    private(set) var cursor: Int64
    /// What the hooks have yet to be told before anything else.
    private var expiry: Expiry?
    private var toldOfExpiry: Set<String> = []
    /// The batch under way. It stays the same until it is done, also over a new start (see
    /// `interrupted`): an undeclared writer's changes are grouped by time, and more of the same
    /// millisecond may come. A call that is repeated must not have grown.
    private var batch: HistoryBatch?
    /// Where the batch ended that an earlier run may not have finished.
    private var interrupted: Int64
    /// The last transaction whose observers have all been called, which may be ahead of the cursor.
    private var observed: Int64
    /// Deliveries made of the transaction after `observed`.
    private var done: Set<String> = []
    private var pending: PendingMerge?
    private var failures: HookFailures
    /// Whether it had everything before this pass.
    private var wasLevel = false
    /// The last order to try at once what failed.
    private var lastWakeUp: StopSignal?

    /// - Throws: `HistoryError` with `.stateUnusable`.
    init(
        _ consumer: Consumer, cursor: Int64, storeID: StoreID, fetcher: SharedFetcher, reader: HistoryReader,
        hooks: HookRegistry, state: StateDatabase, reporter: any PipelineReporter, stop: StopSignal,
        passes: PassControl, seats: FeedSeats
    ) throws {
        self.consumer = consumer
        self.cursor = cursor
        interrupted = try state.cursors.batchEnd(of: consumer.author)
        expiry = try state.cursors.expiry(of: consumer.author, store: storeID)
        observed = cursor
        self.storeID = storeID
        self.fetcher = fetcher
        self.hooks = hooks
        self.state = state
        self.reporter = reporter
        self.stop = stop
        self.passes = passes
        self.reader = reader
        self.seats = seats
        failures = HookFailures(of: consumer.author, state: state, reporter: reporter)
        contexts = ContextKeeper(
            consumer, storeID: storeID, reader: reader, state: state, reporter: reporter)
    }

    /// Checks that the store is the one in which the consumer has its place, opens the contexts, and
    /// brings them up to the cursor.
    ///
    /// - Throws: `HistoryError`; with `.tokenAhead` where the store was restored from a backup and has
    ///   been written to since, so that its numbers mean something else.
    func prepare() async throws {
        if try reader.isReplaced(state.cursors.checkpoint(of: consumer.author)?.fingerprint, at: cursor) {
            throw reader.ahead(cursor)
        }
        try await onPool { try await contexts.tend(cursor: cursor) }
    }

    /// How long until a context that failed is to be tried again.
    var retryDelay: Duration? { get async { await contexts.retryDelay } }

    /// What is wrong with a context that has failed several times.
    var lastingTrouble: HistoryError? { get async { await contexts.lasting } }

    /// Ends the contexts' connections.
    func close() async { await contexts.close() }

    /// Fills a context anew from the store.
    ///
    /// - Returns: What it shows now; nil where there is no such context.
    /// - Throws: `HistoryError`.
    func resync(_ context: String) async throws -> HistoryToken? {
        try await onPool { try await contexts.resync(context, cursor: cursor) }
    }

    /// The store's schema has changed; the next pass follows it.
    func followSchema() async { await contexts.followSchema() }

    /// Forgets the place, and goes on where the history that it has lost ends.
    ///
    /// - Throws: `HistoryError` with `.stateUnusable`.
    func begin(_ expiry: Expiry) async throws {
        let place = expiry.after.number
        try state.startOver(
            consumer.author, expiry, at: place, fingerprint: try reader.fingerprint(at: place, in: nil))
        self.expiry = try state.cursors.expiry(of: consumer.author, store: storeID)
        toldOfExpiry = []
        cursor = place
        batch = nil
        interrupted = 0
        observed = cursor
        done = []
        pending = nil
        failures.forget()
        await contexts.beginAnew()
        try await onPool { try await contexts.tend(cursor: cursor) }
        if !consumer.feeds.isEmpty { seats.ring(consumer: consumer.author) }
    }

    private static let pauseAfterCancellation: Duration = .milliseconds(50)

    private enum Step {
        /// Nothing new.
        case level
        /// There may be more.
        case more
        /// Something failed; try again after a while.
        case retry(after: Duration)
    }

    /// Works until level, or until asked to stop.
    ///
    /// - Returns: Whether something was brought.
    /// - Throws: `HistoryError` for what can not be retried here: the store is lost, the token
    ///   expired, the state can not be saved.
    func pass() async throws -> Bool {
        if let place = state.cursors.resting.wake(consumer.author) { goOn(from: place) }
        let start = cursor
        while await passes.enter(stop) {
            // Of before the attempt: a wake-up that comes while it fails is meant for the next one.
            let wakeUp = passes.wakeUp
            let next: Step
            do {
                defer { passes.leave() }
                await heed(wakeUp)
                next = try await step()
            }
            switch next {
            case .level: return cursor > start
            case .more: continue
            case .retry(let delay): await passes.sleep(for: delay, unlessWokenBy: wakeUp, or: stop)
            }
        }
        return cursor > start
    }

    /// Where an operator has what failed tried at once, that goes for contexts as well.
    private func heed(_ wakeUp: StopSignal) async {
        guard wakeUp !== lastWakeUp else { return }
        if lastWakeUp != nil { await contexts.tryNow() }
        lastWakeUp = wakeUp
    }

    private func step() async throws -> Step {
        let set = await hooks.hooks(store: consumer.store, consumer: consumer.author)
        if let expiry { return try await tell(expiry, set) }
        if pending != nil { return try await merge(set) }
        let (batch, relevant) = try await nextBatch()
        guard batch.end > cursor else { return try await settled(set) }
        let unseen = relevant.drop { $0.number <= observed }
        let plan = DeliveryPlan(
            unseen, hooks: set.observers, store: consumer.store, consumer: consumer.author, done: done)
        // Nobody has been told of anything, and nobody is to be. (Feeds are told of what lies behind the
        // cursor: it is saved before, since what they acknowledge must not be ahead of it after a crash.)
        let isMerged = !(set.mergers.isEmpty && consumer.contexts.isEmpty && consumer.feeds.isEmpty)
        let isOfConcern =
            !plan.runs.isEmpty || unseen.count < relevant.count || !done.isEmpty
            || !relevant.isEmpty && isMerged
        guard isOfConcern else {
            move(
                to: Checkpoint(
                    position: batch.end, fingerprint: batch.fingerprint, movedAt: state.clock.wall()))
            return batch.isLast ? try await settled(set) : .more
        }
        // Where a batch ends at the newest change, nothing but this tells where it ended.
        if batch.isLast, interrupted != batch.end, relevant.last?.author == nil || !set.mergers.isEmpty {
            try state.cursors.saveBatchEnd(batch.end, of: consumer.author)
            interrupted = batch.end
        }

        let outcome = await ObserverDispatch.run(plan, stop: stop)
        report(outcome)
        let finished = outcome.next.map { next in
            Array(relevant.prefix { $0.number < next.transaction.number })
        }
        done = outcome.next == nil ? [] : done.union(outcome.done)
        if let last = (finished ?? relevant).last { observed = max(observed, last.number) }

        if let finished {
            if let last = finished.last, last.number > cursor {
                pending = PendingMerge(finished, after: cursor, end: last.number)
            }
        } else {
            pending = PendingMerge(relevant, after: cursor, end: batch.end)
        }
        if pending != nil, case .retry(let delay) = try await merge(set) { return .retry(after: delay) }
        if let next = outcome.next {
            if let failure = outcome.failure { return try settle(next, failure, set) }
            return .more
        }
        return batch.isLast ? try await settled(set) : .more
    }

    /// Nothing is left to be fetched.
    private func settled(_ set: HookSet) async throws -> Step {
        if !consumer.contexts.isEmpty { try await onPool { try await contexts.settle(cursor: cursor) } }
        wasLevel = true
        rest(set)
        return .level
    }

    /// Who has neither contexts nor feeds, nor hooks for every entity, need not hear of every commit.
    private func rest(_ set: HookSet) {
        guard consumer.contexts.isEmpty, consumer.feeds.isEmpty, set.mergers.isEmpty else { return }
        let entities = set.observers.compactMap(\.entity)
        guard entities.count == set.observers.count else { return }
        state.cursors.resting.rest(consumer.author, at: cursor, until: Set(entities), hooks: set.version)
    }

    /// It has rested until here, and had nothing to do with what was committed meanwhile.
    private func goOn(from place: Checkpoint) {
        if place.position > cursor { move(to: place) }
        wasLevel = true
    }

    /// The batch to work on, and what of it is for the consumer.
    private func nextBatch() async throws -> (HistoryBatch, relevant: [HistoryTransaction]) {
        if let batch, batch.end > cursor { return (batch, relevant(batch)) }
        var next = try await fetcher.batch(after: cursor, through: interrupted > cursor ? interrupted : nil)
        if next.end <= cursor, interrupted > cursor { next = try await fetcher.batch(after: cursor) }
        if !consumer.contexts.isEmpty {
            let fetched = next
            next = try await onPool { try await contexts.stage(fetched, cursor: cursor) }
        }
        batch = next
        return (next, relevant(next))
    }

    private func relevant(_ batch: HistoryBatch) -> [HistoryTransaction] {
        consumer.rule.relevant(batch.transactions, after: cursor, to: consumer.author)
    }

    // MARK: Expiry

    /// Tells all hooks that the consumer has lost history.
    private func tell(_ expiry: Expiry, _ set: HookSet) async throws -> Step {
        for hook in set.observers + set.mergers where !toldOfExpiry.contains(hook.name) {
            let call = ExpiredCall(expiry, hook: hook, store: consumer.store, consumer: consumer.author)
            do {
                try await hook.endpoint.expired(call)
                failures.end(of: hook.name, at: expiry.after)
            } catch {
                if stop.isRequested { return .more }
                switch try decide(hook, error, token: expiry.after) {
                case .retry(let delay), .hold(let delay): return .retry(after: delay)
                case .skip: try failures.giveUp(hook, error, call.header, call.parameters)
                }
            }
            toldOfExpiry.insert(hook.name)
        }
        try state.cursors.removeExpiry(of: consumer.author)
        self.expiry = nil
        return .more
    }

    // MARK: Observers

    private func report(_ outcome: ObserverDispatch.Outcome) {
        for (hook, deliveries) in outcome.delivered {
            failures.end(of: hook, at: deliveries.token)
            reporter.report(.delivered(consumer: consumer.author, hook: hook, deliveries))
        }
    }

    private func settle(_ call: ObserverCall, _ failure: HookFailure, _ set: HookSet) throws -> Step {
        // Its process was stopped, for another to take its place: nobody's failure.
        guard failure.reason != .cancelled,
            let hook = set.observers.first(where: { $0.id == call.header.hookID })
        else { return .retry(after: Self.pauseAfterCancellation) }
        switch try decide(hook, failure, token: call.transaction.token) {
        case .retry(let delay), .hold(let delay): return .retry(after: delay)
        case .skip:
            try failures.giveUp(hook, failure, call.header, call.parameters)
            done.insert(call.header.delivery)
            return .more
        }
    }

    private func decide(_ hook: Hook, _ failure: HookFailure, token: HistoryToken) throws
        -> FailurePolicy.Decision
    {
        if wasLevel {
            try state.cursors.saveCaughtUpUntilNow(consumer.author)
            wasLevel = false
        }
        return failures.count(failure, of: hook, at: token)
    }

    // MARK: Merging

    /// Takes the pending batch through the merge hooks that have not had it, merges and moves on.
    private func merge(_ set: HookSet) async throws -> Step {
        guard var merge = pending else { return .more }
        let descriptions = contexts.descriptions
        while let hook = merge.next(set.mergers) {
            let call = merge.call(
                hook, store: consumer.store, consumer: consumer.author, contexts: descriptions)
            do {
                let result = try await hook.endpoint.merge(call)
                merge.answer(hook, result)
                pending = merge
                if let last = merge.transactions.last?.token { failures.end(of: hook.name, at: last) }
                if let last = call.transactions.last {
                    var deliveries = Deliveries(last)
                    deliveries.count(last, entity: nil)
                    deliveries.transactions = call.transactions.count
                    reporter.report(.delivered(consumer: consumer.author, hook: hook.name, deliveries))
                }
            } catch {
                if stop.isRequested { return .more }
                if error.reason == .cancelled { return .retry(after: Self.pauseAfterCancellation) }
                let token = merge.transactions.last?.token ?? HistoryToken(store: storeID, number: merge.end)
                switch try decide(hook, error, token: token) {
                case .retry(let delay), .hold(let delay): return .retry(after: delay)
                case .skip:
                    try failures.giveUp(hook, error, call.header, call.parameters)
                    merge.skip(hook)
                    pending = merge
                }
            }
        }
        let fingerprint = try reader.fingerprint(at: merge.end, in: batch)
        if !consumer.contexts.isEmpty {
            let merged = merge
            let delay = try await onPool {
                try await contexts.merge(merged, cursor: cursor, waits: !set.mergers.isEmpty)
            }
            if let delay { return .retry(after: delay) }
        }
        if !consumer.feeds.isEmpty {
            let unmerged = merge.unmerged
            if !unmerged.isEmpty { try state.feeds.saveUnmerged(unmerged, of: consumer.author) }
        }
        try state.cursors.save(
            Checkpoint(position: merge.end, fingerprint: fingerprint, movedAt: state.clock.wall()),
            of: consumer.author)
        pending = nil
        moved(to: merge.end)
        return .more
    }

    /// Past what is of no concern.
    private func move(to checkpoint: Checkpoint) {
        state.cursors.saveLater(checkpoint, of: consumer.author)
        moved(to: checkpoint.position)
    }

    private func moved(to number: Int64) {
        wasLevel = false
        self.cursor = number
        observed = max(observed, number)
        if let batch, batch.end <= number { self.batch = nil }
        reporter.report(
            .cursorMoved(consumer: consumer.author, to: HistoryToken(store: storeID, number: number)))
        if !consumer.feeds.isEmpty { seats.ring(consumer: consumer.author) }
    }
}
