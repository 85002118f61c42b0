import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// What the daemon knows of its stores, consumers, hooks and plugins from what has happened to them: a value that
/// `apply` takes from one event to the next.
struct RuntimeStatus: Sendable {
    struct ConsumerID: Hashable, Sendable {
        let store: String
        let consumer: String
    }

    struct Consumer: Sendable {
        var cursor: HistoryToken?
        /// What failed last, until it succeeds.
        var failure: Failure?
        /// How many failures there were.
        var failures = 0
        var heldHooks: Set<String> = []
        /// Whether an operator holds this consumer alone.
        var isPaused = false
        /// Contexts that cannot be updated now.
        var contexts: [String: ContextFailure] = [:]
        /// What each context shows, since it was opened.
        var shown: [String: HistoryToken] = [:]
        /// Contexts that were not opened yet.
        var unopened: Set<String> = []
        /// How long after their commit transactions were delivered.
        var delays = DurationHistogram()
        /// So much later it has everything, on purpose.
        var batchWindow = Duration.zero
        /// What it has not had, when that was looked at last.
        var lag = Lag()
        /// The same of its feeds, by name.
        var feedLags: [String: Lag] = [:]

        /// Why it does not continue, or not with all of its contexts.
        var problem: String? {
            failure?.reason ?? contexts.min { $0.key < $1.key }?.value.reason
        }
    }

    struct Failure: Sendable, Equatable {
        let hook: String?
        let reason: String
        let isHeld: Bool
    }

    struct ContextFailure: Sendable {
        let reason: String
        let attempt: Int
        /// What the context showed when it failed first; nil where that is not known.
        let shown: HistoryToken?
        /// Else a plugin keeps it.
        var isReplica = true
        /// What of the history it does not show, when that was looked at last.
        var lag = Lag()
    }

    struct Hook: Sendable {
        var calls = 0
        var failures = 0
        var callTimes = DurationHistogram()
        var lastCall: HistoryTimestamp?
        var lastError: (reason: String, at: HistoryTimestamp)?
    }

    /// A coprocess.
    struct Plugin: Sendable {
        /// How often its process has ended, or could not be started.
        var failures = 0
        /// Of these, how often no call failed by it, which counts as a failure of its own.
        var uncalled = 0
        /// What happened last, until it works again.
        var problem: String?
        /// Whether its process ends again and again.
        var isFailing = false
    }

    struct Store: Sendable {
        /// Why it is not open.
        var problem: String?
        var isStateFailing = false
        /// What was wrong with the state when it was looked at last.
        var stateProblem: String?
        /// For how long it had not answered, or could not be opened, when it was asked last.
        var unresponsiveTime: Duration?
        /// What waited, when it was asked last.
        var standing = StoreControl.Standing()
        /// Whether it could be read, when it was asked last, how far everybody is behind.
        var isMeasured = false
        /// Why not all is tracked that is configured.
        var trackingProblem: String?
        /// Calls that were given up and wait, by consumer.
        var deadLetters: [String: Int] = [:]
        /// How many changes the history has, where only an operator cleans it.
        var neverCleaned: Int64?
        /// Whether the last cleaning failed.
        var cleaningProblem: String?
        /// What the cleanup waits for.
        var cleaningWaits: String?
        /// The transactions of all cleanups since the daemon started.
        var cleaningEffort = CleaningEffort()
        /// Whether an operator holds its delivery.
        var isPaused = false
        /// Consumers and feeds that hold back the cleanup and have not moved for long.
        var holdingBack: Set<String> = []
        /// Configured entities that are not tracked as configured, and why.
        var untracked: [BinaryText: String] = [:]
        /// Entities whose recording may miss something, and why.
        var doubts: [BinaryText: [String]] = [:]
        /// Whether all is tracked that is configured.
        var isTracked: Bool { trackingProblem == nil && untracked.isEmpty }
        var consumers: [String: Consumer] = [:]
        /// Consumers whose cursors were moved together, and where to.
        var movedTogether: (consumers: MovedConsumers, cursor: HistoryToken)?
    }

    /// A folder whose files are stores.
    struct Folder: Sendable, Equatable {
        let path: String
        /// Why it is not watched.
        let problem: String?
        /// The most files that are followed, if there are more.
        let maximum: Int?
    }

    var stores: [String: Store] = [:]
    /// By the names of templates.
    var folders: [String: Folder] = [:]
    /// The templates of stores that have one.
    var templates: [String: String] = [:]
    var hooks: [String: Hook] = [:]
    var plugins: [String: Plugin] = [:]
    /// What outlives a restart.
    var counters = AlertCounters()
    /// The lag from which on a consumer, a replica or a feed of a store is not healthy.
    var healthyLags: [String: Duration] = [:]
    /// The same for feeds that have one of their own, by store, consumer and feed.
    var healthyFeedLags: [[String]: Duration] = [:]
    /// What was wrong with the configuration that was read last, while an older one is in force.
    var refusal: String?
    /// How much work waits for a thread, and for how long.
    var lackingThreads: (count: Int, time: Duration) = (0, .zero)
    private(set) var count: (stores: Int, hooks: Int)
    /// The consumers in force; nil until they are known.
    private var served: Set<ConsumerID>?
    var lastOverflow: HistoryTimestamp?

