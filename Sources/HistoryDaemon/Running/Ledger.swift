import PersistentHistory

/// What is known of stores, consumers and hooks from what has happened to them; and who waits for
/// something to happen.
final class Ledger: Sendable {
    struct Place: Hashable, Sendable {
        let store: String
        let consumer: String
    }

    struct ConsumerState: Sendable {
        var cursor: HistoryToken?
        /// What failed last, until it succeeds.
        var failure: Failure?
        /// How many failures there were.
        var failures = 0
    }

    struct Failure: Sendable, Equatable {
        let hook: String?
        let reason: String
        let isHeld: Bool
    }

    struct HookFigures: Sendable {
        var calls = 0
        var failures = 0
        var lastCall: HistoryTimestamp?
        var lastError: (reason: String, at: HistoryTimestamp)?
    }

    fileprivate struct State {
        var consumers: [Place: ConsumerState] = [:]
        /// Consumers of a store whose cursors were moved together, and where to.
        var movedTogether: [String: (consumers: MovedConsumers, cursor: HistoryToken)] = [:]
        var problems: [String: String] = [:]
        var hooks: [String: HookFigures] = [:]
        var waiters: [Place: StopSignal] = [:]
        /// All who are served; nil until that is known.
        var served: Set<Place>?
    }

    fileprivate let state = Locked(State())

    func consumer(_ place: Place) -> ConsumerState { state.withLock { $0.consumer(place) } }
    /// Why a store is not open.
    func problem(of store: String) -> String? { state.withLock { $0.problems[store] } }
    func figures(of hook: String) -> HookFigures { state.withLock { $0.hooks[hook] ?? HookFigures() } }

    /// Forgets hooks, stores and consumers that are gone; nobody waits for those any longer.
    func keepOnly(hooks: Set<String>, stores: Set<String>, consumers: Set<Place>) {
        let waiters = state.withLock { state in
            state.served = consumers
            state.hooks = state.hooks.filter { hooks.contains($0.key) }
            state.problems = state.problems.filter { stores.contains($0.key) }
            state.movedTogether = state.movedTogether.filter { stores.contains($0.key) }
            state.consumers = state.consumers.filter { consumers.contains($0.key) }
            return state.waiters.keys.filter { !consumers.contains($0) }
                .compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for waiter in waiters { waiter.request() }
    }

    /// Waits until `look` gives something of a consumer's state: looked at now, and whenever that changes.
    ///
    /// - Returns: Nil where the task was cancelled, or there is no such consumer any more.
    func wait<T: Sendable>(at place: Place, _ look: (ConsumerState) -> T?) async -> T? {
        while !Task.isCancelled {
            let (found, change) = state.withLock { state -> (T?, StopSignal?) in
                if let found = look(state.consumer(place)) { return (found, nil) }
                guard state.served?.contains(place) ?? true else { return (nil, nil) }
                let signal = state.waiters[place] ?? StopSignal()
                state.waiters[place] = signal
                return (nil, signal)
            }
            guard let change else { return found }
            await change.wait()
        }
        return nil
    }
}

/// Takes in what happens to one store.
struct LedgerReporter: PipelineReporter {
    let ledger: Ledger
    let store: String

    func report(_ event: PipelineEvent) { ledger.note(event, store) }
}

/// Tells several.
struct ReporterList: PipelineReporter {
    let reporters: [any PipelineReporter]

    func report(_ event: PipelineEvent) {
        for reporter in reporters { reporter.report(event) }
    }
}

extension Ledger {
    fileprivate func note(_ event: PipelineEvent, _ store: String) {
        let signals = state.withLock { state in
            state.note(event, store).compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for signal in signals { signal.request() }
    }
}

extension Ledger.State {
    fileprivate func consumer(_ place: Ledger.Place) -> Ledger.ConsumerState {
        var consumer = consumers[place] ?? .init()
        // It may have joined the others since they were moved.
        if let (moved, cursor) = movedTogether[place.store], moved.contains(place.consumer),
            cursor.number > consumer.cursor?.number ?? 0
        {
            consumer.cursor = cursor
        }
        return consumer
    }

    /// - Returns: Those who are waited for, of all whose state has changed.
    fileprivate mutating func note(_ event: PipelineEvent, _ store: String) -> [Ledger.Place] {
        if case .cursorsMoved(let consumers, let token) = event {
            movedTogether[store] = (consumers, token)
            return waiters.keys.filter { $0.store == store && consumers.contains($0.consumer) }
        }
        guard let consumer = noteConsumer(event, store) else { return [] }
        return [Ledger.Place(store: store, consumer: consumer)]
    }

    private mutating func noteConsumer(_ event: PipelineEvent, _ store: String) -> String? {
        func place(_ consumer: String) -> Ledger.Place { Ledger.Place(store: store, consumer: consumer) }
        switch event {
        case .storeOpened:
            problems[store] = nil
            movedTogether[store] = nil
        case .storeLost(let error): problems[store] = "\(error)"
        case .watchFailed(let error): problems[store] = "\(error)"
        case .consumerStands(let consumer, let token), .cursorMoved(let consumer, let token):
            consumers[place(consumer), default: .init()].cursor = token
            consumers[place(consumer), default: .init()].failure = nil
            return consumer
        case .delivered(let consumer, let hook, let deliveries):
            hooks[hook, default: .init()].calls += deliveries.calls
            hooks[hook, default: .init()].lastCall = .now
            if consumers[place(consumer)]?.failure?.hook == hook {
                consumers[place(consumer)]?.failure = nil
                return consumer
            }
        case .hookFailed(let consumer, let hook, let failure, _, _, _):
            note(failure, of: hook)
            fail(place(consumer), hook, failure.message, isHeld: false)
            return consumer
        case .hookHeld(let consumer, let hook, let failure, _, _, _):
            note(failure, of: hook)
            fail(place(consumer), hook, failure.message, isHeld: true)
            return consumer
        case .deadLetterKept(let consumer, let hook, let failure, _, _):
            note(failure, of: hook)
            consumers[place(consumer), default: .init()].failure = nil
            return consumer
        case .contextFailed(let consumer, _, let error), .consumerFailed(let consumer, let error, _):
            fail(place(consumer), nil, "\(error)", isHeld: false)
            return consumer
        default: break
        }
        return nil
    }

    private mutating func note(_ failure: HookFailure, of hook: String) {
        hooks[hook, default: .init()].failures += 1
        hooks[hook, default: .init()].lastError = (failure.message, .now)
    }

    private mutating func fail(_ place: Ledger.Place, _ hook: String?, _ reason: String, isHeld: Bool) {
        consumers[place, default: .init()].failure = .init(hook: hook, reason: reason, isHeld: isHeld)
        consumers[place, default: .init()].failures += 1
    }
}
