import HistoryControl
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
    /// Stores whose state cannot be written.
    private(set) var stateFailing: Set<String> = []
    private(set) var held: Set<Held> = []
    private(set) var failingContexts: Set<Context> = []
    private var lastOverflow: ContinuousClock.Instant?
    /// Coprocesses whose processes end again and again.
    private(set) var failingPlugins: Set<String> = []
    /// Consumers and feeds that have stood still for long and hold back the cleanup, by store.
    private var holdingBack: [String: Set<String>] = [:]

    /// The failed attempt from which on a context that fails is worth a word: a lock heals before that.
    static let lastingFailure = 3

    struct Context: Hashable, Sendable {
        let store: String
        let consumer: String
        let context: String
    }

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
        if !stateFailing.isEmpty { line += "; state of \(stateFailing.count, "store") not writable" }
        if !failingPlugins.isEmpty { line += "; \(failingPlugins.count, "plugin") failing" }
        if !held.isEmpty { line += "; \(held.count, "hook") held" }
        if !failingContexts.isEmpty { line += "; \(failingContexts.count, "context") failing" }
        let names = Set(holdingBack.values.joined()).sorted()
        if !names.isEmpty {
            let rest = names.count > 3 ? " and \(names.count - 3) more" : ""
            line += "; history kept for \(names.prefix(3).map { "\"\($0)\"" }.joined(separator: ", "))\(rest)"
        }
        if !paused.isEmpty { line += "; \(paused.count, "store") paused" }
        if let refusal { line += "; reload refused: \(refusal)" }
        return line
    }

    /// What keeps a store from being served.
    struct Troubles: OptionSet {
        let rawValue: Int
        /// The store is not open.
        static let lost = Troubles(rawValue: 1)
        /// Its state cannot be written.
        static let state = Troubles(rawValue: 2)
    }

    func troubles(of store: String) -> Troubles {
        var troubles: Troubles = []
        if lost.contains(store) { troubles.insert(.lost) }
        if stateFailing.contains(store) { troubles.insert(.state) }
        return troubles
    }

    /// Takes in what is in force now.
    mutating func keepOnly(stores: Set<String>, hooks: Set<String>) {
        self.stores = stores.count
        self.hooks = hooks.count
        paused.formIntersection(stores)
        lost.formIntersection(stores)
        stateFailing.formIntersection(stores)
        held = held.filter { stores.contains($0.store) && hooks.contains($0.hook) }
        failingContexts = failingContexts.filter { stores.contains($0.store) }
        holdingBack = holdingBack.filter { stores.contains($0.key) }
    }

    /// Whether an overflow of the kernel's queue is another one than that which was told last: each store
    /// hears of it.
    mutating func noteOverflow(at now: ContinuousClock.Instant) -> Bool {
        defer { lastOverflow = now }
        return lastOverflow.map { now - $0 > .seconds(10) } ?? true
    }

    /// Forgets plugins that are gone, or were started anew.
    mutating func keepOnly(plugins: Set<String>) { failingPlugins.formIntersection(plugins) }

    private mutating func release(_ name: String, _ store: String) {
        if holdingBack.isEmpty { return }
        holdingBack[store]?.remove(name)
        if holdingBack[store]?.isEmpty ?? false { holdingBack[store] = nil }
    }

    /// Takes in how a plugin's process is.
    mutating func note(plugin: String, isFailing: Bool) {
        if isFailing { failingPlugins.insert(plugin) } else { failingPlugins.remove(plugin) }
    }

    /// Takes in what happened; whether the line changed.
    mutating func note(_ event: PipelineEvent, store: String) -> Bool {
        let before = self
        switch event {
        case .storeLost: lost.insert(store)
        case .storeOpened:
            lost.remove(store)
            stateFailing.remove(store)
            held = held.filter { $0.store != store }
            failingContexts = failingContexts.filter { $0.store != store }
            holdingBack[store] = nil
        case .hookHeld(let consumer, let hook, _, _, _, _):
            held.insert(Held(store: store, consumer: consumer, hook: hook))
        case .hookRecovered(let consumer, let hook, _, _), .deadLetterKept(let consumer, let hook, _, _, _):
            held.remove(Held(store: store, consumer: consumer, hook: hook))
        case .stateFailed: stateFailing.insert(store)
        case .stateRecovered: stateFailing.remove(store)
        case .contextFailed(let consumer, let context, _, Self.lastingFailure...):
            failingContexts.insert(Context(store: store, consumer: consumer, context: context))
        case .contextRecovered(let consumer, let context, _):
            failingContexts.remove(Context(store: store, consumer: consumer, context: context))
        case .cleaningHeldBack(let names): holdingBack[store] = names.isEmpty ? nil : Set(names)
        // Who moves stands still no longer.
        case .cursorMoved(let consumer, _): release(consumer, store)
        case .cursorsMoved(let consumers, _):
            for consumer in holdingBack[store] ?? [] where consumers.contains(consumer) {
                release(consumer, store)
            }
        case .feedMoved(let consumer, let context, _): release("\(consumer)/\(context)", store)
        default: break
        }
        return self != before
    }
}
