import TestSupport

/// What happens in a simulation, all of it from a seed: stores, who is served from them, and a script.
struct Scenario: Sendable {
    var seed: UInt64
    var kind: Kind
    var stores: [StoreSetup]
    var steps: [Step]
    /// How many steps come before the daemon starts for the first time, where they can.
    var stepsBefore: Int
    /// How often threads take turns: at so many of 256 points.
    var switches: Int32
}

/// A store and its consumers.
struct StoreSetup: Sendable {
    var name: String
    var usesWAL: Bool
    var consumers: [ConsumerSetup]
    /// After how many notifications history is cleaned; nil for never.
    var cleansAfter: Int?
    /// How many calls its plugin may get before it has answered the first.
    var window: Int
    /// Whether a call that fails too often becomes a dead letter.
    var skips: Bool
}

struct ConsumerSetup: Sendable {
    var author: String
    var hooks: [HookSetup]
    var hasReplica: Bool
    var hasFeed: Bool
    /// In milliseconds.
    var batchWindow = 0
}

struct HookSetup: Sendable {
    /// With its plugin's.
    var name: String
    var entity: String?
    var filter = Filter.all
    /// Whether it is called once for everything that was fetched.
    var isForBatches = false

    /// What of its entity it is called for.
    enum Filter: String, CaseIterable, Sendable {
        case all, inserts, updates, deletes
        /// Updates only if they changed the name, which none does, or the age, which all do.
        case named, aged

        func passes(_ operation: String) -> Bool {
            switch self {
            case .all, .aged: true
            case .inserts: operation == "insert"
            case .updates: operation == "update"
            case .deletes: operation == "delete"
            case .named: operation != "update"
            }
        }

        /// Members of a hook in a manifest.
        var members: String {
            switch self {
            case .all: ""
            case .inserts: ", \"operation\": \"insert\""
            case .updates: ", \"operation\": \"update\""
            case .deletes: ", \"operation\": \"delete\""
            case .named: ", \"properties\": [\"name\"]"
            case .aged: ", \"properties\": [\"age\"]"
            }
        }
    }
}

/// What a plugin does with its calls from now on.
enum Manners: String, CaseIterable, Sendable {
    case well, slow, refuses, fails, silent
    /// Answers what is no answer.
    case garbles
}

/// What a writer changes in one transaction.
enum Change: String, CaseIterable, Sendable {
    case insertPerson, insertItem, updatePerson, deletePerson, both, large

    /// The entities and operations.
    var groups: [(entity: String, operation: String)] {
        switch self {
        case .insertPerson, .large: [("person", "insert")]
        case .insertItem: [("item", "insert")]
        case .updatePerson: [("person", "update")]
        case .deletePerson: [("person", "delete")]
        case .both: [("person", "insert"), ("item", "insert"), ("person", "update")]
        }
    }
}

enum Trouble: String, CaseIterable, Sendable {
    case slow, full, broken, hangs
}

/// Which files of a store.
enum Part: String, CaseIterable, Sendable {
    case store, state, replica
}

/// Which files beside a database.
enum Sides: String, CaseIterable, Sendable {
    case wal, shm, both

    var suffixes: [String] { self == .both ? ["-wal", "-shm"] : ["-\(rawValue)"] }
}

/// What the operator asks for.
enum Question: String, CaseIterable, Sendable {
    case status, consumers, health, wait, run, pause, resume, clean, planCleaning, deadLetters, retry, follow
    case restartPlugin, others
    /// Of one consumer alone.
    case pauseOne, resumeOne, moveBack
}

/// How the configuration is changed before it is read again.
enum Reconfiguration: String, CaseIterable, Sendable {
    case plugin, store, both, none
    /// One that is refused.
    case broken
}

/// A step of the script, after some time.
struct Step: Sendable, CustomStringConvertible {
    enum Action: Sendable {
        case commit(store: Int, author: String, Change, times: Int)
        /// A writer that is killed at a write.
        case torn(store: Int, write: Int)
        /// Another connection takes a lock, and keeps it.
        case hold(store: Int, isExclusive: Bool)
        case release(store: Int)
        case plugin(store: Int, Manners)
        case disk(store: Int, Part, Trouble)
        case repair(store: Int, Part)
        case alter(store: Int)
        /// A backup is made of a store, in place of the one before.
        case backUp(store: Int)
        /// The store is what its backup is: renamed over it, or read back into it.
        case restore(store: Int, inPlace: Bool)
        /// Somebody removes the `-wal`, the `-shm` or both.
        case remove(store: Int, Part, Sides)
        /// A program reads the state, or the replica, and does not end.
        case read(store: Int, Part)
        case endRead(store: Int, Part)
        /// The daemon is killed at a point soon.
        case kill(points: Int)
        /// The same, and what was not synced is lost.
        case cutPower(points: Int)
        /// The daemon is stopped, and started again.
        case restart
        /// The daemon starts only after the next steps.
        case stayDown(steps: Int)
        case ask(Question, store: Int)
        /// The configuration is changed, and the daemon is to read it: by request, or by signal.
        case reload(Reconfiguration, store: Int, bySignal: Bool)
    }

