/// Performs what the machine requests, and handles failures of that.
extension ConsumerRunner {
    // MARK: Events

    /// Handles an event, and those that follow from it at once.
    func handle(_ event: ConsumerMachine.Event) {
        var event = event
        while true {
            let before = machine
            do {
                let output = machine.handle(event, dependencies)
                try perform(output.effects)
                guard let outcome = try act(on: output.next) else { return }
                event = outcome
            } catch {
                // Everything that could not be done is done again.
                machine = before
                return fail(error) { [event] in $0.enter(with: event) }
            }
        }
    }

    var dependencies: ConsumerMachine.Dependencies {
        ConsumerMachine.Dependencies(
            hooks: hookSet, now: store.state.clock.wall(), isEnding: isEnding || moveRequest != nil,
            callTime: callTime)
    }

    func perform(_ effects: [ConsumerMachine.Effect]) throws {
        let (state, author) = (store.state, consumer.author)
        for effect in effects {
            switch effect {
            case .saveBatchEnd(let position): try state.cursors.saveBatchEnd(position, of: author)
            case .save(let checkpoint):
                try state.cursors.save(checkpoint, of: author)
                wakeFeeds()
            case .saveLater(let checkpoint):
                state.cursors.saveLater(checkpoint, of: author)
                wakeFeeds()
            case .saveUnmerged(let ranges): try state.feeds.saveUnmerged(ranges, of: author)
            case .saveCaughtUpUntilNow: try state.cursors.saveCaughtUpUntilNow(author)
            case .keep(let letter): try state.deadLetters.keep(letter)
            case .removeExpiry: try state.cursors.removeExpiry(of: author)
            case .report(let event): store.reporter.report(event)
            }
        }
    }

    func wakeFeeds() {
        if !consumer.feeds.isEmpty { control.seats.notify(consumer: consumer.author) }
    }

    // MARK: Actions

    /// - Returns: The outcome, if it is immediate. Otherwise it comes later, or the step is over.
    func act(on next: ConsumerMachine.Next) throws -> ConsumerMachine.Event? {
        switch next {
        case .fetch(let number, let last):
            if last == nil, number >= endOfPass {
                return .fetched(HistoryBatch(transactions: [], end: number, isLast: true, fingerprint: nil))
            }
            return .fetched(
                try store.fetcher.batch(after: number, through: last, values: hookSet.wantedValues))
        case .findFingerprint(let position, let batch):
            return .found(fingerprint: try store.source.fingerprint(at: position, in: batch))
        case .read(let unread):
            let (changes, values) = try store.source.changes(unread)
            return .read(changes, values)
        case .observe(let run): call(run.endpoint, run.loopEndpoint, .observe(run.calls))
        case .merge(let hook, let call): self.call(hook.endpoint, hook.loopEndpoint, .merge(call))
        case .sendExpiry(let hook, let call): self.call(hook.endpoint, hook.loopEndpoint, .expired(call))
        case .stage(let batch, let takesOwn):
            useContexts { .staged(try await $0.stage(batch, cursor: $1, takesOwn: takesOwn)) }
        case .mergeIntoContexts(let pending, let waits):
            useContexts {
                .mergedIntoContexts(retryAfter: try await $0.merge(pending, cursor: $1, waits: waits))
            }
        case .catchUpContexts(let fingerprint):
            useContexts {
                try await $0.bringUpToDate(cursor: $1, fingerprint)
                return .contextsCaughtUp
            }
        case .proceed:
            leaveStep()
            // Other consumers get a turn between two batches.
            session.perform(for: consumer.author) { $0.step() }
        case .retry(let delay): pause(for: delay) { $0.step() }
        case .idle: idle()
        }
        return nil
    }

    func call(_ endpoint: any HookEndpoint, _ onLoop: (any LoopEndpoint)?, _ request: HookRequest) {
        callBegan = .now
        if let onLoop {
            conversation = onLoop.begin(request) { [session, author = consumer.author] answer in
                session.perform(for: author) { runner in
                    runner.conversation = nil
                    runner.take(answer)
                }
            }
            return
        }
        let cancellation = OneShotEvent()
        callCancellation = cancellation
        let isBegun = session.work(
            { [tasks = session.tasks] in
                // It throws only if it was cancelled before it began.
                try? await tasks.cancellable {
                    try await cancellation.cancelling { await endpoint.answer(request) }
                }
            }, for: consumer.author
        ) { runner, answer in
            runner.take(answer)
        }
        if !isBegun { ended() }
    }

    func take(_ answer: HookAnswer?) {
        if phase == .ended { return }
        switch answer {
        case .observed(let outcome): handle(.observed(outcome))
        case .merged(let result):
            callTime = .now - callBegan
            handle(.merged(result))
        case .expired(let failure): handle(.expirySent(failure))
        case nil: ended()
        }
    }

