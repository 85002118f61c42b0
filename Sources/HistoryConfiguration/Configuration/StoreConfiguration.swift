package import PersistentHistory

/// A watched store, with its authors and consumers.
package struct StoreConfiguration: Sendable, Hashable {
    /// Unique in the configuration.
    package var name: String
    package var path: String
    /// The entities that the daemon tracks; nil if `historyctl track` tracks them.
    package var entities: [TrackedEntity]?
    /// Whether every table is tracked, including new ones; `entities` then lists what to preserve.
    package var tracksEveryTable = false
    package var authors: [AuthorConfiguration] = []
    package var unlistedAuthors: UnlistedAuthors = .deliver
    /// Whether history by unlisted authors is cleaned although it is ignored.
    package var cleansUnlisted = false
    /// Whether the transactions of mirroring authors are delivered, and their history is cleaned.
    package var includingMirroring = false
    /// In addition to the well-known ones.
    package var mirroringAuthors: [String] = []
    package var clean = CleanConfiguration()
    /// How often to look at a store on a file system without inotify; nil to rely on inotify.
    package var poll: Duration?
    /// How long after its commit a transaction may be pending before the consumer counts as lagging.
    package var healthyLag = Self.defaultHealthyLag
    /// Whether only historyd-nats writes to it: its history is recorded at its source.
    package var isMirror = false
    /// Which program records its history.
    package var source = Entity.Source.recorded
    /// Whether delivery starts with the daemon, rather than with `historyctl resume`.
    package var autoStart = true
    /// After this time without a commit, its connections are closed until the next commit; nil keeps them open.
    package var rest: Duration?
    /// The name of the store's template; nil for an entry of its own.
    package var template: String?

    /// The default of `healthyLag`.
    package static let defaultHealthyLag: Duration = .seconds(300)

    /// The authors with a cursor: all but the batch authors.
    package var consumers: [AuthorConfiguration] { authors.filter { !$0.isBatch } }
}

/// Whether transactions without an author, or by an author that is not listed, are delivered.
package enum UnlistedAuthors: String, Sendable, CaseIterable {
    case deliver, ignore
}

/// A table whose changes are recorded.
package struct TrackedEntity: Sendable, Hashable {
    package var name: String
    /// The columns whose values a tombstone keeps.
    package var preserve: [String]

    package init(name: String, preserve: [String] = []) {
        self.name = name
        self.preserve = preserve
    }
}

/// A registered author. It is a consumer as well, unless it is a batch author.
package struct AuthorConfiguration: Sendable, Hashable {
    /// Unique in its store.
    package var name: String
    /// Whether it only writes: it then has no cursor and no contexts.
    package var isBatch = false
    package var contexts: [ContextConfiguration] = []
    /// Where a new consumer starts.
    package var startAt = StartingPosition.oldest
    /// How long commits are gathered before a pass.
    package var batchWindow = Duration.zero
    /// In a Core Data store: the consumer's own processes or apps, whose transactions it does not receive.
    package var ownProcesses: [String] = []
}

/// What a consumer's changes are merged into.
package struct ContextConfiguration: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// An SQLite file with copies of the rows.
        ///
        /// - access: The permissions of the file.
        case replica(path: String, access: ReplicaAccess? = nil)
        /// A stream on the control socket.
        ///
        /// - window: How many transactions are sent ahead of the last acknowledged one.
        /// - maximumValueBytes: The longest text or blob that is sent with changed objects; nil for no values.
        /// - largeIntegers: How to send integers that are not exact as doubles.
        /// - properties: For one entity: the columns of which an update must change at least one; nil for any.
        /// - condition: For one entity: an SQL expression over the columns of a row.
        case feed(
            window: Int = ContextConfiguration.defaultWindow, maximumValueBytes: Int? = nil,
            largeIntegers: LargeIntegers = .number, properties: [String]? = nil, condition: String? = nil)
        /// A context that a plugin keeps.
        ///
        /// - name: The plugin's name in its manifest.
        case plugin(name: String)
    }

    package static let defaultWindow = 100
    package static let largestWindow = 100_000

    /// Unique in its author.
    package var name: String
    package var kind: Kind
    /// Nil for every tracked entity.
    package var entities: [String]?
    /// For a feed whose client acknowledges later than others; nil for the store's value.
    package var healthyLag: Duration?
}

/// When history that all consumers have processed is deleted.
package struct CleanConfiguration: Sendable, Hashable {
    package var strategy: CleaningStrategy = .none
    /// How long a consumer may stand still before it no longer blocks cleaning; nil for no limit.
    package var maximumDuration: Duration?

    /// History younger than this is not deleted, even if all consumers have received it.
    package var keep: Duration = .zero
}
