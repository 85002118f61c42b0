package import FoundationEssentials

/// The hooks of one consumer, in the order in which they are called.
package struct HookSet: Sendable {
    package let observers: [Hook]
    package let mergers: [Hook]
    /// The observers that are called for each transaction.
    let transactionObservers: [Hook]
    /// What is called once for a batch, in order: observers that are, then merge hooks.
    let stages: [Hook]
    /// Of all hooks, when these were asked for.
    let version: Int
    /// Of which objects they want the rows.
    let wantedValues: WantedValues?
    /// What concerns them, where that is not everything.
    let interests: HookInterests?
    /// To each observer of transactions; nil where whose they are is not known.
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

/// What concerns the observers of a consumer.
struct HookInterests: Sendable, Hashable {
    /// Entities of which every change may.
    private(set) var entities: Set<BinaryText> = []
    /// Of others, what these let through.
    private(set) var filters: Set<ChangeFilter> = []

    init(entities: Set<BinaryText> = [], filters: Set<ChangeFilter> = []) {
        self.entities = entities
        self.filters = filters
    }

    /// Nil where everything may.
    init?(_ observers: [Hook]) {
        for hook in observers {
            guard let entity = hook.entity else { return nil }
            if hook.filter.looksAtChanges {
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
        /// Another one with each change.
        var version = 0

        /// At the end; a merge hook in front of the one that `before` names, if there is one.
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

    /// The hook of that full name, or nil.
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

    /// Takes a hook away; false if there is none with that id.
    package func remove(id: UUID) -> Bool {
        hooks.withLock { all in
            all.version += 1
            let count = all.observers.count + all.mergers.count
            all.observers.removeAll { $0.id == id }
            all.mergers.removeAll { $0.id == id }
            return all.observers.count + all.mergers.count < count
        }
    }

    /// The hooks that serve a consumer, now.
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