    var number: Int
    /// In nanoseconds.
    var pause: Int64
    var action: Action

    var description: String { "\(action)".replacing("historyd_simulation.", with: "") }

    /// Whether it is something that can be while there is no daemon.
    var isOfOthers: Bool {
        switch action {
        case .kill, .cutPower, .restart, .stayDown, .plugin, .disk, .remove, .ask, .reload: false
        default: true
        }
    }
}

extension Step.Action {
    /// The store that suffers from something from now on.
    fileprivate var troubled: Int? {
        switch self {
        case .plugin(let store, let manners) where manners != .well: store
        case .disk(let store, _, _), .remove(let store, _, _), .hold(let store, _), .read(let store, _),
            .alter(let store), .restore(let store, _):
            store
        case .reload(let change, let store, _) where change != .none: store
        default: nil
        }
    }
}

/// What may happen in a scenario.
enum Kind: String, CaseIterable, Sendable {
    /// Anything: nothing may be lost, repeated or misreported.
    case faults
    /// One store suffers: the others must not notice.
    case isolation
    /// The power fails: what was cleaned must not be needed.
    case power
    /// Files are removed under the daemon: it must notice that.
    case files
    /// Stores are restored from older backups, and written to right after.
    case restores
}

/// What the first store suffers from.
private enum Theme {
    case lock, plugin, reader
    case disk(Part)

    static let all: [Theme] = [.lock, .lock, .plugin, .reader, .disk(.store), .disk(.state), .disk(.replica)]
}

extension Scenario {
    init(seed: UInt64, kind: Kind) {
        var dice = Dice(seed: seed)
        self.seed = seed
        self.kind = kind
        switches = dice.element([0, 1, 4, 16, 48])
        let count = kind == .isolation ? dice.number(2...3) : kind == .power ? 1 : dice.number(1...3)
        stores = (0..<count).map { StoreSetup(number: $0, kind, &dice) }
        steps = []
        let theme = dice.element(Theme.all)
        stepsBefore = dice.isTrue(1, of: 3) ? dice.number(1...3) : 0
        let length = dice.number(8...40)
        if kind == .isolation, case .lock = theme, dice.isTrue(1, of: 2) {
            stepsBefore = max(1, stepsBefore)
            steps = [Step(number: 0, pause: 0, action: .hold(store: 0, isExclusive: true))]
        }
        while steps.count < length {
            let action = dice.action(kind, theme, stores)
            add(action, after: dice.pause())
            // What nothing happens to shows nothing.
            guard let store = action.troubled else { continue }
            for _ in 0..<dice.number(0...3) { add(dice.commit(store), after: dice.shortPause()) }
        }
    }

    private mutating func add(_ action: Step.Action, after pause: Int64) {
        steps.append(Step(number: steps.count, pause: pause, action: action))
    }

    /// For a person who looks for what went wrong.
    var text: String {
        (stores.map { "\($0)" } + steps.map { "\($0.number) after \($0.pause / 1000) µs: \($0)" })
            .joined(separator: "\n")
    }

    /// Without some of the steps.
    func leavingOut(_ numbers: Set<Int>) -> Scenario {
        var scenario = self
        scenario.steps.removeAll { numbers.contains($0.number) }
        return scenario
    }
}

extension StoreSetup {
    fileprivate init(number: Int, _ kind: Kind, _ dice: inout Dice) {
        name = "s\(number)"
        let plugin = "p\(number)"
        usesWAL = dice.isTrue(3, of: 4)
        cleansAfter = kind == .power || dice.isTrue(1, of: 2) ? dice.number(1...3) : nil
        window = dice.isTrue(2, of: 3) ? 1 : dice.element([2, 64])
        skips = dice.isTrue(1, of: 4)
        consumers = (0..<dice.number(1...2)).map { number in
            // What a consumer writes itself is not merged into its replica, so one that has a replica does not write.
            let hasReplica = dice.isTrue(1, of: 3)
            let author = (hasReplica ? "Copy" : "App") + "\(number)"
            return ConsumerSetup(
                author: author,
                hooks: (0..<dice.number(number == 0 ? 1...2 : 0...2)).map { hook in
                    HookSetup(name: "\(plugin)/\(author)-\(hook)", &dice)
                }, hasReplica: hasReplica, hasFeed: dice.isTrue(1, of: 3),
                // In isolation, what is late is found by time.
                batchWindow: kind != .isolation && dice.isTrue(1, of: 4) ? dice.element([20, 200, 800]) : 0)
        }
    }
}

extension HookSetup {
    fileprivate init(name: String, _ dice: inout Dice) {
        self.name = name
        entity = dice.element([nil, "person", "item"])
        if dice.isTrue(1, of: 3) {
            // Properties are those of one entity.
            filter = dice.element(entity == "person" ? Filter.allCases : [.inserts, .updates, .deletes])
        }
        isForBatches = dice.isTrue(1, of: 4)
    }
}

/// Choices from a seed.
struct Dice {
    private var random: SplitMix

    init(seed: UInt64) { random = SplitMix(state: seed) }

    mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
    mutating func isTrue(_ times: Int, of all: Int) -> Bool { number(1...all) <= times }
    mutating func element<T>(_ list: [T]) -> T { list[number(0...list.count - 1)] }

    /// From microseconds to seconds, all magnitudes alike.
    fileprivate mutating func pause() -> Int64 {
        let magnitude: Int64 = element([
            1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 500_000_000,
        ])
        return magnitude * Int64(number(1...9))
    }

    fileprivate mutating func shortPause() -> Int64 {
        element([10_000, 1_000_000, 30_000_000]) * Int64(number(1...9))
    }

    fileprivate mutating func commit(_ store: Int) -> Step.Action {
        let change =
            isTrue(1, of: 20)
            ? Change.large : element([.insertPerson, .insertItem, .updatePerson, .deletePerson, .both])
        return .commit(
            store: store, author: element(["Writer", "Writer", "App0", "App1"]), change,
            times: isTrue(1, of: 6) ? number(2...12) : 1)
    }

    fileprivate mutating func action(_ kind: Kind, _ theme: Theme, _ stores: [StoreSetup]) -> Step.Action {
        let store = number(0...stores.count - 1)
        if isTrue(1, of: 4) {
            // What an operator takes from a store is one more thing that it suffers from.
            return order(kind == .isolation ? 0 : store)
        }
        switch kind {
        case .faults: return isTrue(1, of: 2) ? commit(store) : fault(in: store, stores)
        case .isolation: return isTrue(2, of: 3) ? commit(store) : suffering(theme)
        case .power: return isTrue(2, of: 3) ? commit(store) : powerFault()
        case .files: return isTrue(1, of: 2) ? commit(store) : loss(in: store, stores)
        case .restores: return isTrue(1, of: 2) ? commit(store) : restoreFault(in: store)
        }
    }

    /// What an operator does.
    private mutating func order(_ store: Int) -> Step.Action {
        if isTrue(1, of: 6) {
            return .reload(element(Reconfiguration.allCases), store: store, bySignal: isTrue(1, of: 4))
        }
        // What is paused is not to stay so for most of the time.
        return .ask(element(Question.allCases + [.status, .consumers, .health, .wait, .resume]), store: store)
    }

    private mutating func fault(in store: Int, _ stores: [StoreSetup]) -> Step.Action {
        switch number(0...15) {
        case 0...2: .kill(points: number(1...3000))
        case 3: .restart
        case 4: .stayDown(steps: number(1...3))
        case 5: .torn(store: store, write: number(1...12))
        case 6: .hold(store: store, isExclusive: isTrue(1, of: 2))
        case 7: .release(store: store)
        case 8...10: .plugin(store: store, element(Manners.allCases))
        case 11: .alter(store: store)
        case 12: .disk(store: store, element(Part.allCases), element([.slow, .full, .broken]))
        case 13: .repair(store: store, element(Part.allCases))
        case 14: .read(store: store, element([.state, .replica]))
        default: .endRead(store: store, element([.state, .replica]))
        }
    }

    /// A daemon that dies before it notices a loss has lost what was in the log alone, whatever it does.
    private mutating func loss(in store: Int, _ stores: [StoreSetup]) -> Step.Action {
        if isTrue(2, of: 3) {
            return .remove(store: store, element(Part.allCases), element(Sides.allCases))
        }
        return switch number(0...5) {
        case 0: .restart
        case 1, 2: .plugin(store: store, element(Manners.allCases))
        case 3: .alter(store: store)
        case 4: .disk(store: store, element(Part.allCases), .slow)
        default: .repair(store: store, element(Part.allCases))
        }
    }

    private mutating func restoreFault(in store: Int) -> Step.Action {
        switch number(0...14) {
        case 0...4: .backUp(store: store)
        case 5...9: .restore(store: store, inPlace: isTrue(1, of: 3))
        case 10: .kill(points: number(1...3000))
        case 11: .restart
        case 12: .stayDown(steps: number(1...3))
        default: .plugin(store: store, element(Manners.allCases))
        }
    }

    /// Only the first store suffers, and from one thing, so that what is found has one cause.
    private mutating func suffering(_ theme: Theme) -> Step.Action {
        if isTrue(1, of: 5) { return isTrue(1, of: 2) ? .restart : .stayDown(steps: number(1...3)) }
        let isOver = isTrue(1, of: 3)
        switch theme {
        case .lock: return isOver ? .release(store: 0) : .hold(store: 0, isExclusive: isTrue(2, of: 3))
        case .plugin: return .plugin(store: 0, element(Manners.allCases))
        case .reader:
            let part = element([Part.state, .replica])
            return isOver ? .endRead(store: 0, part) : .read(store: 0, part)
        case .disk(let part):
            return isOver ? .repair(store: 0, part) : .disk(store: 0, part, element([.slow, .hangs]))
        }
    }

    private mutating func powerFault() -> Step.Action {
        switch number(0...5) {
        case 0, 1: .cutPower(points: number(1...4000))
        case 2: .read(store: 0, .state)
        case 3: .endRead(store: 0, .state)
        case 4: .plugin(store: 0, element(Manners.allCases))
        default: .disk(store: 0, .state, .slow)
        }
    }
}