    init(stores: Int = 0, hooks: Int = 0) { count = (stores, hooks) }

    // MARK: Reading

    func isServed(_ id: ConsumerID) -> Bool { served?.contains(id) ?? true }

    func consumer(_ id: ConsumerID) -> Consumer {
        guard let store = stores[id.store] else { return Consumer() }
        var consumer = store.consumers[id.consumer] ?? Consumer()
        // It may have joined the others since they were moved.
        if let (moved, cursor) = store.movedTogether, moved.contains(id.consumer),
            cursor.number > consumer.cursor?.number ?? 0
        {
            consumer.cursor = cursor
        }
        return consumer
    }

    // MARK: What is in force

    /// Forgets what is no longer in force.
    ///
    /// - Parameter plugins: Those that keep running.
    mutating func keepOnly(
        consumers: [String: Set<String>], hooks: Set<String>, plugins: Set<String>,
        mayCome: (String) -> Bool = { _ in false }
    ) {
        count = (consumers.count, hooks.count)
        served = Set(
            consumers.flatMap { store, names in names.map { ConsumerID(store: store, consumer: $0) } })
        self.hooks = self.hooks.filter { hooks.contains($0.key) }
        self.plugins = self.plugins.filter { plugins.contains($0.key) }
        counters.keepOnly(stores: Set(consumers.keys), hooks: hooks, mayCome: mayCome)
        stores = stores.filter { consumers[$0.key] != nil }
        for (store, names) in consumers {
            let kept = stores[store]?.consumers.filter { names.contains($0.key) }
            stores[store]?.consumers = kept ?? [:]
            for name in names { stores[store]?.consumers[name]?.heldHooks.formIntersection(hooks) }
        }
    }

    /// Takes in stores that come and go without the others.
    mutating func change(
        ending: Set<String>, beginning: [(store: StoreConfiguration, consumers: Set<String>)]
    ) {
        for name in ending {
            if let store = stores.removeValue(forKey: name) {
                for consumer in store.consumers.keys {
                    served?.remove(ConsumerID(store: name, consumer: consumer))
                }
            }
            healthyLags[name] = nil
            templates[name] = nil
            healthyFeedLags = healthyFeedLags.isEmpty ? [:] : healthyFeedLags.filter { $0.key.first != name }
        }
        counters.forget(stores: ending)
        for (store, consumers) in beginning {
            for consumer in consumers { served?.insert(ConsumerID(store: store.name, consumer: consumer)) }
            noteLimits(of: store)
        }
        count.stores += beginning.count - ending.count
    }

    /// From which lag on a store is not healthy.
    mutating func noteLimits(of store: StoreConfiguration) {
        healthyLags[store.name] = store.healthyLag
        templates[store.name] = store.template
        for author in store.authors {
            for context in author.contexts {
                guard let lag = context.healthyLag else { continue }
                healthyFeedLags[[store.name, author.name, context.name]] = lag
            }
        }
    }

    mutating func setPaused(_ isPaused: Bool, _ store: String) {
        stores[store, default: Store()].isPaused = isPaused
    }

    // MARK: Plugins

    /// - Parameters:
    ///   - isReported: Whether a call failed by it, which counts it already.
    ///   - isLasting: Whether it has failed several times in a row.
    mutating func pluginFailed(_ name: String, _ failure: HookFailure, isReported: Bool, isLasting: Bool) {
        plugins[name, default: Plugin()].failures += 1
        counters.pluginEnds[name, default: 0] += 1
        if !isReported { plugins[name, default: Plugin()].uncalled += 1 }
        plugins[name, default: Plugin()].problem = failure.message
        if isLasting { plugins[name, default: Plugin()].isFailing = true }
    }

    mutating func pluginWorks(_ name: String) {
        plugins[name]?.problem = nil
        plugins[name]?.isFailing = false
    }
}

extension RuntimeStatus.Consumer {
    /// Whether it has processed a transaction, and each context shows it: the cursor waits neither for a context that
    /// fails nor for a replica that has yet to show what it has taken in.
    func isDone(with token: HistoryToken) -> Bool {
        (cursor?.includes(token) ?? false) && contextsWithout(token).isEmpty
    }

    /// The contexts that do not show a transaction, or of which that is not known.
    func contextsWithout(_ token: HistoryToken) -> [String] {
        let hidden = shown.filter { !$0.value.includes(token) }.keys
        let failing = contexts.filter { !($0.value.shown?.includes(token) ?? false) }.keys
        return unopened.union(hidden).union(failing).sorted()
    }
}

extension HistoryToken {
    /// Whether it is at another one of the same store, or behind it.
    func includes(_ other: HistoryToken) -> Bool { store == other.store && number >= other.number }
}
