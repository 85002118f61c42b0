import PersistentHistory

/// What the daemon is about, in one line of the present tense, for `systemctl status`.
struct DaemonStatus: Sendable, Equatable {
    let stores: Int
    let hooks: Int
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
        return line
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
