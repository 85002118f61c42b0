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
        var problems: [String: String] = [:]
        var hooks: [String: HookFigures] = [:]
        var waiters: [Place: StopSignal] = [:]
    }

    fileprivate let state = Locked(State())

    func consumer(_ place: Place) -> ConsumerState { state.withLock { $0.consumers[place] ?? ConsumerState() } }
    /// Why a store is not open.
    func problem(of store: String) -> String? { state.withLock { $0.problems[store] } }
    func figures(of hook: String) -> HookFigures { state.withLock { $0.hooks[hook] ?? HookFigures() } }

    /// Forgets hooks and stores that are gone.
    func keepOnly(hooks: Set<String>, stores: Set<String>) {
        state.withLock { state in
            state.hooks = state.hooks.filter { hooks.contains($0.key) }
            state.problems = state.problems.filter { stores.contains($0.key) }
            state.consumers = state.consumers.filter { stores.contains($0.key.store) }
        }
    }

    /// Waits until `look` gives something of a consumer's state: looked at now, and whenever that changes.
    ///
    /// - Returns: Nil where the task was cancelled.
    func wait<T: Sendable>(at place: Place, _ look: (ConsumerState) -> T?) async -> T? {
        while !Task.isCancelled {
            let (found, change) = state.withLock { state -> (T?, StopSignal?) in
                if let found = look(state.consumers[place] ?? ConsumerState()) { return (found, nil) }
                let signal = state.waiters[place] ?? StopSignal()
                state.waiters[place] = signal
                return (nil, signal)
            }
            if let found { return found }
            await change?.wait()
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
        let signal = state.withLock { state -> StopSignal? in
            guard let consumer = state.note(event, store) else { return nil }
            return state.waiters.removeValue(forKey: Place(store: store, consumer: consumer))
        }
        signal?.request()
    }
}

extension Ledger.State {
    /// - Returns: The consumer whose state has changed, if one's has.
    fileprivate mutating func note(_ event: PipelineEvent, _ store: String) -> String? {
        func place(_ consumer: String) -> Ledger.Place { Ledger.Place(store: store, consumer: consumer) }
        switch event {
        case .storeOpened: problems[store] = nil
        case .storeLost(let error): problems[store] = "\(error)"
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
