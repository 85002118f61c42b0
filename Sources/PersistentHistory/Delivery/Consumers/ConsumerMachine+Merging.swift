/// Merge hooks and the default merge, failures, and the notice that history was lost.
extension ConsumerMachine {
    static let pauseAfterCancellation: Duration = .milliseconds(50)
    static let pauseWhileLacking: Duration = .seconds(1)

    // MARK: Merging

    /// Passes the pending batch to the merge hooks that have not had it, then merges and moves on.
    mutating func merge(_ dependencies: Dependencies) -> Next {
        guard let merge = pending else { return .proceed }
        if let hook = merge.next(dependencies.hooks.stages) {
            guard let unread = merge.unread(for: hook) else { return call(hook, dependencies) }
            waitsFor = .changes(unread.part, for: hook)
            return .read(unread)
        }
        guard let batch, batch.end == merge.end else { return .findFingerprint(at: merge.end, batch) }
        foundFingerprint = batch.fingerprint
        return mergeIntoContexts(dependencies)
    }

    /// - Parameter changes: The changes that were read for the call, and which part they are.
    mutating func call(
        _ hook: Hook, _ dependencies: Dependencies, with changes: [HistoryChange]? = nil,
        _ values: RowValues? = nil, _ part: CallPart? = nil
    ) -> Next {
        guard let merge = pending else { return .proceed }
        let call: MergeCall
        switch hook.calls {
        case .transaction:
            call = merge.call(
                hook, store: consumer.store, consumer: consumer.author, contexts: consumer.descriptions,
                changes: changes, part: part, values: values, replay: replay?.number)
        case .batch:
            let (groups, failure) = merge.groups(for: hook, changes: changes, part: part, values: values)
            call = merge.call(
                hook, store: consumer.store, consumer: consumer.author, groups: groups, part: part,
                values: values, replay: replay?.number)
            if let failure { return take(.failure(failure), of: hook, call, dependencies) }
            // A batch or a part without changes for the hook makes no call. But the last part is sent if
            // an earlier one was.
            if groups.isEmpty, !(part?.isLast ?? false && merge.hasMadePart) {
                pending?.skip(hook, part)
                return self.merge(dependencies)
            }
        }
        if givenUp.contains(call.header, call.parameters) {
            pending?.skip(hook, part)
            return self.merge(dependencies)
        }
        waitsFor = .merger(hook, call)
        return .merge(hook, call)
    }

