/// Moves one consumer from its checkpoint to the end of the history: fetch, observers, merge hooks,
/// default merge, checkpoint, and again until it has caught up.
///
/// A value without I/O. It takes an event and returns what to do now (`effects`, in order) and what to
/// wait for (`next`), whose outcome is the next event. When a hook fails, the batch is cut before the
/// transaction that could not be delivered. What is before the cut is merged and the checkpoint saved, so
/// that a retry or a restart begins exactly there.
struct ConsumerMachine: Sendable {
    enum Event: Sendable {
        /// Begin a step: there may be something new, or the pause after a failure is over.
        case proceed
        case fetched(HistoryBatch)
        /// The contexts have read the rows of a batch, which may have grown.
        case staged(HistoryBatch)
        case read([HistoryChange], RowValues? = nil)
        case observed(ObserverOutcome)
        case merged(Result<MergeResult, HookFailure>)
        case expirySent(HookFailure?)
        /// The fingerprint that was read.
        case found(fingerprint: String?)
        /// The default merge is done, or has to wait.
        case mergedIntoContexts(retryAfter: Duration?)
        case contextsCaughtUp
    }

    enum Effect: Sendable {
        /// Save where the batch in progress ends; see `batchEnd`.
        case saveBatchEnd(Int64)
        /// Save the checkpoint.
        case save(Checkpoint)
        /// Move past transactions that do not concern the consumer.
        case saveLater(Checkpoint)
        /// Save what the feeds must not receive.
        case saveUnmerged([ClosedRange<Int64>])
        /// Save that it had caught up until now, and cannot continue.
        case saveCaughtUpUntilNow
        case keep(DeadLetter)
        case removeExpiry
        case report(PipelineEvent)
    }

    enum Next: Sendable {
        case fetch(after: Int64, through: Int64?)
        /// - takesOwn: Whether the contexts also merge the consumer's own changes.
        case stage(HistoryBatch, takesOwn: Bool)
        /// Read changes of a large transaction for the next call.
        case read(UnreadChanges)
        case observe(DeliveryPlan.Run)
        case merge(Hook, MergeCall)
        case sendExpiry(Hook, ExpiredCall)
        case findFingerprint(at: Int64, HistoryBatch?)
        case mergeIntoContexts(PendingMerge, waits: Bool)
        /// - Parameter fingerprint: The fingerprint of the cursor.
        case catchUpContexts(fingerprint: String?)
        /// The step is over, and there may be more.
        case proceed
        /// The step has failed.
        case retry(after: Duration)
        /// There is nothing more.
        case idle
    }

    struct Output: Sendable {
        var effects: [Effect] = []
        var next: Next
    }

    /// The machine's environment when it handles an event.
    struct Dependencies {
        let hooks: HookSet
        let now: HistoryTimestamp
        /// Whether nothing new may be started.
        let isEnding: Bool
        /// How long the answered call took.
        var callTime: Duration = .zero

        /// Merge hooks may write under their consumer's name, for example to remove duplicates. Its
        /// contexts then merge all of its own changes, from hooks or from the program: after a restart
        /// nothing distinguishes them.
        var takesOwn: Bool { !hooks.mergers.isEmpty }
    }

    let consumer: Consumer
    let storeID: StoreID
    var cursor: Int64
    /// The fingerprint of the cursor; nil if unknown.
    var fingerprint: String?
    /// The loss that the hooks must be notified of before anything else.
    var expiry: Expiry?
    var notifiedOfExpiry: Set<String> = []
    var isLossReported = false
    /// The batch in progress. It stays the same until it is done, even over a restart (see `batchEnd`).
    /// An undeclared writer's changes are grouped by time, and more may come in the same millisecond, but
    /// a repeated call must not have grown.
    var batch: HistoryBatch?
    /// The end of a batch that an earlier run may not have finished.
    var batchEnd: Int64
    /// The last transaction whose observers have all been called. It may be ahead of the cursor.
    var observed: Int64
    /// The deliveries that were made of the transaction after `observed`.
    var done: Set<BinaryText> = []
    var observing: ObserverProgress?
    var pending: PendingMerge?
    /// A merge that was left, and goes on when its batch comes again: rows are read again because a condition
    /// could not be evaluated, or the consumer was moved back.
    var leftMerge: PendingMerge?
    /// What to do after the pending merge.
    var afterMerge = AfterMerge.proceed
    var failing: (hook: String, attempts: Int)?
    /// Calls behind the cursor that an earlier session gave up.
    let givenUp: GivenUpCalls
    /// What an operator repeats, until the cursor is back where it had been.
    var replay: Replay?
    /// The calls that had been made past that cursor: they are not made twice.
    var madeAhead: (observed: Int64, done: Set<BinaryText>, merge: PendingMerge?)?
    /// Whether it had caught up before this pass.
    var wasCaughtUp = false
    var effects: [Effect] = []
    var waitsFor: Wait?

    /// What the next event is the answer to.
    enum Wait: Sendable {
        case batch(through: Int64?)
        case changes(CallPart?, for: Hook?)
        case merger(Hook, MergeCall)
        case expiry(Hook, ExpiredCall)
    }

    enum AfterMerge: Sendable {
        case proceed
        /// The batch was cut before this call.
        case failed(ObserverCall, HookFailure)
        /// The batch ended where the history does.
        case idle
    }

