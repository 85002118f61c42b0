/// How one consumer gets from its checkpoint to the end of the history: fetch, observers, merge hooks, default
/// merge, checkpoint; again and again until it has everything.
///
/// A value without I/O: an event goes in, and out comes what to do now (`effects`, in order) and what to wait for
/// (`next`), whose outcome is the next event. When a hook fails, the batch is cut before the transaction that could
/// not be delivered: what stands in front of it is merged and the checkpoint saved, so that a retry, or a new start,
/// begins exactly there.
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
        /// The fingerprint that was looked for.
        case found(fingerprint: String?)
        /// The default merge was made, or has to wait.
        case mergedIntoContexts(retryAfter: Duration?)
        case contextsCaughtUp
    }

    enum Effect: Sendable {
        /// Remember where the batch in progress ends; see `batchEnd`.
        case saveBatchEnd(Int64)
        /// Save how far it got.
        case save(Checkpoint)
        /// Move past what is of no concern.
        case saveLater(Checkpoint)
        /// What the feeds must not be given.
        case saveUnmerged([ClosedRange<Int64>])
        /// It had caught up until now, and cannot continue.
        case saveCaughtUpUntilNow
        case keep(DeadLetter)
        case removeExpiry
        case report(PipelineEvent)
    }

    enum Next: Sendable {
        case fetch(after: Int64, through: Int64?)
        /// - takesOwn: Whether the contexts take in the consumer's own changes, too.
        case stage(HistoryBatch, takesOwn: Bool)
        /// Read changes of a large transaction, for the call that comes next.
        case read(UnreadChanges)
        case observe(DeliveryPlan.Run)
        case merge(Hook, MergeCall)
        case sendExpiry(Hook, ExpiredCall)
        case findFingerprint(at: Int64, HistoryBatch?)
        case mergeIntoContexts(PendingMerge, waits: Bool)
        /// - Parameter fingerprint: Of the cursor.
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

    /// What an event finds beside the machine.
    struct Dependencies {
        let hooks: HookSet
        let now: HistoryTimestamp
        /// Nothing new is started.
        let isEnding: Bool
        /// How long the call took that the event answers.
        var callTime: Duration = .zero

        /// Merge hooks may write under their consumer's name, as one that removes duplicates does. Its contexts then
        /// merge all of its own changes, whether a hook or the program made them: nothing distinguishes them after a restart.
        var takesOwn: Bool { !hooks.mergers.isEmpty }
    }

    let consumer: Consumer
    let storeID: StoreID
    var cursor: Int64
    /// Of the cursor; nil if it is not known.
    var fingerprint: String?
    /// The loss of which the hooks must be notified before anything else.
    var expiry: Expiry?
    var notifiedOfExpiry: Set<String> = []
    var isLossReported = false
    /// The batch under way. It stays the same until it is done, also over a new start (see
    /// `batchEnd`): an undeclared writer's changes are grouped by time, and more of the same
    /// millisecond may come. A call that is repeated must not have grown.
    var batch: HistoryBatch?
    /// Where the batch ended that an earlier run may not have finished.
    var batchEnd: Int64
    /// The last transaction whose observers have all been called, which may be ahead of the cursor.
    var observed: Int64
    /// Deliveries made of the transaction after `observed`.
    var done: Set<BinaryText> = []
    var observing: ObserverProgress?
    var pending: PendingMerge?
    /// The hooks that have had a batch whose rows are read again, for one whose condition could not be decided.
    var judgedAgain: (end: Int64, called: Set<String>)?
    /// What follows the pending merge.
    var afterMerge = AfterMerge.proceed
    var failing: (hook: String, attempts: Int)?
    /// Calls behind the cursor that an earlier session gave up.
    let givenUp: GivenUpCalls
    /// What an operator has repeated, until the cursor is where it had been.
    var replay: Replay?
    /// Whether it had everything before this pass.
    var wasCaughtUp = false
    var effects: [Effect] = []
    var waitsFor: Wait?

    /// What the next event answers.
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

    /// Takes an event in.
    mutating func handle(_ event: Event, _ dependencies: Dependencies) -> Output {
        effects = []
        let next = next(event, dependencies)
        defer { effects = [] }
        return Output(effects: effects, next: next)
    }

    /// It was idle until here, and had nothing to do with what was committed meanwhile.
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
            // What an earlier run was interrupted in is gone: nothing of it is left to be repeated.
            if fetched.end <= cursor, case .batch(through: .some(let last)) = waitsFor {
                if last == replay?.through { endReplay() }
                return fetch(through: replay?.through)
            }
            // The rows that contexts read are those of the newest transactions.
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
        // What is repeated, and what is not, come in batches of their own.
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

    /// What follows the merge does not: the step is started again.
    mutating func retry(after delay: Duration) -> Next {
        afterMerge = .proceed
        return .retry(after: delay)
    }

    /// Past what is of no concern.
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
        if let replay, replay.through <= number { endReplay() }
        report(.cursorMoved(consumer: consumer.author, to: HistoryToken(store: storeID, number: number)))
    }

    /// From here on, nothing is repeated. The batch that was in progress where the consumer had been is the next.
    private mutating func endReplay() {
        guard let replay else { return }
        batchEnd = replay.batchEnd(at: max(cursor, replay.through), saved: batchEnd)
        self.replay = nil
    }

    mutating func report(_ event: PipelineEvent) { effects.append(.report(event)) }
}
