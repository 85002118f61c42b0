import PersistentHistory

/// What the daemon is about, in one line of the present tense, for `systemctl status`.
struct DaemonStatus: Sendable, Equatable {
    var stores: Int
    var hooks: Int
    /// Stores whose delivery an operator holds.
    var paused: Set<String> = []
    /// What was wrong with the configuration that was read last, while an older one is in force.
    var refusal: String?
    private(set) var lost: Set<String> = []
    private(set) var held: Set<Held> = []

    struct Held: Hashable, Sendable {
        let store: String
        let consumer: String
        let hook: String
    }

    init(stores: Int, hooks: Int) {
        self.stores = stores
        self.hooks = hooks
    }

    var line: String {
        var line = "Watching \(stores, "store"), \(hooks, "hook")"
        if !lost.isEmpty { line += "; waiting for \(lost.count, "store")" }
        if !held.isEmpty { line += "; \(held.count, "hook") held" }
        if !paused.isEmpty { line += "; \(paused.count, "store") paused" }
        if let refusal { line += "; reload refused: \(refusal)" }
        return line
    }

    /// Takes in what is in force now.
    mutating func keepOnly(stores: Set<String>, hooks: Set<String>) {
        self.stores = stores.count
        self.hooks = hooks.count
        paused.formIntersection(stores)
        lost.formIntersection(stores)
        held = held.filter { stores.contains($0.store) && hooks.contains($0.hook) }
    }

    /// Takes in what happened; whether the line changed.
    mutating func note(_ event: PipelineEvent, store: String) -> Bool {
        let before = self
        switch event {
        case .storeLost: lost.insert(store)
        case .storeOpened:
            lost.remove(store)
            held = held.filter { $0.store != store }
        case .hookHeld(let consumer, let hook, _, _, _, _):
            held.insert(Held(store: store, consumer: consumer, hook: hook))
        case .hookRecovered(let consumer, let hook, _, _), .deadLetterKept(let consumer, let hook, _, _, _):
            held.remove(Held(store: store, consumer: consumer, hook: hook))
        default: break
        }
        return self != before
    }
}

extension DefaultStringInterpolation {
    /// `1 store`, `2 stores`.
    mutating func appendInterpolation(_ count: Int, _ noun: String) {
        appendLiteral(count == 1 ? "1 \(noun)" : "\(count) \(noun)s")
    }
}
