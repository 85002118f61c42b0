public import PersistentHistory

/// A store that is watched, who writes to it, and who is told.
public struct StoreConfiguration: Sendable, Hashable {
    /// Unique in the configuration.
    public var name: String
    public var path: String
    /// The entities that the daemon tracks itself; nil where `historyctl track` has done it.
    public var entities: [TrackedEntity]?
    public var authors: [AuthorConfiguration]
    public var unlistedAuthors: UnlistedAuthors
    /// Whether the transactions of mirroring authors are delivered, and their history is cleaned.
    public var includingMirroring: Bool
    /// Besides the well-known ones.
    public var mirroringAuthors: [String]
    public var clean: CleanConfiguration
    /// How often to look at a store on a file system without inotify; nil to rely on inotify.
    public var poll: Duration?

    public init(
        name: String, path: String, entities: [TrackedEntity]? = nil, authors: [AuthorConfiguration] = [],
        unlistedAuthors: UnlistedAuthors = .deliver, includingMirroring: Bool = false,
        mirroringAuthors: [String] = [], clean: CleanConfiguration = CleanConfiguration(), poll: Duration? = nil
    ) {
        self.name = name
        self.path = path
        self.entities = entities
        self.authors = authors
        self.unlistedAuthors = unlistedAuthors
        self.includingMirroring = includingMirroring
        self.mirroringAuthors = mirroringAuthors
        self.clean = clean
        self.poll = poll
    }

    /// The authors that have a cursor: all but the batch ones.
    public var consumers: [AuthorConfiguration] { authors.filter { !$0.isBatch } }
}

/// What becomes of transactions by nobody, or by an author that is not listed.
public enum UnlistedAuthors: String, Sendable, CaseIterable {
    case deliver, ignore
}

/// A table whose changes are recorded.
public struct TrackedEntity: Sendable, Hashable {
    public var name: String
    /// The columns whose values a tombstone keeps.
    public var preserve: [String]

    public init(name: String, preserve: [String] = []) {
        self.name = name
        self.preserve = preserve
    }
}

/// A registered author; a consumer as well, unless it is a batch author.
public struct AuthorConfiguration: Sendable, Hashable {
    /// Unique in its store.
    public var name: String
    /// Only writes: it has no cursor and no contexts.
    public var isBatch: Bool
    public var contexts: [ContextConfiguration]

    public init(name: String, isBatch: Bool = false, contexts: [ContextConfiguration] = []) {
        self.name = name
        self.isBatch = isBatch
        self.contexts = contexts
    }
}

/// What a consumer's changes are merged into.
public struct ContextConfiguration: Sendable, Hashable {
    public enum Kind: Sendable, Hashable {
        /// A SQLite file with copies of the rows.
        ///
        /// - access: Who may use it beside the daemon.
        case replica(path: String, access: ReplicaAccess? = nil)
        /// A stream on the control socket.
        ///
        /// - window: How many transactions are sent ahead of the last that was acknowledged.
        case feed(window: Int = ContextConfiguration.defaultWindow)
    }

    public static let defaultWindow = 100
    public static let largestWindow = 100_000

    /// Unique in its author.
    public var name: String
    public var kind: Kind
    /// Nil is every tracked entity.
    public var entities: [String]?

    public init(name: String, kind: Kind, entities: [String]? = nil) {
        self.name = name
        self.kind = kind
        self.entities = entities
    }
}

/// When history that everybody has had is deleted.
public struct CleanConfiguration: Sendable, Hashable {
    public var strategy: CleaningStrategy
    /// How long a consumer may stand still before it no longer blocks; nil is for ever.
    public var maximumDuration: Duration?

    public init(strategy: CleaningStrategy = .none, maximumDuration: Duration? = nil) {
        self.strategy = strategy
        self.maximumDuration = maximumDuration
    }
}
