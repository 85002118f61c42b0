/// Merge hooks and the default merge, failures, and the notice that history was lost.
extension ConsumerMachine {
    static let pauseAfterCancellation: Duration = .milliseconds(50)

    // MARK: Merging

    /// Takes the pending batch through the merge hooks that have not had it, merges and moves on.
    mutating func merge(_ dependencies: Dependencies) -> Next {
        guard let merge = pending else { return .proceed }
        if let hook = merge.next(dependencies.hooks.mergers) {
            guard let unread = merge.unread(for: hook) else { return call(hook) }
            waitsFor = .changes(unread.part, for: hook)
            return .read(unread)
        }
        guard let batch, batch.end == merge.end else { return .findFingerprint(at: merge.end, batch) }
        foundFingerprint = batch.fingerprint
        return mergeIntoContexts(dependencies)
    }

    /// - Parameter changes: What was read for the call, and which part it is.
    mutating func call(
        _ hook: Hook, with changes: [HistoryChange]? = nil, _ values: RowValues? = nil, _ part: CallPart? = nil
    ) -> Next {
        guard let merge = pending else { return .proceed }
        let call = merge.call(
            hook, store: consumer.store, consumer: consumer.author, contexts: consumer.descriptions,
            changes: changes, part: part, values: values, replay: replay?.number)
        waitsFor = .merger(hook, call)
        return .merge(hook, call)
    }

    mutating func take(
        _ result: Result<MergeResult, HookFailure>, of hook: Hook, _ call: MergeCall,
        _ dependencies: Dependencies
    ) -> Next {
        guard let last = pending?.transactions.last?.token else { return .proceed }
        switch result {
        case .success(let answer):
            pending?.answer(hook, answer, to: call.part)
            succeeded(call.header) { call.replayed($0).parameters }
            hookSucceeded(hook.name, at: last)
            if let last = call.transactions.last {
                var deliveries = Deliveries(last)
                deliveries.calls = 1
                deliveries.transactions = call.part?.isLast ?? true ? call.transactions.count : 0
                deliveries.callTimes.record(dependencies.callTime)
                for transaction in call.transactions {
                    deliveries.countDelay(of: transaction, at: dependencies.now)
                }
                report(.delivered(consumer: consumer.author, hook: hook.name, deliveries))
            }
        case .failure(let failure):
            if dependencies.isEnding { return .proceed }
            if failure.reason == .cancelled { return retry(after: Self.pauseAfterCancellation) }
            switch decide(hook, failure, at: last) {
            case .retry(let delay), .hold(let delay): return retry(after: delay)
            case .skip:
                giveUp(hook, failure, call.header, at: last, dependencies) { call.replayed($0).parameters }
                pending?.skip(hook, call.part)
            }
        }
        return merge(dependencies)
    }

    mutating func mergeIntoContexts(_ dependencies: Dependencies) -> Next {
        guard let pending, consumer.hasContexts else { return endMerge(dependencies) }
        return .mergeIntoContexts(pending, waits: !dependencies.hooks.mergers.isEmpty)
    }

    mutating func endMerge(_ dependencies: Dependencies) -> Next {
        guard let merge = pending.take() else { return .proceed }
        // What is repeated the feeds have had, or will have, as it was decided first.
        if !consumer.feeds.isEmpty, replay == nil {
            let unmerged = merge.unmerged
            if !unmerged.isEmpty { effects.append(.saveUnmerged(unmerged)) }
        }
        effects.append(
            .save(
                Checkpoint(position: merge.end, fingerprint: foundFingerprint, movedAt: dependencies.now)))
        foundFingerprint = nil
        moved(to: merge.end)
        return afterMerge(dependencies)
    }

    // MARK: Failures

    /// Counts a failure, and reports it. Only one hook fails at a time, because no other is called meanwhile.
    mutating func decide(_ hook: Hook, _ failure: HookFailure, at token: HistoryToken)
        -> FailurePolicy.Decision
    {
        if wasCaughtUp {
            effects.append(.saveCaughtUpUntilNow)
            wasCaughtUp = false
        }
        let author = consumer.author
        let attempt = failing.map { $0.hook == hook.name ? $0.attempts + 1 : 1 } ?? 1
        failing = (hook.name, attempt)
        let decision = hook.policy.decision(afterFailedAttempt: attempt, advice: failure.advice)
        switch decision {
        case .retry(let delay):
            report(
                .hookFailed(
                    consumer: author, hook: hook.name, failure, token: token, attempt: attempt,
                    retryAfter: delay))
        case .hold(let delay):
            report(
                .hookHeld(
                    consumer: author, hook: hook.name, failure, token: token, attempts: attempt,
                    retryAfter: delay))
        case .skip:
            // Reported by `giveUp`, once the dead letter is kept.
            break
        }
        return decision
    }

