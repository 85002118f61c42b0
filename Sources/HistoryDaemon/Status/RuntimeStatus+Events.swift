import PersistentHistory

/// The one reducer: an event in, the next status and what follows from it out.
extension RuntimeStatus {
    /// What follows from an event beside the status itself.
    struct Effects: Sendable {
        enum Changed: Sendable {
            case nothing
            case consumer(String)
            case several(MovedConsumers)
        }

        /// Whose state is another one.
        var changed = Changed.nothing
        /// It says nothing new.
        var isRepeated = false
        var isStoreBack = false
        var isStateBack = false
        /// Whether something was counted that outlives a restart.
        var hasCounted = false
        /// Whether the line may be another one: what each commit brings about does not change it.
        var mayChangeLine = false
    }

    /// Takes in what happened to a store.
    mutating func apply(_ event: PipelineEvent, store: String, at now: HistoryTimestamp) -> Effects {
        var effects = Effects()
        switch event {
        case .storeOpened:
            effects.isStoreBack = stores[store]?.problem != nil
            effects.isStateBack = stores[store]?.isStateFailing ?? false
            effects.mayChangeLine = effects.isStoreBack || effects.isStateBack
            if open(&stores[store, default: Store()]) { effects.mayChangeLine = true }
        case .storeLost(let error):
            stores[store, default: Store()].problem = "\(error)"
            effects.mayChangeLine = true
        case .watchFailed(let error):
            stores[store, default: Store()].problem = "\(error)"
            effects.mayChangeLine = true
        case .trackingFailed(let error):
            stores[store, default: Store()].trackingProblem = "\(error)"
            effects.mayChangeLine = true
        case .trackingComplete:
            effects.mayChangeLine = stores[store]?.trackingProblem != nil
            stores[store]?.trackingProblem = nil
        case .deadLettersFound(let counts):
            effects.mayChangeLine = (stores[store]?.deadLetters ?? [:]) != counts
            stores[store, default: Store()].deadLetters = counts
        case .cleaned(let outcome):
            stores[store]?.cleaningProblem = nil
            counters.stores[store, default: .init()].deletedChanges += outcome.deleted
            counters.stores[store, default: .init()].cleanedAt = now.milliseconds
            effects.hasCounted = true
        case .cleaningRecovered: stores[store]?.cleaningProblem = nil
        case .cleaningFailed(let error): stores[store, default: Store()].cleaningProblem = "\(error)"
        case .stateFailed:
            effects.isRepeated = stores[store]?.isStateFailing ?? false
            stores[store, default: Store()].isStateFailing = true
            effects.mayChangeLine = true
        case .stateRecovered:
            effects.isStateBack = stores[store]?.isStateFailing ?? false
            stores[store]?.isStateFailing = false
            effects.mayChangeLine = true
        case .entitiesUntracked(let untracked):
            effects.isRepeated = stores[store, default: Store()].untracked == untracked
            stores[store, default: Store()].untracked = untracked
            effects.mayChangeLine = !effects.isRepeated
        case .recordingDoubtful(let doubts):
            effects.isRepeated = stores[store, default: Store()].doubts == doubts
            stores[store, default: Store()].doubts = doubts
        case .watchOverflowed:
            // Each store reports it.
            effects.isRepeated =
                lastOverflow.map { abs(now.milliseconds - $0.milliseconds) < 10_000 } ?? false
            lastOverflow = now
        case .cleaningHeldBack(let names):
            stores[store, default: Store()].holdingBack = Set(names)
            effects.mayChangeLine = true
        case .feedMoved(let consumer, let context, _):
            effects.mayChangeLine = release("\(consumer)/\(context)", store)
        case .cursorsMoved(let consumers, let token):
            stores[store, default: Store()].movedTogether = (consumers, token)
            for name in stores[store]?.holdingBack ?? [] where consumers.contains(name) {
                effects.mayChangeLine = release(name, store) || effects.mayChangeLine
            }
            effects.changed = .several(consumers)
        case .delivered(let consumer, let hook, let deliveries):
            hooks[hook, default: Hook()].add(deliveries, at: now)
            if stores[store, default: Store()].consumers[consumer, default: Consumer()].add(
                deliveries, of: hook)
            {
                effects.changed = .consumer(consumer)
            }
        default:
            if let (hook, failure) = event.hookFailure {
                count(failure, of: hook, isRetried: !event.givesUp, at: now)
                effects.hasCounted = true
            }
            apply(event, store, &effects)
        }
        return effects
    }

