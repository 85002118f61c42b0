import PersistentHistory

/// The only reducer: it takes an event, and returns the effects besides the next status.
extension RuntimeStatus {
    /// The effects of an event besides the status itself.
    struct Effects: Sendable {
        enum Changed: Sendable {
            case nothing
            case consumer(String)
            case several(MovedConsumers)
        }

        /// Whose state has changed.
        var changed = Changed.nothing
        /// Whether the event reports nothing new.
        var isRepeated = false
        var isStoreBack = false
        var isStateBack = false
        /// Whether a counter that outlives a restart has changed.
        var hasCounted = false
        /// Whether the line may have changed: the events of each commit do not change it.
        var mayChangeLine = false
    }

    /// Applies an event of a store.
    mutating func apply(_ event: PipelineEvent, store: String, at now: HistoryTimestamp) -> Effects {
        var effects = stores[store, default: Store()].apply(event)
        switch event {
        case .watchOverflowed:
            // Each store reports the same overflow.
            effects.isRepeated =
                lastOverflow.map { abs(now.milliseconds - $0.milliseconds) < 10_000 } ?? false
            lastOverflow = now
        case .cleaned(let outcome):
            counters.stores[store, default: .init()].deletedChanges += outcome.deleted
            counters.stores[store]?.cleanedAt = now.milliseconds
            effects.hasCounted = true
        case .delivered(_, let hook, let deliveries): hooks[hook, default: Hook()].add(deliveries, at: now)
        case .hookFailed(_, let hook, let failure, _, _, _), .hookHeld(_, let hook, let failure, _, _, _):
            count(failure, of: hook, at: now)
            counters.hooks[hook]?.retries += 1
            effects.hasCounted = true
        case .deadLetterKept(let consumer, let hook, let failure, _, _):
            count(failure, of: hook, at: now)
            counters.stores[store, default: .init()].deadLetters[consumer, default: 0] += 1
            effects.hasCounted = true
        default: break
        }
        return effects
    }

    private mutating func count(_ failure: HookFailure, of hook: String, at now: HistoryTimestamp) {
        hooks[hook, default: Hook()].failures += 1
        hooks[hook]?.lastError = (failure.message, now)
        counters.hooks[hook, default: .init()].failures += 1
    }
}

extension RuntimeStatus.Store {
    fileprivate mutating func apply(_ event: PipelineEvent) -> RuntimeStatus.Effects {
        var effects = RuntimeStatus.Effects()
        switch event {
        case .storeOpened:
            (effects.isStoreBack, effects.isStateBack) = (problem != nil, isStateFailing)
            effects.mayChangeLine = open() || effects.isStoreBack || effects.isStateBack
        case .storeLost(let error): effects.mayChangeLine = set(\.problem, "\(error)")
        case .watchFailed(let error):
            effects.mayChangeLine = set(\.problem, "\(error)")
            effects.isRepeated = !effects.mayChangeLine
        case .trackingFailed(let error): effects.mayChangeLine = set(\.trackingProblem, "\(error)")
        case .trackingComplete: effects.mayChangeLine = set(\.trackingProblem, nil)
        case .deadLettersFound(let counts): effects.mayChangeLine = set(\.deadLetters, counts)
        case .entitiesUntracked(let untracked):
            effects.mayChangeLine = set(\.untracked, untracked)
            effects.isRepeated = !effects.mayChangeLine
        case .recordingDoubtful(let doubts): effects.isRepeated = !set(\.doubts, doubts)
        case .stateFailed:
            effects.mayChangeLine = set(\.isStateFailing, true)
            effects.isRepeated = !effects.mayChangeLine
        case .stateRecovered:
            effects.mayChangeLine = set(\.isStateFailing, false)
            effects.isStateBack = effects.mayChangeLine
        case .cleaned, .cleaningRecovered: cleaningProblem = nil
        case .cleaningFailed(let error): cleaningProblem = "\(error)"
        case .cleaningWaits(let error): cleaningWaits = "\(error)"
        case .cleaningStepped(let effort):
            cleaningEffort.add(effort)
            if effort.steps > 0 { cleaningWaits = nil }
        case .cleaningHeldBack(let names): effects.mayChangeLine = set(\.holdingBack, Set(names))
        case .feedMoved(let consumer, let context, _):
            effects.mayChangeLine = release("\(consumer)/\(context)")
        case .cursorsMoved(let consumers, let token):
            movedTogether = (consumers, token)
            for name in holdingBack where consumers.contains(name) {
                effects.mayChangeLine = release(name) || effects.mayChangeLine
            }
            effects.changed = .several(consumers)
        default: apply(event, &effects)
        }
        return effects
    }

