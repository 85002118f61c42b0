/// A store and all its consumers and feeds.
package struct ServedStore: Sendable {
    package let name: String
    package let path: String
    /// What to track, with the columns to preserve; nil if tracking is left to others.
    package let entities: [BinaryText: [String]?]?
    /// Whether every table is tracked, including new ones. `entities` then says what to preserve.
    package var tracksEveryTable = false
    package let rule: DeliveryRule
    package let consumers: [Consumer]
    package let cleaning: CleaningStrategy
    package let maximumDuration: Duration?
    /// History younger than this is not deleted, even if all consumers have received it.
    package var keep: Duration = .zero
    /// The consumers that other processes with the same state serve. Their cursors are kept, and cleaning
    /// waits for them, too.
    package var consumersElsewhere: Set<String> = []
    /// After this time without a commit, the store's connections are closed until the next one; nil
    /// leaves them open. Only for a store without contexts and feeds.
    package var rest: Duration?
    /// Whether this process may have other connections to the store.
    package var isUsedInProcess = false
    /// Whether it is a mirror. A mirror is recorded at its source, and its recording is not changed here.
    package var isMirror = false
    /// What records its history.
    package var source = Entity.Source.recorded
    package let clock: HistoryClock
    /// Transactions with more changes than this are read and delivered in parts.
    var partSize = TransactionOutline.partSize
    var visibilityRule = VisibilityRule()

    package init(
        name: String, path: String, entities: [BinaryText: [String]?]?, rule: DeliveryRule,
        consumers: [Consumer],
        cleaning: CleaningStrategy = .none, maximumDuration: Duration? = nil, clock: HistoryClock = .system
    ) {
        self.name = name
        self.path = path
        self.entities = entities
        self.rule = rule
        self.consumers = consumers
        self.cleaning = cleaning
        self.maximumDuration = maximumDuration
        self.clock = clock
    }

    /// All consumers that must have processed a transaction before it is cleaned.
    var mustHaveHad: Set<String> { consumersElsewhere.union(consumers.map(\.author)) }

    var hasFeeds: Bool { consumers.contains { !$0.feeds.isEmpty } }
}

/// A consumer: an author of a store that receives changes, with its contexts.
package struct Consumer: Sendable {
    /// The store's configured name.
    package let store: String
    package let author: String
    package let rule: DeliveryRule
    package var contexts: [ReplicaContext]
    package var feeds: [FeedContext]
    /// Contexts that plugins keep.
    package var pluginContexts: [PluginContext]
    /// Contexts of the program that runs the tracker.
    let programContexts: [any HistoryContext]
    /// Where a new consumer begins.
    package var startAt = StartingPosition.oldest
    /// How long commits are gathered before a pass.
    package var batchWindow = Duration.zero

    /// Whether the default merge has something to merge into.
    var hasContexts: Bool { !contexts.isEmpty || !programContexts.isEmpty || !pluginContexts.isEmpty }

    var contextNames: [String] {
        contexts.map(\.name) + programContexts.map(\.name) + pluginContexts.map(\.name)
    }

    /// The contexts as a merge hook receives them.
    package var descriptions: [ContextDescription] {
        contexts.map(\.description) + pluginContexts.map(\.description) + feeds.map(\.description)
    }

    package init(
        store: String, author: String, rule: DeliveryRule, contexts: [ReplicaContext] = [],
        feeds: [FeedContext] = [], pluginContexts: [PluginContext] = [],
        programContexts: [any HistoryContext] = []
    ) {
        self.store = store
        self.author = author
        self.rule = rule
        self.contexts = contexts
        self.feeds = feeds
        self.pluginContexts = pluginContexts
        self.programContexts = programContexts
    }
}

extension ServedStore {
    /// How many descriptors the store needs while it is served.
    ///
    /// These are the store's lease, its reader (database, `-wal`, `-shm`), the probe (database, `-shm`),
    /// the lock of the consumers, and the state (database, `-wal`, `-shm`). Each replica adds its own
    /// three, and two for the connection that reads the store for it.
    var descriptors: Int { 10 + 5 * consumers.reduce(0) { $0 + $1.contexts.count } }
}