    init(
        _ consumer: Consumer, storeID: StoreID, cursor: Int64, fingerprint: String? = nil, batchEnd: Int64 = 0,
        expiry: Expiry? = nil, givenUp: GivenUpCalls = GivenUpCalls(), replay: Replay? = nil
    ) {
        self.consumer = consumer
        self.storeID = storeID
        self.cursor = cursor
        self.fingerprint = fingerprint
        self.batchEnd = batchEnd
        self.expiry = expiry
        self.givenUp = givenUp
        self.replay = replay.flatMap { $0.through > cursor ? $0 : nil }
        observed = cursor
    }

    /// Processes an event.
    mutating func handle(_ event: Event, _ dependencies: Dependencies) -> Output {
        effects = []
        let next = next(event, dependencies)
        defer { effects = [] }
        return Output(effects: effects, next: next)
    }

    /// The consumer was idle up to here, and what was committed meanwhile did not concern it.
    mutating func goOn(from checkpoint: Checkpoint) -> [Effect] {
        effects = []
        defer { effects = [] }
        if checkpoint.position > cursor { move(to: checkpoint) }
        wasCaughtUp = true
        return effects
    }

    private mutating func next(_ event: Event, _ dependencies: Dependencies) -> Next {
        switch event {
        case .proceed: return proceed(dependencies)
        case .fetched(let fetched):
            // What an earlier run was interrupted in is gone: nothing of it is left to repeat.
            if fetched.end <= cursor, case .batch(through: .some(let last)) = waitsFor {
                if last == replay?.through { endReplay() }
                return fetch(through: replay?.through)
            }
            // Contexts read the current rows, which match only the newest transactions.
            return consumer.hasContexts && replay == nil
                ? .stage(fetched, takesOwn: dependencies.takesOwn) : deliver(fetched, dependencies)
        case .staged(let batch): return deliver(batch, dependencies)
        case .read(let changes, let values):
            guard case .changes(let part, let merger) = waitsFor.take() else { return .proceed }
            guard let merger else { return observe(with: changes, values, dependencies) }
            return call(merger, dependencies, with: changes, values, part)
        case .observed(let outcome): return take(outcome, dependencies)
        case .merged(let result):
            guard case .merger(let hook, let call) = waitsFor.take() else { return .proceed }
            return take(result, of: hook, call, dependencies)
        case .expirySent(let failure):
            guard case .expiry(let hook, let call) = waitsFor.take() else { return .proceed }
            return take(failure, of: hook, call, dependencies)
        case .found(let fingerprint):
            foundFingerprint = fingerprint
            return mergeIntoContexts(dependencies)
        case .mergedIntoContexts(let delay):
            if let delay { return retry(after: delay) }
            return endMerge(dependencies)
        case .contextsCaughtUp: return idle()
        }
    }

    /// The fingerprint of the position where the pending merge ends.
    var foundFingerprint: String?

    private mutating func proceed(_ dependencies: Dependencies) -> Next {
        afterMerge = .proceed
        observing = nil
        if let expiry { return sendExpiry(expiry, dependencies) }
        if pending != nil { return merge(dependencies) }
        if let batch, batch.end > cursor { return deliver(batch, dependencies) }
        // Batches are either repeated completely or not at all.
        return fetch(through: batchEnd > cursor ? batchEnd : replay?.through)
    }

    mutating func fetch(through last: Int64?) -> Next {
        waitsFor = .batch(through: last)
        return .fetch(after: cursor, through: last)
    }

    // MARK: The end of a step

    /// Nothing is left to be fetched.
    mutating func caughtUp() -> Next {
        consumer.hasContexts ? .catchUpContexts(fingerprint: fingerprint) : idle()
    }

    private mutating func idle() -> Next {
        wasCaughtUp = true
        return .idle
    }

    /// Starts the step again, without what follows the merge.
    mutating func retry(after delay: Duration) -> Next {
        afterMerge = .proceed
        return .retry(after: delay)
    }

    /// Moves past transactions that do not concern the consumer.
    mutating func move(to checkpoint: Checkpoint) {
        effects.append(.saveLater(checkpoint))
        moved(to: checkpoint)
    }

    mutating func moved(to checkpoint: Checkpoint) {
        let number = checkpoint.position
        wasCaughtUp = false
        (cursor, fingerprint) = (number, checkpoint.fingerprint)
        observed = max(observed, number)
        if let batch, batch.end <= number { self.batch = nil }
        if let leftMerge, leftMerge.end <= number { self.leftMerge = nil }
        if let replay, replay.through <= number { endReplay() }
        report(.cursorMoved(consumer: consumer.author, to: HistoryToken(store: storeID, number: number)))
    }

    /// From here on nothing is repeated. The next batch is the one that was in progress when the consumer
    /// was moved back.
    private mutating func endReplay() {
        guard let replay else { return }
        batchEnd = replay.batchEnd(at: max(cursor, replay.through), saved: batchEnd)
        self.replay = nil
        resumeAhead()
    }

    /// Continues with the calls where they were before a move.
    mutating func resumeAhead() {
        guard let made = madeAhead.take() else { return }
        (observed, done, leftMerge) = (max(observed, made.observed), made.done, made.merge)
    }

    mutating func report(_ event: PipelineEvent) { effects.append(.report(event)) }
}