    /// Keeps a call that is made no more.
    ///
    /// - Parameter call: The parameters of the call, in a replay, or as it was made first.
    mutating func giveUp(
        _ hook: Hook, _ failure: HookFailure, _ header: HookCallHeader, at token: HistoryToken,
        _ dependencies: Dependencies, call: (_ replay: Int64?) -> [UInt8]
    ) {
        // It takes the place of the one that was kept before.
        if header.route.replay != nil { succeeded(header, call: call) }
        let attempts = failing?.attempts ?? 1
        effects.append(
            .keep(
                DeadLetter(
                    consumer: consumer.author, hook: hook.name, delivery: header.delivery,
                    reason: failure.message, attempts: attempts,
                    call: String(decoding: call(header.route.replay), as: UTF8.self), keptAt: dependencies.now))
        )
        report(
            .deadLetterKept(
                consumer: consumer.author, hook: hook.name, failure, token: token, attempts: attempts))
        failing = nil
    }

    /// What was given up, before a run was interrupted or the consumer was moved back, has been delivered after all.
    ///
    /// - Parameter call: The parameters of the call, in a replay, or as it was made first.
    mutating func succeeded(_ header: HookCallHeader, call: (_ replay: Int64?) -> [UInt8]) {
        if givenUp.isEmpty { return }
        let name = Replay.parts(of: header.delivery).name
        for delivery in (givenUp.removeValue(forKey: BinaryText(name)) ?? []).sorted() {
            let number = Replay.parts(of: delivery.text).number
            effects.append(.dropDeadLetter(header.replayed(number), call: call(number)))
        }
    }

    /// Reports it, where the hook had failed.
    mutating func hookSucceeded(_ hook: String, at token: HistoryToken) {
        guard let failing, failing.hook == hook else { return }
        report(
            .hookRecovered(consumer: consumer.author, hook: hook, token: token, attempts: failing.attempts))
        self.failing = nil
    }

    // MARK: Expiry

    /// Tells the hooks concerned that the consumer has lost history.
    mutating func sendExpiry(_ expiry: Expiry, _ dependencies: Dependencies) -> Next {
        if !isLossReported {
            isLossReported = true
            report(.historyLost(consumer: consumer.author, expiry))
        }
        let hooks = dependencies.hooks.observers.filter { expiry.concerns($0) } + dependencies.hooks.mergers
        guard let hook = hooks.first(where: { !notifiedOfExpiry.contains($0.name) }) else {
            self.expiry = nil
            notifiedOfExpiry = []
            isLossReported = false
            if expiry.reason == .recreated { return pass(expiry, dependencies) }
            effects.append(.removeExpiry)
            return .proceed
        }
        // Notices of lost history are not repeated; those that lie in the history are.
        let replay = expiry.reason == .recreated ? replay?.number : nil
        let call = ExpiredCall(
            expiry, hook: hook, store: consumer.store, consumer: consumer.author, replay: replay)
        waitsFor = .expiry(hook, call)
        return .sendExpiry(hook, call)
    }

    /// Moves past a notice of unrecorded changes: the contexts take it in as a batch without changes.
    private mutating func pass(_ recreation: Expiry, _ dependencies: Dependencies) -> Next {
        guard let batch, batch.end > cursor else { return .proceed }
        report(
            .recreated(consumer: consumer.author, entities: recreation.entities, at: recreation.after))
        var merge = PendingMerge([], after: cursor, end: batch.end)
        merge.recreation = recreation
        pending = merge
        return self.merge(dependencies)
    }

    mutating func take(
        _ failure: HookFailure?, of hook: Hook, _ call: ExpiredCall, _ dependencies: Dependencies
    )
        -> Next
    {
        guard let expiry else { return .proceed }
        if let failure {
            if dependencies.isEnding { return .proceed }
            switch decide(hook, failure, at: expiry.after) {
            case .retry(let delay), .hold(let delay): return .retry(after: delay)
            case .skip:
                giveUp(hook, failure, call.header, at: expiry.after, dependencies) {
                    call.replayed($0).parameters
                }
            }
        } else {
            hookSucceeded(hook.name, at: expiry.after)
            succeeded(call.header) { call.replayed($0).parameters }
        }
        notifiedOfExpiry.insert(hook.name)
        return sendExpiry(expiry, dependencies)
    }
}
