package import PersistentHistory

/// A watched store, with its authors and consumers.
package struct StoreConfiguration: Sendable, Hashable {
    /// Unique in the configuration.
    package var name: String
    package var path: String
    /// The entities that the daemon tracks itself; nil where `historyctl track` has done it.
    package var entities: [TrackedEntity]?
    /// Whether every table is tracked, new ones as they come; `entities` then says what to preserve.
    package var tracksEveryTable = false
    package var authors: [AuthorConfiguration] = []
    package var unlistedAuthors: UnlistedAuthors = .deliver
    /// Whether history by unlisted authors is cleaned although it is ignored.
    package var cleansUnlisted = false
    /// Whether the transactions of mirroring authors are delivered, and their history is cleaned.
    package var includingMirroring = false
    /// Besides the well-known ones.
    package var mirroringAuthors: [String] = []
    package var clean = CleanConfiguration()
    /// How often to look at a store on a file system without inotify; nil to rely on inotify.
    package var poll: Duration?
    /// How long after its commit a transaction may wait to be delivered before that is a failure.
    package var healthyLag = Self.defaultHealthyLag
    /// Whether historyd-nats alone writes to it: it is recorded at its source.
    package var isMirror = false
    /// Who records its history.
    package var source = Entity.Source.recorded
    /// Whether delivery begins with the daemon, or with `historyctl resume`.
    package var autoStart = true
    /// The name of the template whose store it is; nil for an entry of its own.
    package var template: String?

    /// What `healthyLag` is where a configuration does not say.
    package static let defaultHealthyLag: Duration = .seconds(300)

    /// The authors that have a cursor: all but the batch ones.
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

/// A registered author; a consumer as well, unless it is a batch author.
package struct AuthorConfiguration: Sendable, Hashable {
    /// Unique in its store.
    package var name: String
    /// Only writes: it has no cursor and no contexts.
    package var isBatch = false
    package var contexts: [ContextConfiguration] = []
    /// Where it begins when it is new.
    package var startAt = StartingPosition.oldest
    /// For how long commits are gathered before a pass.
    package var batchWindow = Duration.zero
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
        /// - window: How many transactions are sent ahead of the last that was acknowledged.
        /// - maximumValueBytes: The longest text or blob that is sent with changed objects; nil is no values.
        /// - largeIntegers: How integers are sent that are not exact as doubles.
        /// - properties: Of one entity: the columns of which an update must have changed one; nil is any.
        /// - condition: Of one entity: an SQL expression over the columns of a row.
        case feed(
            window: Int = ContextConfiguration.defaultWindow, maximumValueBytes: Int? = nil,
            largeIntegers: LargeIntegers = .number, properties: [String]? = nil, condition: String? = nil)
        /// What a plugin makes of the changes.
        ///
        /// - name: The plugin's, of a manifest.
        case plugin(name: String)
    }

    package static let defaultWindow = 100
    package static let largestWindow = 100_000

    /// Unique in its author.
    package var name: String
    package var kind: Kind
    /// Nil is every tracked entity.
    package var entities: [String]?
    /// Of a feed, if its program acknowledges later than others; nil is the store's.
    package var healthyLag: Duration?
}

/// When history that all consumers have processed is deleted.
package struct CleanConfiguration: Sendable, Hashable {
    package var strategy: CleaningStrategy = .none
    /// How long a consumer may stand still before it no longer blocks; nil is for ever.
    package var maximumDuration: Duration?

    /// History younger than this is not deleted, even if all consumers have received it.
    package var keep: Duration = .zero
}
