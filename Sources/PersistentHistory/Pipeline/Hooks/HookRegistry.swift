package import FoundationEssentials

/// The hooks of one consumer, in the order in which they are called.
package struct HookSet: Sendable {
    package let observers: [Hook]
    package let mergers: [Hook]
    /// The observers that are called for each transaction.
    let transactionObservers: [Hook]
    /// The hooks that are called once for a batch, in order: observers, then merge hooks.
    let stages: [Hook]
    /// The version of all hooks at the time of the query.
    let version: Int
    /// The objects whose rows they want.
    let wantedValues: WantedValues?
    /// What concerns them; nil if everything does.
    let interests: HookInterests?
    /// The routes to the observers of transactions; nil if the store and consumer are unknown.
    var routes: [HookRoute]?

    init(observers: [Hook], mergers: [Hook], version: Int) {
        self.observers = observers
        self.mergers = mergers
        transactionObservers = observers.filter { $0.calls == .transaction }
        stages = observers.filter { $0.calls == .batch } + mergers
        self.version = version
        wantedValues = WantedValues.union((observers + mergers).compactMap(\.wantedRows))
        interests = mergers.isEmpty ? HookInterests(observers) : nil
    }
}

/// What concerns a consumer's observers.
struct HookInterests: Sendable, Hashable {
    /// Entities of which every change is of interest.
    private(set) var entities: Set<BinaryText> = []
    /// Filters for changes of other entities.
    private(set) var filters: Set<ChangeFilter> = []

    init(entities: Set<BinaryText> = [], filters: Set<ChangeFilter> = []) {
        self.entities = entities
        self.filters = filters
    }

    /// Nil if every change is of interest.
    init?(_ observers: [Hook]) {
        for hook in observers {
            guard let entity = hook.entity else { return nil }
            if hook.looksAtChanges {
                filters.insert(hook.filter)
            } else {
                entities.insert(BinaryText(entity))
            }
        }
    }
}

/// All registered hooks, in the order of their registration.
package final class HookRegistry: Sendable {
    private struct Hooks {
        var observers: [Hook] = []
        var mergers: [Hook] = []
        /// Changes with each change of the hooks.
        var version = 0

        /// Adds a hook at the end, or a merge hook before the one that `before` names, if it exists.
        mutating func add(_ hook: Hook) {
            switch hook.kind {
            case .observer: observers.append(hook)
            case .merge:
                let index = hook.before.flatMap { before in
                    mergers.firstIndex { $0.name.hasSameBytes(as: before) }
                }
                mergers.insert(hook, at: index ?? mergers.endIndex)
            }
        }
    }

    private let hooks = Locked(Hooks())

    package init(_ hooks: [Hook] = []) {
        self.hooks.withLock { all in for hook in hooks { all.add(hook) } }
    }

    var version: Int { hooks.withLock { $0.version } }

    /// Replaces all hooks at once.
    package func replaceAll(_ hooks: [Hook]) {
        self.hooks.withLock { all in
            all = Hooks(version: all.version + 1)
            for hook in hooks { all.add(hook) }
        }
    }

    /// The hook with this full name, or nil.
    package func hook(named name: String) -> Hook? {
        hooks.withLock { ($0.observers + $0.mergers).first { $0.name.hasSameBytes(as: name) } }
    }

    /// Adds a hook at the end, or a merge hook in front of the one it names.
    package func register(_ hook: Hook) {
        hooks.withLock { all in
            all.version += 1
            all.add(hook)
        }
    }

    /// Removes a hook. Returns false if there is none with that id.
    package func remove(id: UUID) -> Bool {
        hooks.withLock { all in
            all.version += 1
            let count = all.observers.count + all.mergers.count
            all.observers.removeAll { $0.id == id }
            all.mergers.removeAll { $0.id == id }
            return all.observers.count + all.mergers.count < count
        }
    }

    /// The hooks that serve a consumer now.
    package func hooks(store: String, consumer: String) -> HookSet {
        hooks.withLock { all in
            var hooks = HookSet(
                observers: all.observers.filter { $0.serves(store: store, consumer: consumer) },
                mergers: all.mergers.filter { $0.serves(store: store, consumer: consumer) },
                version: all.version)
            hooks.routes = hooks.transactionObservers.map {
                HookRoute(store: store, consumer: consumer, hook: $0)
            }
            return hooks
        }
    }
}
