/// Observers: each is called for the part of a batch that concerns it.
extension ConsumerMachine {
    mutating func deliver(_ batch: HistoryBatch, _ dependencies: Dependencies) -> Next {
        waitsFor = nil
        self.batch = batch
        guard batch.end > cursor else { return caughtUp() }
        // A hook that was added after the fetch may need more values.
        guard batch.covers(dependencies.hooks.wantedValues) else { return fetch(through: batch.end) }
        if let recreation = batch.transactions.first.flatMap({ Expiry($0) }) {
            expiry = recreation
            return sendExpiry(recreation, dependencies)
        }
        let relevant = consumer.rule.relevant(batch.transactions, after: cursor, to: consumer.author)
        let own =
            dependencies.takesOwn && consumer.hasContexts
            ? consumer.rule.own(batch.transactions, after: cursor, of: consumer.author) : []
        let unseen = relevant.drop { $0.number <= observed }
        let routes = replay.map { replay in
            dependencies.hooks.transactionObservers.map { hook in
                HookRoute(
                    store: consumer.store, consumer: consumer.author, hook: hook, replay: replay.number)
            }
        }
        let plan = DeliveryPlan(
            unseen, hooks: dependencies.hooks.transactionObservers,
            routes: routes ?? dependencies.hooks.routes,
            store: consumer.store,
            consumer: consumer.author, done: done, givenUp: givenUp, values: batch.values)
        // No hook has run, and none needs to. (The cursor is saved before feeds get what is behind it:
        // what they acknowledge must not be ahead of the cursor after a crash.)
        let isMerged =
            !dependencies.hooks.mergers.isEmpty || consumer.hasContexts || !consumer.feeds.isEmpty
        let isOfConcern =
            !plan.runs.isEmpty || unseen.count < relevant.count || !done.isEmpty
            || !relevant.isEmpty && isMerged || !own.isEmpty
            || dependencies.hooks.stages.contains { hook in
                relevant.contains { hook.concerns($0, batch.values) }
            }
        guard isOfConcern else {
            move(
                to: Checkpoint(
                    position: batch.end, fingerprint: batch.fingerprint, movedAt: dependencies.now))
            return batch.isLast ? caughtUp() : .proceed
        }
        // If a batch ends at the newest change, only this records where it ended.
        if batch.isLast, relevant.last?.author == nil || !dependencies.hooks.stages.isEmpty {
            saveBatchEnd(batch.end)
        }
        observing = ObserverProgress(plan, relevant: relevant, own: own, of: batch)
        return observe(dependencies)
    }

    private mutating func saveBatchEnd(_ end: Int64) {
        guard batchEnd != end else { return }
        effects.append(.saveBatchEnd(end))
        batchEnd = end
    }

    /// Consecutive calls to one endpoint are handed to it together. Those to another endpoint wait until
    /// they have succeeded.
    private mutating func observe(_ dependencies: Dependencies) -> Next {
        guard let run = observing?.run else { return observersEnded(dependencies) }
        if dependencies.isEnding { return stopObserving(dependencies) }
        if let failure = run.failure {
            return take(ObserverOutcome(succeeded: 0, failure: failure), dependencies)
        }
        guard let unread = run.unread else { return .observe(run) }
        waitsFor = .changes(nil, for: nil)
        return .read(unread)
    }

    private mutating func stopObserving(_ dependencies: Dependencies) -> Next {
        observing?.stop(at: dependencies.now)
        return observersEnded(dependencies)
    }

    mutating func observe(
        with changes: [HistoryChange], _ values: RowValues?, _ dependencies: Dependencies
    ) -> Next {
        if dependencies.isEnding { return stopObserving(dependencies) }
        observing?.fill(changes, values)
        guard let run = observing?.run, let call = run.calls.first else { return .proceed }
        if let failure = run.failure {
            return take(ObserverOutcome(succeeded: 0, failure: failure), dependencies)
        }
        // A part without changes for the hook is left out. The last part is sent if an earlier one was:
        // it tells a plugin that there are no more.
        if call.changes.isEmpty, !(call.part?.isLast ?? false && hasPartBefore(call)) {
            observing?.skip()
            return observe(dependencies)
        }
        return .observe(run)
    }

