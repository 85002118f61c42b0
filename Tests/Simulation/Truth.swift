import PersistentHistory

/// What is so, whatever the daemon says of it.
final class Truth: Sendable {
    let scenario: Scenario
    let record: Record
    let deliveries = Deliveries()
    private let state = Locked(State())

    private struct State {
        var commits: [String: [Commit]] = [:]
        /// Stores that another connection has locked, and whether it was so before this life began.
        var locked: [String: Bool] = [:]
        var began: Int64 = 0
        var altered: [String: Int64] = [:]
        var migrating: Set<String> = []
        /// How many commits a store had when somebody removed its replica's `-wal` or `-shm` in this life.
        var cut: [String: Int] = [:]
        var restored: [String: Int64] = [:]
        var suspended: Int64?
        /// Stores that are not in their folder, and when each last left it or came.
        var away: Set<String> = []
        var moved: [String: Int64] = [:]
        /// The newest commit that an operator may have cleaned by force.
        var forced: [String: Int64] = [:]
    }

    struct Commit: Sendable {
        let author: String
        let change: Change
        let number: Int64
        let time: Int64

        func concerns(_ hook: HookSetup, of consumer: String) -> Bool {
            author != consumer
                && change.groups.contains { group in
                    (hook.entity ?? group.entity) == group.entity && hook.filter.passes(group.operation)
                }
        }
    }

    init(_ scenario: Scenario, _ record: Record) {
        self.scenario = scenario
        self.record = record
    }

    // MARK: What happens

    func add(_ commit: Commit, to store: String) {
        state.withLock { $0.commits[store, default: []].append(commit) }
    }

    func isBeingRestored(_ store: String, at time: Int64) { state.withLock { $0.restored[store] = time } }

    /// What came after the backup was never there, and what hooks have had of it is nothing that they need.
    func isRestored(_ store: String, to newest: Int64, at time: Int64) {
        state.withLock { state in
            state.commits[store]?.removeAll { $0.number > newest }
            state.restored[store] = time
            if let forced = state.forced[store], forced != .max { state.forced[store] = min(forced, newest) }
        }
        deliveries.forget(store, after: newest)
    }

    /// A new history counts from the beginning.
    func beginsAgain(_ store: String, at time: Int64) { isRestored(store, to: 0, at: time) }

    /// Who has not had what is cleaned then is passed by, and told of that later.
    func beginsCleaningByForce(_ store: String) { state.withLock { $0.forced[store] = .max } }
    func endsCleaningByForce(_ store: String) {
        state.withLock { $0.forced[store] = $0.commits[store]?.last?.number ?? 0 }
    }

    func isSuspended(until time: Int64) { state.withLock { $0.suspended = time } }

    func moves(_ store: String, away isAway: Bool, at time: Int64) {
        state.withLock { state in
            if isAway { state.away.insert(store) } else { state.away.remove(store) }
            state.moved[store] = time
        }
    }

    func isAltered(_ store: String, at time: Int64) { state.withLock { $0.altered[store] = time } }

    /// A migration goes on until it is ended.
    func isAltered(_ store: String, by change: SchemaChange, _ isDone: Bool, at time: Int64) {
        guard isDone else { return }
        state.withLock { state in
            if change == .beginsMigration { state.migrating.insert(store) }
            if change == .endsMigration { state.migrating.remove(store) }
            state.altered[store] = time
        }
    }

    func isLocked(_ store: String) { state.withLock { $0.locked[store] = false } }
    func isReleased(_ store: String) { state.withLock { _ = $0.locked.removeValue(forKey: store) } }
    func lifeBegins(at time: Int64) {
        state.withLock { state in
            state.locked = state.locked.mapValues { _ in true }
            state.began = time
        }
    }

