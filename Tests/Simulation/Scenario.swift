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
    /// Whether all stores lie in one folder, which is served.
    var isShared = false
    /// After which time a store of that folder is closed until something happens to it.
    var rest: String?
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
    /// Whether its plugin is started for each call.
    var isOneshot = false
    /// How its history is cleaned, where that is not after notifications.
    var cleaning: String?
    /// Whether contexts of its plugin are kept in a file: otherwise they go with the plugin's process.
    var keepsIndexes = false
}

struct ConsumerSetup: Sendable {
    var author: String
    var hooks: [HookSetup]
    var hasReplica: Bool
    var hasFeed: Bool
    /// Whether its plugin keeps a context for it.
    var hasIndex = false
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
    /// Whether it is asked before that is merged.
    var isMerger = false
    /// Whether it gets rows with the changes.
    var hasValues = false

    /// What of its entity it is called for.
    enum Filter: String, CaseIterable, Sendable {
        case all, inserts, updates, deletes
        /// Updates only if they changed the name, which none does, or the age, which all do.
        case named, aged
        /// Those of rows that fit a condition, which all do, or none does; deletes are another hook's.
        case present, absent

        /// Of these others than conditions.
        static let plain: [Filter] = [.all, .inserts, .updates, .deletes, .named, .aged]