    /// Whether an earlier part of the same group was sent.
    private func hasPartBefore(_ call: ObserverCall) -> Bool {
        (0..<(call.part?.index ?? 0)).contains { index in
            let delivery = call.delivery(ofPart: index)
            return done.contains(delivery) || observing?.hasMade(delivery) ?? false
        }
    }

    mutating func take(_ outcome: ObserverOutcome, _ dependencies: Dependencies) -> Next {
        guard observing?.run != nil else { return .proceed }
        return observing?.take(outcome, at: dependencies.now) == true
            ? observe(dependencies) : observersEnded(dependencies)
    }

    /// All calls were made, or all before one that failed.
    private mutating func observersEnded(_ dependencies: Dependencies) -> Next {
        guard let progress = observing.take() else { return .proceed }
        for (hook, deliveries) in progress.delivered {
            hookSucceeded(hook, at: deliveries.token)
            report(.delivered(consumer: consumer.author, hook: hook, deliveries))
        }
        if let next = progress.next {
            done.formUnion(progress.done)
            let finished = Array(progress.relevant.prefix { $0.number < next.transaction.number })
            if let last = finished.last {
                observed = max(observed, last.number)
                if last.number > cursor {
                    pending = PendingMerge(
                        finished, own: progress.own, after: cursor, end: last.number, values: batch?.values)
                    // Merge hooks get exactly this part of the batch, even after a restart. Without a
                    // saved end, an undeclared writer's changes at the end could have grown by then.
                    if !dependencies.hooks.stages.isEmpty,
                        batchEnd <= last.number || progress.relevant.last?.author != nil
                    {
                        saveBatchEnd(last.number)
                    }
                }
            }
            afterMerge = progress.failure.map { .failed(next, $0) } ?? .proceed
        } else {
            // Calls past a batch that was cut there stay made.
            if let last = progress.relevant.last, last.number > observed {
                (observed, done) = (last.number, [])
            }
            pending = PendingMerge(
                progress.relevant, own: progress.own, after: cursor, end: progress.end, values: batch?.values)
            // Look once more for what the hooks are about to write.
            let mayWrite = dependencies.takesOwn && consumer.hasContexts && !progress.relevant.isEmpty
            afterMerge = progress.isLast && !mayWrite ? .idle : .proceed
        }
        if let leftMerge { pending?.resume(leftMerge) }
        return pending == nil ? afterMerge(dependencies) : merge(dependencies)
    }

    /// Ends the step after what was delivered is merged.
    mutating func afterMerge(_ dependencies: Dependencies) -> Next {
        defer { afterMerge = .proceed }
        switch afterMerge {
        case .proceed: return .proceed
        case .idle: return caughtUp()
        case .failed(let call, let failure):
            // A process that was stopped to be replaced has not failed.
            if [.undecided, .unfit].contains(failure.reason) {
                // The rows are read again before the condition is evaluated again.
                batch = nil
            }
            guard failure.reason != .cancelled,
                let hook = dependencies.hooks.observers.first(where: { $0.id == call.header.hookID })
            else { return .retry(after: Self.pauseAfterCancellation) }
            switch decide(hook, failure, at: call.transaction.token) {
            case .retry(let delay), .hold(let delay): return .retry(after: delay)
            case .skip:
                giveUp(
                    hook, failure, call.header, .observe, call.parameters, at: call.transaction.token,
                    dependencies)
                done.insert(call.header.delivery)
                return .proceed
            }
        }
    }
}

