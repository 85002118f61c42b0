import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// What the status line shows for one store, or for several together.
struct StatusLineParts: Sendable, Equatable {
    var waiting = 0
    var stuck = 0
    var stateFailing = 0
    var trackingFailing = 0
    var held = 0
    var contextsFailing = 0
    var deadLetters = 0
    var lagging = 0
    var paused = 0
    var pausedConsumers = 0
    var untracked: [BinaryText] = []
    var holdingBack: Set<String> = []

    private static let numbers: [any WritableKeyPath<StatusLineParts, Int> & Sendable] = [
        \.waiting, \.stuck, \.stateFailing, \.trackingFailing, \.held, \.contextsFailing, \.deadLetters,
        \.lagging,
        \.paused, \.pausedConsumers,
    ]

    var hasNames: Bool { !untracked.isEmpty || !holdingBack.isEmpty }

    /// Adds or, with a negative factor, subtracts the numbers of another value.
    mutating func count(_ other: StatusLineParts, _ factor: Int = 1) {
        for number in Self.numbers { self[keyPath: number] += factor * other[keyPath: number] }
    }

    mutating func name(_ other: StatusLineParts) {
        untracked += other.untracked
        holdingBack.formUnion(other.holdingBack)
    }
}

extension RuntimeStatus {
    /// One line in the present tense, for `systemctl status`.
    var line: String { StatusLine(self).text(of: self) }

    fileprivate func parts(of name: String) -> StatusLineParts {
        guard let store = stores[name] else { return StatusLineParts() }
        let limit = healthyLags[name] ?? StoreConfiguration.defaultHealthyLag
        let consumers = store.consumers.values
        return StatusLineParts(
            waiting: store.problem == nil ? 0 : 1, stuck: store.problem == nil && store.isStuck ? 1 : 0,
            stateFailing: store.isStateFailing ? 1 : 0,
            trackingFailing: store.trackingProblem == nil ? 0 : 1,
            held: consumers.reduce(0) { $0 + $1.heldHooks.count },
            contextsFailing: consumers.reduce(0) {
                $0 + $1.contexts.values.count { $0.attempt >= PipelineEvent.lastingFailure }
            },
            deadLetters: store.deadLetters.values.reduce(0, +),
            lagging: consumers.count { !$0.isPaused && $0.isLagging(beyond: limit) },
            paused: store.isPaused ? 1 : 0, pausedConsumers: consumers.count(where: \.isPaused),
            untracked: Array(store.untracked.keys), holdingBack: store.holdingBack)
    }
}

/// The status line, updated store by store: an update of one store costs the same for any number of stores.
struct StatusLine: Sendable {
    private var total = StatusLineParts()
    private var stores: [String: StatusLineParts] = [:]
    /// The stores that the line names.
    private var naming: Set<String> = []

    init(_ status: RuntimeStatus) {
        for name in status.stores.keys { update(name, status) }
    }

    mutating func update(_ name: String, _ status: RuntimeStatus) {
        guard status.stores[name] != nil else {
            if let old = stores.removeValue(forKey: name) { total.count(old, -1) }
            naming.remove(name)
            return
        }
        let parts = status.parts(of: name)
        if let old = stores.updateValue(parts, forKey: name) { total.count(old, -1) }
        total.count(parts)
        if parts.hasNames { naming.insert(name) } else { naming.remove(name) }
    }

    func text(of status: RuntimeStatus) -> String {
        var all = total
        for name in naming { if let parts = stores[name] { all.name(parts) } }
        let failing = status.plugins.values.count(where: \.isFailing)
        let parts: [(Int, String)] = [
            (all.waiting, "waiting for \(all.waiting, "store")"),
            (all.stuck, "\(all.stuck, "store") waiting for a lock or a disk"),
            (all.stateFailing, "state of \(all.stateFailing, "store") not writable"),
            (all.trackingFailing, "\(all.trackingFailing, "store") not tracked as configured"),
            (failing, "\(failing, "plugin") failing"),
            (all.untracked.count, "not tracked as configured: \(all.untracked.sorted().map(\.text).named)"),
            (all.held, "\(all.held, "hook") held"),
            (all.contextsFailing, "\(all.contextsFailing, "context") failing"),
            (all.deadLetters, "\(all.deadLetters, "dead letter") waiting"),
            (all.lagging, "\(all.lagging, "consumer") lagging"),
            (all.holdingBack.count, "history kept for \(all.holdingBack.sorted().named)"),
            (all.paused, "\(all.paused, "store") paused"),
            (all.pausedConsumers, "\(all.pausedConsumers, "consumer") paused"),
            (status.refusal == nil ? 0 : 1, "reload refused: \(status.refusal ?? "")"),
        ]
        return
            (["Watching \(status.count.stores, "store"), \(status.count.hooks, "hook")"]
            + parts.filter { $0.0 > 0 }.map(\.1)).joined(separator: "; ")
    }
}

extension [String] {
    /// The first three, in quotes.
    fileprivate var named: String {
        prefix(3).quoted + (count > 3 ? " and \(count - 3) more" : "")
    }
}