    /// What concerns one consumer.
    private mutating func apply(_ event: PipelineEvent, _ store: String, _ effects: inout Effects) {
        func change(_ name: String, mayChangeLine: Bool = false, _ body: (inout Consumer) -> Void) {
            body(&stores[store, default: Store()].consumers[name, default: Consumer()])
            effects.changed = .consumer(name)
            if mayChangeLine { effects.mayChangeLine = true }
        }
        switch event {
        case .consumerStands(let consumer, let token):
            // Its contexts are opened again.
            change(consumer) {
                if !$0.contexts.isEmpty { effects.mayChangeLine = true }
                $0.contexts = [:]
                $0.shown = [:]
                $0.move(to: token)
            }
        case .cursorMoved(let consumer, let token):
            change(consumer, mayChangeLine: release(consumer, store)) { $0.move(to: token) }
        case .hookFailed(let consumer, let hook, let failure, _, _, _):
            change(consumer) { $0.fail(hook, failure.message) }
        case .hookHeld(let consumer, let hook, let failure, _, _, _):
            change(consumer, mayChangeLine: true) {
                effects.isRepeated = !$0.heldHooks.insert(hook).inserted
                $0.fail(hook, failure.message, isHeld: true)
            }
        case .hookRecovered(let consumer, let hook, _, _):
            change(consumer, mayChangeLine: true) { $0.heldHooks.remove(hook) }
        case .deadLetterKept(let consumer, let hook, _, _, _):
            change(consumer, mayChangeLine: true) {
                $0.heldHooks.remove(hook)
                $0.failure = nil
            }
            stores[store]?.deadLetters[consumer, default: 0] += 1
            counters.stores[store, default: .init()].deadLetters[consumer, default: 0] += 1
        case .merged(let consumer, let context, _, let last): change(consumer) { $0.shown[context] = last }
        case .replicaFilled(let consumer, let context, let token):
            change(consumer) { $0.shown[context] = token }
        case .contextFailed(let consumer, let context, let error, let attempt):
            change(consumer, mayChangeLine: true) {
                let shown = $0.contexts[context].map(\.shown) ?? $0.shown[context] ?? $0.cursor
                $0.contexts[context] = ContextFailure(
                    reason: "\(error)", attempt: attempt, shown: shown,
                    isReplica: error.code != .contextFailed)
                $0.failures += 1
            }
        case .contextRecovered(let consumer, let context, _):
            change(consumer, mayChangeLine: true) { $0.contexts[context] = nil }
        case .consumerFailed(let consumer, let error, _):
            change(consumer) { $0.fail(nil, "\(error)") }
        case .consumerRecovered(let consumer):
            change(consumer, mayChangeLine: true) { if $0.failure?.hook == nil { $0.failure = nil } }
        default: break
        }
    }

    /// Whether a problem that the status line names is over.
    private func open(_ store: inout Store) -> Bool {
        defer {
            (store.problem, store.isStateFailing, store.holdingBack, store.movedTogether) = (
                nil, false, [], nil
            )
        }
        let troubled = store.consumers.filter {
            !$0.value.heldHooks.isEmpty || !$0.value.contexts.isEmpty
        }
        for name in troubled.keys {
            store.consumers[name]?.heldHooks = []
            store.consumers[name]?.contexts = [:]
        }
        return !store.holdingBack.isEmpty || !troubled.isEmpty
    }

    /// What moves holds nothing back any longer. Whether it did.
    private mutating func release(_ name: String, _ store: String) -> Bool {
        guard let holding = stores[store]?.holdingBack, !holding.isEmpty else { return false }
        return stores[store]?.holdingBack.remove(name) != nil
    }

    private mutating func count(
        _ failure: HookFailure, of hook: String, isRetried: Bool, at now: HistoryTimestamp
    ) {
        hooks[hook, default: Hook()].failures += 1
        counters.hooks[hook, default: .init()].failures += 1
        if isRetried { counters.hooks[hook, default: .init()].retries += 1 }
        hooks[hook, default: Hook()].lastError = (failure.message, now)
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
    /// Whether a failure of the hook is over.
    fileprivate mutating func add(_ deliveries: Deliveries, of hook: String) -> Bool {
        delays.add(deliveries.delays)
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

extension PipelineEvent {
    /// Whether a call that failed is made no more.
    fileprivate var givesUp: Bool {
        if case .deadLetterKept = self { true } else { false }
    }

    /// The hook that failed, if that is what happened.
    fileprivate var hookFailure: (hook: String, failure: HookFailure)? {
        switch self {
        case .hookFailed(_, let hook, let failure, _, _, _),
            .hookHeld(_, let hook, let failure, _, _, _),
            .deadLetterKept(_, let hook, let failure, _, _):
            (hook, failure)
        default: nil
        }
    }
}