/// The progress of a batch's observers.
struct ObserverProgress: Sendable {
    /// The transactions of the batch that are for the consumer.
    let relevant: [HistoryTransaction]
    /// The consumer's own transactions, if its contexts merge them.
    let own: [HistoryTransaction]
    let end: Int64
    let isLast: Bool
    /// The calls that were made, by hook, in the order of first calls.
    private(set) var delivered: [(hook: String, deliveries: Deliveries)] = []
    /// The next call, if not all were made.
    private(set) var next: ObserverCall?
    /// Why the next call failed; nil if it was not made.
    private(set) var failure: HookFailure?
    /// The deliveries that were made of the next call's transaction.
    private(set) var done: Set<BinaryText> = []
    private let runs: [DeliveryPlan.Run]
    private var index = 0
    /// The current run, if changes had to be read for it.
    private var filled: DeliveryPlan.Run?
    /// The deliveries of parts that were sent.
    private var deliveriesOfParts: Set<BinaryText> = []

    init(
        _ plan: DeliveryPlan, relevant: [HistoryTransaction], own: [HistoryTransaction] = [],
        of batch: HistoryBatch
    ) {
        self.relevant = relevant
        self.own = own
        end = batch.end
        isLast = batch.isLast
        runs = plan.runs
    }

    /// The calls to make now.
    var run: DeliveryPlan.Run? { filled ?? (index < runs.count ? runs[index] : nil) }

    /// Adds what was read for the current run.
    mutating func fill(_ changes: [HistoryChange], _ values: RowValues?) { filled = run?.with(changes, values) }

    /// The current run needs no call.
    mutating func skip() {
        filled = nil
        index += 1
    }

    func hasMade(_ delivery: String) -> Bool { deliveriesOfParts.contains(delivery) }

    /// Makes no more calls.
    mutating func stop(at now: HistoryTimestamp) { _ = take(ObserverOutcome(succeeded: 0), at: now) }

    /// Processes the outcome of the calls. Returns whether the calls behind them may be made.
    mutating func take(_ outcome: ObserverOutcome, at now: HistoryTimestamp) -> Bool {
        guard let run else { return false }
        count(run.calls.prefix(outcome.succeeded), outcome.microseconds, at: now)
        for call in run.calls.prefix(outcome.succeeded) where call.part != nil {
            deliveriesOfParts.insert(call.header.delivery)
        }
        filled = nil
        if outcome.succeeded >= run.calls.count {
            index += 1
            return true
        }
        let next = run.calls[outcome.succeeded]
        self.next = next
        failure = outcome.failure
        let made = runs[..<index].flatMap(\.calls) + run.calls[..<outcome.succeeded]
        done = Set(
            names: made.reversed().prefix { $0.transaction.number == next.transaction.number }
                .map(\.header.delivery))
        return false
    }

    private mutating func count(
        _ calls: ArraySlice<ObserverCall>, _ microseconds: [Int64], at now: HistoryTimestamp
    ) {
        // Calls of one hook mostly come together, so they are counted in place and only the last is
        // reported.
        var start = calls.startIndex
        while start < calls.endIndex {
            let route = calls[start].route
            let end = calls[start...].indices.first { calls[$0].route !== route } ?? calls.endIndex
            let times = microseconds.dropFirst(start - calls.startIndex).prefix(end - start)
            count(calls[start..<end], of: route.hook, times, at: now)
            start = end
        }
    }

    private mutating func count(
        _ calls: ArraySlice<ObserverCall>, of hook: String, _ microseconds: ArraySlice<Int64>,
        at now: HistoryTimestamp
    ) {
        guard let last = calls.last else { return }
        let index = delivered.firstIndex { $0.hook == hook } ?? delivered.endIndex
        if index == delivered.endIndex { delivered.append((hook, Deliveries(last.transaction))) }
        delivered[index].deliveries.count(calls, last: last, at: now)
        delivered[index].deliveries.callTimes.record(microseconds)
    }
}
