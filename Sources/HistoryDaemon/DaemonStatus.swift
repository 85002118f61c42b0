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
    private(set) var held: Set<Held> = []
    /// Consumers and feeds that have stood still for long and hold back the cleanup, by store.
    private var holdingBack: [String: Set<String>] = [:]

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
        let names = Set(holdingBack.values.joined()).sorted()
        if !names.isEmpty {
            let rest = names.count > 3 ? " and \(names.count - 3) more" : ""
            line += "; history kept for \(names.prefix(3).map { "\"\($0)\"" }.joined(separator: ", "))\(rest)"
        }
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
        holdingBack = holdingBack.filter { stores.contains($0.key) }
    }

    private mutating func release(_ name: String, _ store: String) {
        if holdingBack.isEmpty { return }
        holdingBack[store]?.remove(name)
        if holdingBack[store]?.isEmpty ?? false { holdingBack[store] = nil }
    }

    /// Takes in what happened; whether the line changed.
    mutating func note(_ event: PipelineEvent, store: String) -> Bool {
        let before = self
        switch event {
        case .storeLost, .watchFailed: lost.insert(store)
        case .storeOpened:
            lost.remove(store)
            held = held.filter { $0.store != store }
            holdingBack[store] = nil
        case .hookHeld(let consumer, let hook, _, _, _, _):
            held.insert(Held(store: store, consumer: consumer, hook: hook))
        case .hookRecovered(let consumer, let hook, _, _), .deadLetterKept(let consumer, let hook, _, _, _):
            held.remove(Held(store: store, consumer: consumer, hook: hook))
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
