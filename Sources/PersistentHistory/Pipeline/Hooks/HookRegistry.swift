package import FoundationEssentials

/// The hooks of one consumer, in the order in which they are called.
package struct HookSet: Sendable {
    package let observers: [Hook]
    package let mergers: [Hook]
    /// Of all hooks, when these were asked for.
    let version: Int
    /// Of which objects they want the rows.
    let wantedValues: WantedValues?
    /// The entities whose changes alone concern them; nil where all may.
    let entities: Set<BinaryText>?
    /// To each observer; nil where whose they are is not known.
    var routes: [HookRoute]?

    init(observers: [Hook], mergers: [Hook], version: Int) {
        self.observers = observers
        self.mergers = mergers
        self.version = version
        wantedValues = WantedValues.union((observers + mergers).compactMap(\.wantedValues))
        let named = observers.compactMap(\.entity)
        entities = mergers.isEmpty && named.count == observers.count ? Set(names: named) : nil
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
            hooks.routes = hooks.observers.map { HookRoute(store: store, consumer: consumer, hook: $0) }
            return hooks
        }
    }
}
