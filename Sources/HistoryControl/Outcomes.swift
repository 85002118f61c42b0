/// A configuration that was read again and is in force.
public struct ReloadReport: Codable, Sendable, Hashable {
    /// Stores that were begun, ended, or begun anew because their configuration changed; all others
    /// were left alone.
    public var stores: Changes
    /// Plugins' processes, likewise.
    public var plugins: Changes
    public var hooks: Int
    /// Stores that wait, and what for; nil where none does.
    public var warnings: [String]?

    public struct Changes: Codable, Sendable, Hashable {
        public var begun: [String]
        public var ended: [String]
        public var changed: [String]
        public var unchanged: [String]

        public init(begun: [String], ended: [String], changed: [String], unchanged: [String]) {
            self.begun = begun
            self.ended = ended
            self.changed = changed
            self.unchanged = unchanged
        }
    }

    public init(stores: Changes, plugins: Changes, hooks: Int, warnings: [String]? = nil) {
        self.stores = stores
        self.plugins = plugins
        self.hooks = hooks
        self.warnings = warnings
    }
}

/// Stores that were paused, or go on.
public struct PauseReport: Codable, Sendable, Hashable {
    public var stores: [Store]

    public struct Store: Codable, Sendable, Hashable {
        public var name: String
        public var paused: Bool

        public init(name: String, paused: Bool) {
            self.name = name
            self.paused = paused
        }
    }

    public init(stores: [Store]) { self.stores = stores }
}

/// A place that a consumer has reached.
public struct WaitReport: Codable, Sendable, Hashable {
    public var store: String
    public var consumer: String
    /// Where its cursor is, at the token waited for or after it.
    public var cursor: String

    public init(store: String, consumer: String, cursor: String) {
        self.store = store
        self.consumer = consumer
        self.cursor = cursor
    }
}

/// Where a feed is after what was acknowledged.
public struct AcknowledgeReport: Codable, Sendable, Hashable {
    public var store: String
    public var consumer: String
    public var context: String
    public var cursor: String

    public init(store: String, consumer: String, context: String, cursor: String) {
        self.store = store
        self.consumer = consumer
        self.context = context
        self.cursor = cursor
    }
}

public struct CleanReport: Codable, Sendable, Hashable {
    public var stores: [Store]

    public struct Store: Codable, Sendable, Hashable {
        public var name: String
        /// The oldest token that works afterwards, or would.
        public var through: String
        /// Changes that were deleted; for a dry run, that would be.
        public var changes: Int
        public var isDryRun: Bool
        /// Consumers and feeds for whose sake the rest is kept, the slowest first.
        public var keptFor: [Keeper]
        /// Consumers that were passed by, with `force` or because they have stood still for too long:
        /// they begin anew.
        public var passedBy: [String]

        public struct Keeper: Codable, Sendable, Hashable {
            public var consumer: String
            /// The consumer's feed, where it is one.
            public var context: String?
            /// The changes that it has not had.
            public var changes: Int

            public init(consumer: String, context: String? = nil, changes: Int) {
                self.consumer = consumer
                self.context = context
                self.changes = changes
            }

            /// `Main`, or for a feed `Main/live`.
            public var name: String { context.map { "\(consumer)/\($0)" } ?? consumer }
        }

        public init(
            name: String, through: String, changes: Int, isDryRun: Bool, keptFor: [Keeper], passedBy: [String]
        ) {
            self.name = name
            self.through = through
            self.changes = changes
            self.isDryRun = isDryRun
            self.keptFor = keptFor
            self.passedBy = passedBy
        }
    }

    public init(stores: [Store]) { self.stores = stores }
}

/// A context that was filled anew.
public struct ResyncReport: Codable, Sendable, Hashable {
    public var store: String
    public var consumer: String
    public var context: String
    /// What it shows now.
    public var token: String

    public init(store: String, consumer: String, context: String, token: String) {
        self.store = store
        self.consumer = consumer
        self.context = context
        self.token = token
    }
}

public struct DeadLetterReport: Codable, Sendable, Hashable {
    /// `store:number`.
    public var id: String
    public var store: String
    public var consumer: String
    public var hook: String
    public var delivery: String
    public var reason: String
    public var attempts: Int
    public var keptAt: String
    /// The call's parameters, as the hook got them: JSON in a text.
    public var call: String

    public init(
        id: String, store: String, consumer: String, hook: String, delivery: String, reason: String,
        attempts: Int, keptAt: String, call: String
    ) {
        self.id = id
        self.store = store
        self.consumer = consumer
        self.hook = hook
        self.delivery = delivery
        self.reason = reason
        self.attempts = attempts
        self.keptAt = keptAt
        self.call = call
    }
}

public struct DeadLetterList: Codable, Sendable, Hashable {
    public var deadLetters: [DeadLetterReport]

    public init(deadLetters: [DeadLetterReport]) { self.deadLetters = deadLetters }
}

/// What became of dead letters, by id.
public struct DeadLetterOutcome: Codable, Sendable, Hashable {
    /// Those whose call has succeeded now: they are gone.
    public var delivered: [String]?
    public var dropped: [String]?
    /// Those that failed again, and stay.
    public var failed: [Failure]?

    public struct Failure: Codable, Sendable, Hashable {
        public var id: String
        public var reason: String

        public init(id: String, reason: String) {
            self.id = id
            self.reason = reason
        }
    }

    public init(delivered: [String]? = nil, dropped: [String]? = nil, failed: [Failure]? = nil) {
        self.delivered = delivered
        self.dropped = dropped
        self.failed = failed
    }
}

public struct LogLevelReport: Codable, Sendable, Hashable {
    public var logLevel: String

    public init(logLevel: String) { self.logLevel = logLevel }
}
