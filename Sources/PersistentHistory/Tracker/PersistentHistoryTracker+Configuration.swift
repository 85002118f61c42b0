extension PersistentHistoryTracker {
    /// What a tracker serves, and how. The defaults are those of PersistentHistoryTrackingKit.
    public struct Configuration: Sendable {
        /// The store. It must exist and be tracked, unless `waitsForStore` or `entities` say otherwise.
        public var store: String
        /// The store's name in reports.
        public var name = "store"
        /// The author under which this program writes. Its own changes are not delivered.
        public var currentAuthor: String
        /// All authors that write to the store, including this one and those in `batchAuthors`.
        public var allAuthors: [String]
        /// The authors of `allAuthors` that only write: cleaning does not wait for them.
        public var batchAuthors: [String] = []
        /// Whether transactions of mirroring authors are delivered, and cleaned.
        public var includingMirroring = false
        /// Mirroring authors in addition to `DeliveryRule.cloudKitMirroring`.
        public var mirroringAuthors: [String] = []
        /// Whether transactions by other authors, or without an author, are delivered.
        public var deliversUnlisted = true
        /// Whether their history is cleaned if they are not delivered; otherwise it is kept.
        public var cleansUnlisted = false
        /// An existing folder for data that must outlive the process, such as each author's position.
        public var stateFolder: String
        /// Where `currentAuthor` begins when it is new: by default with the oldest transaction.
        public var startAt = StartingPosition.oldest
        /// How long after the first commit that concerns `currentAuthor` a pass begins, up to an hour. It begins
        /// earlier if a batch is full, and at once by default.
        public var batchWindow = Duration.zero
        /// The replicas that the changes are merged into.
        public var contexts: [ReplicaContext] = []
        /// Other contexts to merge into, of this program. No two contexts have the same name.
        public var programContexts: [any HistoryContext] = []
        /// Names of feeds that the program follows (`follow`). History waits for each of them.
        public var feeds: [String] = []
        /// The entities to track, with the columns to preserve; nil does not change the tracking.
        public var entities: [BinaryText: [String]?]?
        /// When to delete history that every author has processed.
        public var cleanStrategy = CleaningStrategy.none
        /// How long cleaning waits for an author that does not move; nil for no limit.
        public var maximumDuration: Duration?
        /// History younger than this is not deleted, even if all authors have processed it.
        public var keep: Duration = .zero
        /// Receives all events, for a log or for metrics; nil logs them with swift-log (`LogReporter`).
        /// `SilentReporter` ignores them.
        public var reporter: (any PipelineReporter)?
        /// What is logged if no reporter is given: 0 nothing, 1 important events, 2 all events.
        public var logLevel = 1
        /// Whether `run()` starts to track at once, or waits for `start()`. Without `run()`, nothing is tracked.
        public var autoStart = true
        /// Whether `run()` waits for a store that does not exist or is not tracked yet. Otherwise it throws, so
        /// that a wrong path or a forgotten `Tracking.track` does not go unnoticed.
        public var waitsForStore = false

        /// A configuration with what every tracker needs.
        public init(store: String, currentAuthor: String, allAuthors: [String], stateFolder: String) {
            self.store = store
            self.currentAuthor = currentAuthor
            self.allAuthors = allAuthors
            self.stateFolder = stateFolder
        }
    }

    /// A tracker for one author of a store, with the kit's parameters: see `Configuration`, which has more.
    public init(
        store path: String, contexts: [ReplicaContext] = [], currentAuthor: String, allAuthors: [String],
        includingMirroring: Bool = false, batchAuthors: [String] = [], stateFolder: String,
        cleanStrategy: CleaningStrategy = .none, maximumDuration: Duration? = nil,
        reporter: (any PipelineReporter)? = nil, logLevel: Int = 1, autoStart: Bool = true
    ) {
        var configuration = Configuration(
            store: path, currentAuthor: currentAuthor, allAuthors: allAuthors, stateFolder: stateFolder)
        configuration.contexts = contexts
        configuration.includingMirroring = includingMirroring
        configuration.batchAuthors = batchAuthors
        configuration.cleanStrategy = cleanStrategy
        configuration.maximumDuration = maximumDuration
        configuration.reporter = reporter
        configuration.logLevel = logLevel
        configuration.autoStart = autoStart
        self.init(configuration)
    }
}
