import HistoryConfiguration
import PersistentHistory

/// The runtime status, shared by all parts that read it, wait for a part of it, or report changes to it. It
/// notifies the service manager when the status line changes.
final class LiveStatus: Sendable {
    fileprivate struct State {
        var status: RuntimeStatus
        var parts: StatusLine
        var line: String
        var waiters: [RuntimeStatus.ConsumerID: OneShotEvent] = [:]
    }

    private let state: Locked<State>
    private let notifier: any ServiceNotifying
    /// How long one step of tracking may take, including a wait for another process's lock.
    private static let trackingStep: Duration = .seconds(60)
    private let counted = Locked<(@Sendable () -> Void)?>(nil)

    init(_ status: RuntimeStatus = RuntimeStatus(), notifier: any ServiceNotifying) {
        state = Locked(State(status: status, parts: StatusLine(status), line: status.line))
        self.notifier = notifier
    }

    // MARK: Reading

    var line: String { state.withLock(\.line) }
    func read<T>(_ body: (RuntimeStatus) -> T) -> T { state.withLock { body($0.status) } }
    func consumer(_ id: RuntimeStatus.ConsumerID) -> RuntimeStatus.Consumer {
        read { $0.consumer(id) }
    }
    func hook(_ name: String) -> RuntimeStatus.Hook { read { $0.hooks[name] ?? .init() } }
    func plugin(_ name: String) -> RuntimeStatus.Plugin { read { $0.plugins[name] ?? .init() } }
    /// Why a store is not open.
    func problem(of store: String) -> String? { read { $0.stores[store]?.problem } }

    /// Waits until `look` returns a value for a consumer's state. `look` is called now, and whenever the state
    /// changes.
    ///
    /// - Returns: Nil if the task was cancelled, or the consumer does not exist any more.
    func wait<T: Sendable>(for id: RuntimeStatus.ConsumerID, _ look: (RuntimeStatus.Consumer) -> T?)
        async -> T?
    {
        while !Task.isCancelled {
            let (found, change) = state.withLock { state -> (T?, OneShotEvent?) in
                if let found = look(state.status.consumer(id)) { return (found, nil) }
                guard state.status.isServed(id) else { return (nil, nil) }
                let signal = state.waiters[id] ?? OneShotEvent()
                state.waiters[id] = signal
                return (nil, signal)
            }
            guard let change else { return found }
            await change.wait()
        }
        return nil
    }

    /// Sets the handler that is called when a counter that outlives a restart changes.
    func onCount(_ body: @escaping @Sendable () -> Void) { counted.withLock { $0 = body } }

    /// Called when a plugin's process has ended, which is counted.
    func reportCount() { counted.withLock { $0 }?() }

    // MARK: Changing

    /// Applies an event of a store.
    func apply(_ event: PipelineEvent, store: String) -> RuntimeStatus.Effects {
        // The daemon is not ready before tracking ends, which may take minutes.
        if case .trackingUnderWay = event { notifier.notify(.extendTimeout(Self.trackingStep)) }
        let (effects, line, woken) = state.withLock { state in
            let effects = state.status.apply(event, store: store, at: .now)
            return (
                effects, effects.mayChangeLine ? state.takeLine(store) : nil,
                state.takeWaiters(effects.changed, store)
            )
        }
        if let line { notifier.notify(.status(line)) }
        for waiter in woken { waiter.signal() }
        if effects.hasCounted { counted.withLock { $0 }?() }
        return effects
    }

    /// Changes the status, and notifies the service manager.
    ///
    /// - Parameter store: The only store that changes; nil if there may be several.
    func update(_ store: String? = nil, _ change: (inout RuntimeStatus) -> Void) {
        let line = state.withLock { state in
            change(&state.status)
            return state.takeLine(store)
        }
        if let line { notifier.notify(.status(line)) }
    }

    /// Changes the status without notifying the service manager: the caller does that, along with other
    /// notifications.
    ///
    /// - Returns: The new status line.
    func replace(_ change: (inout RuntimeStatus) -> Void) -> String {
        state.withLock { state in
            change(&state.status)
            _ = state.takeLine(nil)
            return state.line
        }
    }

    /// Adds and removes stores independently of the others. Tasks stop waiting for removed ones.
    func change(ending: Set<String>, beginning: [(store: StoreConfiguration, consumers: Set<String>)]) {
        let (line, woken) = state.withLock { state in
            state.status.change(ending: ending, beginning: beginning)
            for name in ending { state.parts.update(name, state.status) }
            let woken = state.waiters.keys.filter { ending.contains($0.store) }
                .compactMap { state.waiters.removeValue(forKey: $0) }
            return (state.takeLine(beginning.first?.store.name ?? ending.first ?? ""), woken)
        }
        if let line { notifier.notify(.status(line)) }
        for waiter in woken { waiter.signal() }
    }

    /// Removes what is no longer in force. Tasks stop waiting for those consumers.
    func keepOnly(
        consumers: [String: Set<String>], hooks: Set<String>, plugins: Set<String>,
        mayCome: (String) -> Bool = { _ in false }
    ) {
        let woken = state.withLock { state in
            state.status.keepOnly(consumers: consumers, hooks: hooks, plugins: plugins, mayCome: mayCome)
            return state.waiters.keys.filter { !state.status.isServed($0) }
                .compactMap { state.waiters.removeValue(forKey: $0) }
        }
        for waiter in woken { waiter.signal() }
    }
}

extension LiveStatus.State {
    /// The status line; nil if it is unchanged.
    ///
    /// - Parameter store: The only store that has changed; nil if there may be several.
    fileprivate mutating func takeLine(_ store: String?) -> String? {
        if let store { parts.update(store, status) } else { parts = StatusLine(status) }
        let line = parts.text(of: status)
        guard line != self.line else { return nil }
        self.line = line
        return line
    }

    fileprivate mutating func takeWaiters(_ changed: RuntimeStatus.Effects.Changed, _ store: String)
        -> [OneShotEvent]
    {
        if waiters.isEmpty { return [] }
        switch changed {
        case .nothing: return []
        case .consumer(let name):
            return waiters.removeValue(forKey: .init(store: store, consumer: name)).map { [$0] } ?? []
        case .several(let consumers):
            return waiters.keys.filter { $0.store == store && consumers.contains($0.consumer) }
                .compactMap { waiters.removeValue(forKey: $0) }
        }
    }
}