    mutating func take(
        _ result: Result<MergeResult, HookFailure>, of hook: Hook, _ call: MergeCall,
        _ dependencies: Dependencies
    ) -> Next {
        guard let last = pending?.transactions.last?.token else { return .proceed }
        switch call.checked(result) {
        case .success(let answer):
            pending?.answer(hook, answer, to: call.part)
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
            case .retry(let delay), .hold(let delay):
                if [.undecided, .unfit].contains(failure.reason) {
                    // The rows are read again before the condition is evaluated again.
                    (leftMerge, pending, batch) = (pending, nil, nil)
                }
                return retry(after: delay)
            case .skip:
                giveUp(hook, failure, call.header, call.method, call.parameters, at: last, dependencies)
                pending?.skip(hook, call.part)
            }
        }
        return merge(dependencies)
    }

    mutating func mergeIntoContexts(_ dependencies: Dependencies) -> Next {
        pending?.fingerprint = foundFingerprint
        guard let pending, consumer.hasContexts else { return endMerge(dependencies) }
        return .mergeIntoContexts(pending, waits: !dependencies.hooks.mergers.isEmpty)
    }

    mutating func endMerge(_ dependencies: Dependencies) -> Next {
        guard let merge = pending.take() else { return .proceed }
        // In a replay, feeds keep the decisions of the first run.
        if !consumer.feeds.isEmpty, replay == nil {
            let unmerged = merge.unmerged
            if !unmerged.isEmpty { effects.append(.saveUnmerged(unmerged)) }
        }
        let checkpoint = Checkpoint(
            position: merge.end, fingerprint: foundFingerprint, movedAt: dependencies.now)
        effects.append(.save(checkpoint))
        foundFingerprint = nil
        moved(to: checkpoint)
        return afterMerge(dependencies)
    }

    // MARK: Failures

    /// Counts a failure, and reports it. Only one hook fails at a time, because no other is called
    /// meanwhile.
    mutating func decide(_ hook: Hook, _ failure: HookFailure, at token: HistoryToken)
        -> FailurePolicy.Decision
    {
        if wasCaughtUp {
            effects.append(.saveCaughtUpUntilNow)
            wasCaughtUp = false
        }
        let author = consumer.author
        // A lack of the daemon's own resources is not the hook's failure.
        if failure.reason == .daemonLacks {
            let delay = max(hook.policy.initialDelay, Self.pauseWhileLacking)
            report(
                .hookFailed(
                    consumer: author, hook: hook.name, failure, token: token,
                    attempt: failing?.hook == hook.name ? failing?.attempts ?? 0 : 0, retryAfter: delay))
            return .retry(after: delay)
        }
        let attempt = failing.map { $0.hook == hook.name ? $0.attempts + 1 : 1 } ?? 1
        failing = (hook.name, attempt)
        // A condition that does not fit its table is not an answer of the hook, so no call is given up
        // for it.
        let decision =
            failure.reason == .unfit
            ? .hold(retryAfter: hook.policy.maximumDelay)
            : hook.policy.decision(afterFailedAttempt: attempt, advice: failure.advice)
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
            // `giveUp` reports it once the dead letter is stored.
            break
        }
        return decision
    }

    /// Stores a call that will not be made again.
    mutating func giveUp(
        _ hook: Hook, _ failure: HookFailure, _ header: HookCallHeader, _ method: CallJSON.Method,
        _ call: [UInt8],
        at token: HistoryToken, _ dependencies: Dependencies
    ) {
        let attempts = failing?.attempts ?? 1
        effects.append(
            .keep(
                DeadLetter(
                    consumer: consumer.author, hook: hook.name, delivery: header.delivery, method: method,
                    reason: failure.message, attempts: attempts,
                    call: String(decoding: call, as: UTF8.self), keptAt: dependencies.now)))
        report(
            .deadLetterKept(
                consumer: consumer.author, hook: hook.name, failure, token: token, attempts: attempts))
        failing = nil
    }

    /// Reports the success if the hook had failed before.
    mutating func hookSucceeded(_ hook: String, at token: HistoryToken) {
        guard let failing, failing.hook == hook else { return }
        report(
            .hookRecovered(consumer: consumer.author, hook: hook, token: token, attempts: failing.attempts))
        self.failing = nil
    }

    // MARK: Expiry

    /// Notifies the hooks concerned that the consumer has lost history.
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
        // Notices of lost history are not repeated, except those stored in the history.
        let replay = expiry.reason == .recreated ? replay?.number : nil
        let call = ExpiredCall(
            expiry, hook: hook, store: consumer.store, consumer: consumer.author, replay: replay)
        if givenUp.contains(call.header, call.parameters) {
            notifiedOfExpiry.insert(hook.name)
            return sendExpiry(expiry, dependencies)
        }
        waitsFor = .expiry(hook, call)
        return .sendExpiry(hook, call)
    }

    /// Moves past a notice of unrecorded changes. The contexts process it as a batch without changes.
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
            // A process that was stopped to be replaced has not failed.
            if failure.reason == .cancelled { return .retry(after: Self.pauseAfterCancellation) }
            switch decide(hook, failure, at: expiry.after) {
            case .retry(let delay), .hold(let delay): return .retry(after: delay)
            case .skip:
                giveUp(hook, failure, call.header, .expired, call.parameters, at: expiry.after, dependencies)
            }
        } else {
            hookSucceeded(hook.name, at: expiry.after)
        }
        notifiedOfExpiry.insert(hook.name)
        return sendExpiry(expiry, dependencies)
    }
}
