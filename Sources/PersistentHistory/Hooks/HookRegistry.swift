public import FoundationEssentials

/// The hooks of one consumer, in the order in which they are called.
public struct HookSet: Sendable {
    public let observers: [Hook]
    public let mergers: [Hook]
    /// Of all hooks, when these were asked for.
    let version: Int

    init(observers: [Hook], mergers: [Hook], version: Int) {
        self.observers = observers
        self.mergers = mergers
        self.version = version
    }
}

/// All registered hooks, in the order of their registration.
public actor HookRegistry {
    private var observers: [Hook] = []
    private var mergers: [Hook] = []
    /// Another one with each change.
    private(set) var version = 0

    public init(_ hooks: [Hook] = []) {
        observers = hooks.filter { $0.kind == .observer }
        for hook in hooks where hook.kind == .merge { Self.insert(hook, into: &mergers) }
    }

    /// Puts other hooks in the place of all there are, at once.
    public func replaceAll(_ hooks: [Hook]) {
        version += 1
        observers = hooks.filter { $0.kind == .observer }
        mergers = []
        for hook in hooks where hook.kind == .merge { Self.insert(hook, into: &mergers) }
    }

    /// The hook of that full name, or nil.
    public func hook(named name: String) -> Hook? { (observers + mergers).first { $0.name == name } }

    /// Adds a hook at the end, or a merge hook in front of the one it names.
    public func register(_ hook: Hook) {
        version += 1
        switch hook.kind {
        case .observer: observers.append(hook)
        case .merge: Self.insert(hook, into: &mergers)
        }
    }

    /// In front of the hook named by `before`, or at the end.
    private static func insert(_ hook: Hook, into pipeline: inout [Hook]) {
        let place = hook.before.flatMap { before in pipeline.firstIndex { $0.name == before } }
        pipeline.insert(hook, at: place ?? pipeline.endIndex)
    }

    /// Takes a hook away; false where there is none with that id.
    public func remove(id: UUID) -> Bool {
        version += 1
        let count = observers.count + mergers.count
        observers.removeAll { $0.id == id }
        mergers.removeAll { $0.id == id }
        return observers.count + mergers.count < count
    }

    /// The hooks that serve a consumer, now.
    public func hooks(store: String, consumer: String) -> HookSet {
        HookSet(
            observers: observers.filter { $0.serves(store: store, consumer: consumer) },
            mergers: mergers.filter { $0.serves(store: store, consumer: consumer) }, version: version)
    }
}
