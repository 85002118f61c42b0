import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// What the daemon knows of its stores, consumers, hooks and plugins from the events so far: a value, which
/// `apply` updates for each event.
struct RuntimeStatus: Sendable {
    struct ConsumerID: Hashable, Sendable {
        let store: String
        let consumer: String
    }

    struct Consumer: Sendable {
        var cursor: HistoryToken?
        /// The last failure, until the next success.
        var failure: Failure?
        /// How many failures there were.
        var failures = 0
        var heldHooks: Set<String> = []
        /// Whether an operator paused this consumer by itself.
        var isPaused = false
        /// Contexts that cannot be updated at the moment.
        var contexts: [String: ContextFailure] = [:]
        /// What each context has shown since it was opened.
        var shown: [String: HistoryToken] = [:]
        /// Contexts that have not been opened yet.
        var unopened: Set<String> = []
        /// How long after their commit transactions were delivered.
        var delays = DurationHistogram()
        /// It is caught up this much later, on purpose.
        var batchWindow = Duration.zero
        /// What it had not received at the last measurement.
        var lag = Lag()
        /// What its feeds had not received, by feed name.
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
        /// What the context showed when it first failed; nil if that is not known.
        let shown: HistoryToken?
        /// False for a context of a plugin.
        var isReplica = true
        /// What it did not show of the history at the last measurement.
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
        /// How many of these failed no call, so that each counts as a failure of its own.
        var uncalled = 0
        /// The last problem, until it works again.
        var problem: String?
        /// Whether its process keeps ending.
        var isFailing = false
    }

    struct Store: Sendable {
        /// Why the store is not open.
        var problem: String?
        var isStateFailing = false
        /// What was wrong with the state at the last measurement.
        var stateProblem: String?
        /// How long it had not answered, or could not be opened, at the last measurement.
        var unresponsiveTime: Duration?
        /// The work that was waiting at the last measurement.
        var standing = StoreControl.Standing()
        /// Whether the lag of all its consumers could be read at the last measurement.
        var isMeasured = false
        /// Why not all configured entities are tracked.
        var trackingProblem: String?
        /// Calls that were given up and are kept, by consumer.
        var deadLetters: [String: Int] = [:]
        /// How many changes the history has, where only an operator cleans it.
        var neverCleaned: Int64?
        /// Whether the last cleaning failed.
        var cleaningProblem: String?
        /// What the cleanup waits for.
        var cleaningWaits: String?
        /// The transactions of all cleanups since the daemon started.
        var cleaningEffort = CleaningEffort()
        /// Whether an operator paused its delivery.
        var isPaused = false
        /// Consumers and feeds that hold back the cleanup and have not moved for a long time.
        var holdingBack: Set<String> = []
        /// Configured entities that are not tracked as configured, and why.
        var untracked: [BinaryText: String] = [:]
        /// Entities whose recording may miss something, and why.
        var doubts: [BinaryText: [String]] = [:]
        /// Whether everything configured is tracked.
        var isTracked: Bool { trackingProblem == nil && untracked.isEmpty }
        var consumers: [String: Consumer] = [:]
        /// Consumers whose cursors moved together, and their new cursor.
        var movedTogether: (consumers: MovedConsumers, cursor: HistoryToken)?
    }

    /// A folder whose files are stores.
    struct Folder: Sendable, Equatable {
        let path: String
        /// Why it is not watched.
        let problem: String?
        var isMissing = false
        /// The maximum number of files, if there are more.
        let maximum: Int?
    }

    var stores: [String: Store] = [:]
    /// By template name.
    var folders: [String: Folder] = [:]
    /// The templates of stores that have one, by store name.
    var templates: [String: String] = [:]
    var hooks: [String: Hook] = [:]
    var plugins: [String: Plugin] = [:]
    /// Outlive a restart.
    var counters = AlertCounters()
    /// The lag from which on consumers, replicas and feeds of a store are unhealthy.
    var healthyLags: [String: Duration] = [:]
    /// The same for feeds with a limit of their own, by store, consumer and feed.
    var healthyFeedLags: [[String]: Duration] = [:]
    /// What was wrong with the last configuration read, while an older one is in force.
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
        // It may have joined the others after they moved.
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

    /// Adds and removes stores independently of the others.
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

    /// Notes the lag from which on a store is unhealthy.
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
    ///   - isReported: Whether the failure failed a call, which counts it already.
    ///   - isLasting: Whether the plugin has failed several times in a row.
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
    /// Whether it has processed a transaction, and each context shows it. The cursor waits neither for a
    /// failing context nor for a replica that has taken a transaction in but does not show it yet.
    func isDone(with token: HistoryToken) -> Bool {
        (cursor?.includes(token) ?? false) && contextsWithout(token).isEmpty
    }

    /// The contexts that do not show a transaction, or may not show it.
    func contextsWithout(_ token: HistoryToken) -> [String] {
        let hidden = shown.filter { !$0.value.includes(token) }.keys
        let failing = contexts.filter { !($0.value.shown?.includes(token) ?? false) }.keys
        return unopened.union(hidden).union(failing).sorted()
    }
}

extension HistoryToken {
    /// Whether it is at or after another position of the same store.
    func includes(_ other: HistoryToken) -> Bool { store == other.store && number >= other.number }
}