    /// Applies an event that concerns one consumer.
    private mutating func apply(_ event: PipelineEvent, _ effects: inout RuntimeStatus.Effects) {
        func change(
            _ name: String, mayChangeLine: Bool = false, _ body: (inout RuntimeStatus.Consumer) -> Void
        ) {
            body(&consumers[name, default: RuntimeStatus.Consumer()])
            effects.changed = .consumer(name)
            if mayChangeLine { effects.mayChangeLine = true }
        }
        switch event {
        case .consumerStands(let consumer, let token):
            // Its contexts are opened again, and no hook has been called.
            change(consumer) {
                if !$0.contexts.isEmpty || !$0.heldHooks.isEmpty { effects.mayChangeLine = true }
                ($0.contexts, $0.heldHooks) = ([:], [])
                $0.move(to: token)
            }
        case .consumerMoved(let consumer, _, let token, _):
            change(consumer, mayChangeLine: true) {
                $0.heldHooks = []
                $0.move(to: token)
            }
        case .cursorMoved(let consumer, let token):
            change(consumer, mayChangeLine: release(consumer)) { $0.move(to: token) }
        case .delivered(let consumer, let hook, let deliveries):
            let isOver = consumers[consumer, default: RuntimeStatus.Consumer()].add(deliveries, of: hook)
            if isOver { effects.changed = .consumer(consumer) }
        case .hookFailed(let consumer, let hook, let failure, _, _, _):
            change(consumer) { $0.fail(hook, failure.message) }
        case .hookHeld(let consumer, let hook, let failure, _, _, _):
            change(consumer, mayChangeLine: true) {
                effects.isRepeated = !$0.heldHooks.insert(hook).inserted
                $0.fail(hook, failure.message, isHeld: true)
            }
        case .hookRecovered(let consumer, let hook, _, _):
            change(consumer, mayChangeLine: true) {
                $0.heldHooks.remove(hook)
                // Nothing may follow, such as after a notice of lost history.
                $0.recover(hook)
            }
        case .deadLetterKept(let consumer, let hook, _, _, _):
            change(consumer, mayChangeLine: true) {
                $0.heldHooks.remove(hook)
                $0.failure = nil
            }
            deadLetters[consumer, default: 0] += 1
        case .contextsClosed(let consumer, let names):
            change(consumer) { ($0.shown, $0.unopened) = ([:], Set(names)) }
        case .contextShows(let consumer, let context, let token):
            change(consumer) {
                $0.shown[context] = token
                $0.unopened.remove(context)
            }
        case .contextFailed(let consumer, let context, let error, let attempt):
            change(consumer, mayChangeLine: true) {
                let shown = $0.contexts[context].map(\.shown) ?? $0.shown[context] ?? $0.cursor
                $0.contexts[context] = RuntimeStatus.ContextFailure(
                    reason: "\(error)", attempt: attempt, shown: shown,
                    isReplica: error.code != .contextFailed)
                $0.failures += 1
            }
        case .contextRecovered(let consumer, let context, _):
            change(consumer, mayChangeLine: true) { $0.contexts[context] = nil }
        case .consumerFailed(let consumer, let error, _): change(consumer) { $0.fail(nil, "\(error)") }
        case .consumerRecovered(let consumer):
            change(consumer, mayChangeLine: true) { if $0.failure?.hook == nil { $0.failure = nil } }
        default: break
        }
    }

    /// - Returns: Whether the value has changed.
    private mutating func set<T: Equatable>(_ member: WritableKeyPath<Self, T>, _ value: T) -> Bool {
        if self[keyPath: member] == value { return false }
        self[keyPath: member] = value
        return true
    }

    /// Marks the store as open. Returns whether a problem that the status line names is over.
    private mutating func open() -> Bool {
        let wasHolding = !holdingBack.isEmpty
        (problem, isStateFailing, holdingBack, movedTogether) = (nil, false, [], nil)
        // Its cleaning starts again, and reports only a new failure.
        (cleaningProblem, cleaningWaits) = (nil, nil)
        let troubled = consumers.filter { !$0.value.heldHooks.isEmpty || !$0.value.contexts.isEmpty }
        for name in troubled.keys {
            consumers[name]?.heldHooks = []
            consumers[name]?.contexts = [:]
        }
        return wasHolding || !troubled.isEmpty
    }

    /// Marks a consumer or feed that has moved as no longer holding back the cleanup. Returns whether it did.
    private mutating func release(_ name: String) -> Bool {
        holdingBack.isEmpty ? false : holdingBack.remove(name) != nil
    }
}

extension RuntimeStatus.Hook {
    fileprivate mutating func add(_ deliveries: Deliveries, at now: HistoryTimestamp) {
        calls += deliveries.calls
        lastCall = now
        callTimes.add(deliveries.callTimes)
    }
}

extension RuntimeStatus.Consumer {
    /// Adds deliveries. Returns whether a failure of the hook is over.
    fileprivate mutating func add(_ deliveries: Deliveries, of hook: String) -> Bool {
        delays.add(deliveries.delays)
        return recover(hook)
    }

    /// Returns whether a failure of the hook is over.
    @discardableResult
    fileprivate mutating func recover(_ hook: String) -> Bool {
        guard failure?.hook == hook else { return false }
        failure = nil
        return true
    }

    fileprivate mutating func move(to token: HistoryToken) {
        cursor = token
        failure = nil
        lag = Lag()
    }

    fileprivate mutating func fail(_ hook: String?, _ reason: String, isHeld: Bool = false) {
        failure = RuntimeStatus.Failure(hook: hook, reason: reason, isHeld: isHeld)
        failures += 1
    }
}