    /// A new life knows what was before.
    func remember(_ lines: [Record.Line]) {
        for line in lines {
            switch line.kind {
            case "commit":
                guard let change = Change(rawValue: line[2]) else { continue }
                add(
                    Commit(author: line[1], change: change, number: line.number(3), time: line.time),
                    to: line[0])
            case "call" where line[5] == "ok": deliveries.add(line[0], line[1], line[2], line.number(4))
            case "fed": deliveries.add(line[0], line[1], "feed", line.number(2))
            case "told" where line[4] == "ok":
                deliveries.skip(line[0], line[1], line[2], through: line.number(5))
            case "fed loss": deliveries.skip(line[0], line[1], "feed", through: line.number(2))
            case "restored": isRestored(line[0], to: line.number(1), at: line.time)
            case "ordered" where line[1] == "loseHistory" && line[2] == "ok":
                beginsAgain(line[0], at: line.time)
            case "rarity" where line[1] == Rarity.cleansByForce.rawValue: beginsCleaningByForce(line[0])
            case "cleaned by force": endsCleaningByForce(line[0])
            case "machine" where line[0] == Machine.isSuspended.rawValue: isSuspended(until: line.time)
            case "schema":
                if let change = SchemaChange(rawValue: line[1]) {
                    isAltered(line[0], by: change, line[2] == "ok", at: line.time)
                }
            case "held" where line[1] == "exclusively": isLocked(line[0])
            case "released": isReleased(line[0])
            case "left": moves(line[0], away: true, at: line.time)
            case "came": moves(line[0], away: false, at: line.time)
            default: break
            }
        }
    }

    // MARK: What is so

    func commits(_ store: String) -> [Commit] { state.withLock { $0.commits[store] ?? [] } }

    /// Whether no operator can have taken it out of the history.
    func mustBeDelivered(_ commit: Commit, of store: String) -> Bool {
        state.withLock { commit.number > $0.forced[store] ?? 0 }
    }

    /// Whether no daemon can have opened it in this life.
    func wasNeverOpen(_ store: String) -> Bool { state.withLock { $0.locked[store] ?? false } }

    /// Whether that has been so for long enough to be a trouble: a store is opened for a moment in each life.
    func isStuck(_ store: String, at time: Int64) -> Bool {
        wasNeverOpen(store) && time > state.withLock { $0.began } + 2_500_000_000
    }

    /// Whether a column has just come, or a migration is under way: that is no transaction, and no lag, while the daemon finds out.
    func wasJustAltered(_ store: String, at time: Int64) -> Bool {
        state.withLock { state in
            state.migrating.contains(store)
                || state.altered[store].map { time < $0 + 1_000_000_000 } ?? false
        }
    }

    /// Whether the daemon may not have found out yet that it is another state of the store.
    func wasJustRestored(_ store: String, at time: Int64) -> Bool {
        state.withLock { $0.restored[store].map { time < $0 + 5_000_000_000 } ?? false }
    }

    func replicaIsCut(_ store: String) {
        state.withLock { $0.cut[store] = $0.commits[store]?.count ?? 0 }
    }

    /// Whether the replica has lost files and was not written since: only then the daemon notices.
    func hasCutReplica(_ store: String) -> Bool {
        state.withLock { state in state.cut[store].map { state.commits[store]?.count ?? 0 <= $0 } ?? false }
    }

    func isAway(_ store: String) -> Bool { state.withLock { $0.away.contains(store) } }

    /// Whether it is away, or the daemon may not have found out yet that it has come back.
    func wasJustMoved(_ store: String, at time: Int64) -> Bool {
        state.withLock { state in
            state.away.contains(store) || state.moved[store].map { time < $0 + 5_000_000_000 } ?? false
        }
    }

    /// Whether what was committed before a suspension may not have been delivered yet.
    func wasJustSuspended(at time: Int64) -> Bool {
        state.withLock { $0.suspended.map { time < $0 + Settings.healthyLag + 2_000_000_000 } ?? false }
    }

    /// What hooks and feeds have not had of these commits.
    func lacking(_ commits: [Commit], _ store: StoreSetup, _ consumer: ConsumerSetup, feeds: Bool) -> [String] {
        let feed = feeds && consumer.hasFeed ? [HookSetup(name: "feed", entity: nil)] : []
        return (consumer.hooks + feed).flatMap { hook in
            let had = deliveries.have(store.name, consumer.author, hook.name)
            return commits.filter { $0.concerns(hook, of: consumer.author) && !had.contains($0.number) }
                .map { "\(store.name) \(consumer.author) \(hook.name) \($0.number)" }
        }
    }

    /// Whatever hooks and feeds have not had.
    var missing: [String] {
        scenario.stores.flatMap { store in
            store.consumers.flatMap { lacking(commits(store.name), store, $0, feeds: true) }
        }
    }
}