    func useContexts(
        _ body: @escaping @Sendable (ContextKeeper, Int64) async throws -> ConsumerMachine.Event
    ) {
        work { [contexts, cursor = machine.cursor] in
            try await body(contexts, cursor)
        } then: { runner, event in
            runner.handle(event)
        } again: {
            $0.step()
        }
    }

    func work<T: Sendable>(
        _ body: @escaping @Sendable () async throws -> T,
        then: @escaping @Sendable (ConsumerRunner, T) -> Void, again: @escaping Resumption
    ) {
        // A stop need not wait for the answer of a plugin.
        let isCancellable = !consumer.pluginContexts.isEmpty
        let isBegun = session.work(
            { [tasks = session.tasks] () -> Result<T, any Error> in
                do {
                    return .success(isCancellable ? try await tasks.cancellable(body) : try await body())
                } catch {
                    return .failure(error)
                }
            }, for: consumer.author
        ) { runner, result in
            switch result {
            case .success(let value): then(runner, value)
            case .failure(let error): runner.fail(error, again)
            }
        }
        if !isBegun { ended() }
    }

    // MARK: Failures

    func pause(for delay: Duration, _ resumption: @escaping Resumption) {
        leaveStep()
        if isEnding { return ended() }
        phase = .paused
        self.resumption = resumption
        // A request to retry at once that came during the attempt is for the next one.
        pauseTimer = session.schedule(after: triesNow ? .zero : delay, for: consumer.author) { $0.resume() }
        session.assumeIsolated { [author = consumer.author] in $0.stoppedWorking(author) }
        if moveRequest != nil { moveNow() }
    }

    func resume() {
        // The timer may fire in the same round in which an operator requests a retry.
        guard phase == .paused else { return }
        pauseTimer?.cancel()
        // The batch in memory may have been deleted meanwhile, when the consumer no longer held back a
        // cleanup.
        if machine.batch != nil {
            do {
                let oldest = try store.source.oldestToken()
                if oldest.number > machine.cursor { throw HistoryError.expired(machine.cursor, oldest: oldest) }
            } catch {
                return fail(error) { $0.step() }
            }
        }
        resumption(self)
    }

    func recovered() {
        if retryPause.isLasting {
            store.reporter.report(.consumerRecovered(consumer: consumer.author))
        }
        retryPause.reset()
        guard isStateFailing else { return }
        isStateFailing = false
        store.reporter.report(.stateRecovered)
    }

    /// Retries after a temporary error, starts over if the position no longer exists, and ends the
    /// session on any other error.
    func fail(_ error: any Error, _ again: @escaping Resumption) {
        leaveStep()
        if isEnding { return ended() }
        guard let error = error as? HistoryError else { return ended(error) }
        if error.code == .tokenExpired || error.code == .tokenAhead {
            beginAgain(after: error)
        } else if error.heals {
            let delay = retryPause.next()
            if retryPause.hasBegunToLast {
                isStateFailing = error.isOfState
                if isStateFailing { store.reporter.report(.stateFailed(error)) }
                store.reporter.report(
                    .consumerFailed(consumer: consumer.author, error, retryAfter: delay))
            }
            pause(for: delay, again)
        } else {
            ended(error)
        }
    }

    /// A consumer whose position no longer exists continues where history does. Its contexts are filled again,
    /// and its hooks are notified.
    func beginAgain(after error: HistoryError) {
        phase = .working
        let (author, state) = (consumer.author, store.state)
        let expiry: Expiry
        do {
            expiry = try store.expiry(of: error, at: machine.cursor)
            let position = expiry.after.number
            let fingerprint = try store.source.fingerprint(at: position, in: nil)
            try state.startOver(author, expiry, at: position, fingerprint: fingerprint)
            self.fingerprint = fingerprint
            store.reporter.report(.tokenExpired(consumer: author, error))
            machine = ConsumerMachine(
                consumer, storeID: store.storeID, cursor: position, fingerprint: fingerprint,
                expiry: try state.cursors.expiry(of: author, store: store.storeID),
                replay: try state.replays.last(of: author))
        } catch {
            return fail(error) { $0.step() }
        }
        work { [contexts] in
            await contexts.startOver(isRestored: expiry.reason == .restored)
        } then: { runner, _ in
            runner.wakeFeeds()
            if runner.consumer.hasContexts {
                let names = runner.consumer.contextNames
                runner.store.reporter.report(.contextsClosed(consumer: author, contexts: names))
            }
            runner.store.reporter.report(.consumerStands(consumer: author, at: expiry.after))
            runner.prepare()
        } again: {
            $0.prepare()
        }
    }
}