        func passes(_ operation: String) -> Bool {
            switch self {
            case .all, .aged: true
            case .inserts: operation == "insert"
            case .updates: operation == "update"
            case .deletes: operation == "delete"
            case .named: operation != "update"
            // A row that is gone when it is judged is left out.
            case .present, .absent: false
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
            case .present: ", \"operation\": [\"insert\", \"update\"], \"where\": \"age IS NULL OR age >= 0\""
            case .absent: ", \"operation\": [\"insert\", \"update\"], \"where\": \"age < 0\""
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
    /// So many rows that hooks with values get them in several calls.
    case huge

    /// The entities and operations.
    var groups: [(entity: String, operation: String)] {
        switch self {
        case .insertPerson, .large, .huge: [("person", "insert")]
        case .insertItem: [("item", "insert")]
        case .updatePerson: [("person", "update")]
        case .deletePerson: [("person", "delete")]
        case .both: [("person", "insert"), ("item", "insert"), ("person", "update")]
        }
    }
}

/// What an application, or a tool, does to a store's tables.
enum SchemaChange: String, CaseIterable, Sendable {
    case addsIndex, renamesColumn
    /// The table is made again under another name, filled, and renamed.
    case rebuildsTable
    /// `historyctl migrate`: at once, with its process killed before the end, or with time in between.
    case migrates, diesMigrating, beginsMigration, endsMigration
}

enum Trouble: String, CaseIterable, Sendable {
    case slow, full, broken, hangs
}

/// What happens to the machine.
enum Machine: String, CaseIterable, Sendable {
    /// Of every third seed: the kernel's memory instead of descriptors.
    case refusesThreads, refusesDescriptors, refusesNothing
    case setsClockBack, setsClockAhead
    /// For some seconds.
    case isSuspended
    /// The kernel's queue of file events overflows.
    case losesEvents
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
        case schema(store: Int, SchemaChange)
        /// A backup is made of a store, in place of the one before.
        case backUp(store: Int)
        /// The store is what its backup is: renamed over it, or read back into it.
        case restore(store: Int, inPlace: Bool)
        /// Somebody removes the `-wal`, the `-shm` or both.
        case remove(store: Int, Part, Sides)
        case machine(Machine)
        /// The store is moved out of the folder that is served, or back into it.
        case leave(store: Int)
        case come(store: Int)
        case rare(store: Int, Rarity)
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
        case mirrors(MirrorAction)
    }

    var number: Int
    /// In nanoseconds.
    var pause: Int64
    var action: Action

    var description: String { "\(action)".replacing("historyd_simulation.", with: "") }

    /// Whether it is something that can be while there is no daemon.
    var isOfOthers: Bool {
        switch action {
        case .kill, .cutPower, .restart, .stayDown, .plugin, .disk, .remove, .ask, .reload, .machine, .rare:
            false
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
            .alter(let store), .schema(let store, _), .restore(let store, _), .leave(let store),
            .come(let store), .rare(let store, _):
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
    /// The machine lacks threads and descriptors, loses events, is suspended, and its clock is set.
    case machine
    /// The stores of one folder come and go, served by one entry, with one plugin.
    case folders
    /// What is rare: states, tables and histories are lost, programs are missing, history is deleted by time and by force.
    case upkeep
    /// Many stores, whose schemas change and are migrated; consumers with copies write themselves, plugins keep contexts and get
    /// rows, and a power failure also takes what was not synced of replicas, block by block.
    case applications
    /// Publisher and followers with a server that forgets, lies and breaks off: mirrors show the source as it was.
    case mirrors
}

extension Scenario {
    /// Of applications; other kinds have half as many.
    static let mostStores = 6

    init(seed: UInt64, kind: Kind) {
        var dice = Dice(seed: seed)
        self.seed = seed
        self.kind = kind
        switches = dice.element([0, 1, 4, 16, 48])
        let count =
            switch kind {
            case .isolation, .folders: dice.number(2...3)
            case .power: 1
            case .applications: dice.number(1...Self.mostStores)
            default: dice.number(1...3)
            }
        stores = (0..<count).map { StoreSetup(number: $0, kind, &dice) }
        isShared = kind == .folders || kind == .upkeep && dice.isTrue(1, of: 3)
        if isShared {
            stores = stores.map { [first = stores[0]] in $0.configured(as: first) }
            // One with contexts stays open.
            let hasContexts = stores[0].consumers.contains { $0.hasReplica || $0.hasFeed }
            rest = hasContexts ? nil : dice.element([nil, "1s", "3s"])
        }
        steps = []
        let theme = dice.element(Theme.all)
        stepsBefore = dice.isTrue(1, of: 3) ? dice.number(1...3) : 0
        let length = dice.number(8...40)
        if kind == .mirrors {
            while steps.count < length { add(.mirrors(dice.mirrorAction()), after: dice.mirrorPause()) }
            return
        }
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
            // What a consumer writes itself is not merged into its replica: one that has a replica writes only rows of its
            // own, if any.
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
        if kind == .faults || kind == .machine { vary(&dice) }
        if kind == .upkeep { varyUpkeep(&dice) }
        if kind == .applications { varyApplication(&dice) }
    }

    /// Contexts that plugins keep, and rows with the changes.
    private mutating func varyApplication(_ dice: inout Dice) {
        skips = false
        keepsIndexes = dice.isTrue(1, of: 2)
        for consumer in consumers.indices {
            for hook in consumers[consumer].hooks.indices {
                consumers[consumer].hooks[hook].hasValues = dice.isTrue(1, of: 3)
            }
            guard dice.isTrue(1, of: 3) else { continue }
            consumers[consumer].hasIndex = true
            // As that of one with a replica.
            consumers[consumer].author = "Copy\(consumer)"
            for hook in consumers[consumer].hooks.indices {
                consumers[consumer].hooks[hook].name.replace("App", with: "Copy")
            }
        }
    }

    /// Cleaning by time, and conditions of hooks.
    private mutating func varyUpkeep(_ dice: inout Dice) {
        skips = false
        if dice.isTrue(2, of: 3) {
            let maximum = dice.isTrue(1, of: 2) ? ", \"maximumDuration\": \"\(dice.number(3...30))s\"" : ""
            let keep = dice.isTrue(1, of: 3) ? ", \"keep\": \"\(dice.number(1...5))s\"" : ""
            cleaning =
                "{\"strategy\": \"byDuration\", \"seconds\": \"\(dice.number(1...5))s\"\(maximum)\(keep)}"
        }
        for consumer in consumers.indices {
            for hook in consumers[consumer].hooks.indices where dice.isTrue(1, of: 3) {
                consumers[consumer].hooks[hook].entity = "person"
                consumers[consumer].hooks[hook].filter = dice.isTrue(2, of: 3) ? .present : .absent
            }
        }
    }

    /// What one entry serves differs in nothing but the files.
    fileprivate func configured(as other: StoreSetup) -> StoreSetup {
        var setup = other
        (setup.name, setup.usesWAL) = (name, usesWAL)
        return setup
    }

    /// What the other kinds leave out, for their seeds are to stay the same.
    private mutating func vary(_ dice: inout Dice) {
        isOneshot = dice.isTrue(1, of: 4)
        if isOneshot { window = 1 }
        // A merge hook is not passed over.
        guard !skips else { return }
        for index in consumers.indices where dice.isTrue(1, of: 4) {
            let plugin = name.replacing("s", with: "p")
            var hook = HookSetup(name: "\(plugin)/\(consumers[index].author)-m", entity: nil)
            hook.isMerger = true
            consumers[index].hooks.append(hook)
        }
    }
}

extension HookSetup {
    fileprivate init(name: String, _ dice: inout Dice) {
        self.name = name
        entity = dice.element([nil, "person", "item"])
        if dice.isTrue(1, of: 3) {
            // Properties are those of one entity.
            filter = dice.element(entity == "person" ? Filter.plain : [.inserts, .updates, .deletes])
        }
        isForBatches = dice.isTrue(1, of: 4)
    }
}
