/// What the daemon is about.
public struct DaemonReport: Codable, Sendable, Hashable {
    public var version: String
    public var processID: Int32
    /// ISO 8601 UTC, as all times.
    public var startedAt: String
    /// The line that `systemctl status` shows.
    public var summary: String
    /// The configuration's file.
    public var configuration: String
    public var logLevel: String
    /// The last attempt to read the configuration again; not there before the first.
    public var reload: ReloadAttempt?
    public var hooks: Int
    /// Those with a process that is kept; new members may come.
    public var plugins: [PluginReport]?
    public var stores: [StoreReport]

    public init(
        version: String, processID: Int32, startedAt: String, summary: String, configuration: String,
        logLevel: String, reload: ReloadAttempt?, hooks: Int, plugins: [PluginReport]?, stores: [StoreReport]
    ) {
        self.version = version
        self.processID = processID
        self.startedAt = startedAt
        self.summary = summary
        self.configuration = configuration
        self.logLevel = logLevel
        self.reload = reload
        self.hooks = hooks
        self.plugins = plugins
        self.stores = stores
    }
}

/// A plugin whose process is kept.
public struct PluginReport: Codable, Sendable, Hashable {
    public enum State: String, Codable, Sendable {
        case running
        /// Its process has ended, or could not be started, and has not worked since.
        case failing
    }

    public var name: String
    public var state: State
    /// How often its process has ended by itself, or could not be started.
    public var failures: Int
    public var problem: String?

    public init(name: String, state: State, failures: Int, problem: String?) {
        self.name = name
        self.state = state
        self.failures = failures
        self.problem = problem
    }
}

public struct ReloadAttempt: Codable, Sendable, Hashable {
    public var at: String
    /// Empty where the configuration was taken.
    public var problems: [String]

    public init(at: String, problems: [String]) {
        self.at = at
        self.problems = problems
    }
}

public struct StoreReport: Codable, Sendable, Hashable {
    public enum State: String, Codable, Sendable {
        case open
        /// Not there, or not to be read: it is tried again when something changes.
        case waiting
        /// Nothing is delivered until `resume`.
        case paused
    }

    public var name: String
    public var path: String
    public var state: State
    /// Why it waits.
    public var problem: String?
    /// The newest transaction's; not there while the store is not open.
    public var newest: String?
    /// The oldest token that still works.
    public var oldest: String?
    public var consumers: [ConsumerReport]

    public init(
        name: String, path: String, state: State, problem: String?, newest: String?, oldest: String?,
        consumers: [ConsumerReport]
    ) {
        self.name = name
        self.path = path
        self.state = state
        self.problem = problem
        self.newest = newest
        self.oldest = oldest
        self.consumers = consumers
    }
}

public struct ConsumerReport: Codable, Sendable, Hashable {
    public enum State: String, Codable, Sendable {
        /// It has had everything.
        case level
        /// There is more for it, and it is at work.
        case behind
        /// Something failed, and is tried again.
        case retrying
        /// A hook failed for the last time: it waits for that hook, which is tried again.
        case held
        case paused
        /// Its store is not open.
        case waiting
    }

    public var store: String
    public var consumer: String
    public var state: State
    /// The last transaction that it is done with.
    public var cursor: String?
    /// When that was.
    public var movedAt: String?
    /// How many numbers its cursor is behind the newest token: changes, its own included.
    public var behind: Int64?
    /// What it is held by, or what failed.
    public var hook: String?
    public var problem: String?
    /// Calls that were given up, and wait to be retried or dropped.
    public var deadLetters: Int?
    public var contexts: [ContextReport]

    public init(
        store: String, consumer: String, state: State, cursor: String?, movedAt: String?, behind: Int64?,
        hook: String?, problem: String?, deadLetters: Int?, contexts: [ContextReport]
    ) {
        self.store = store
        self.consumer = consumer
        self.state = state
        self.cursor = cursor
        self.movedAt = movedAt
        self.behind = behind
        self.hook = hook
        self.problem = problem
        self.deadLetters = deadLetters
        self.contexts = contexts
    }
}

public struct ContextReport: Codable, Sendable, Hashable {
    public var name: String
    public var kind: String
    public var path: String?
    /// Why a replica can not be merged into at present.
    public var problem: String?
    /// How a feed is.
    public var feed: FeedReport?

    public init(name: String, kind: String, path: String?, problem: String? = nil, feed: FeedReport? = nil) {
        self.name = name
        self.kind = kind
        self.path = path
        self.problem = problem
        self.feed = feed
    }
}

public struct FeedReport: Codable, Sendable, Hashable {
    public enum State: String, Codable, Sendable {
        case connected
        /// It keeps its place.
        case disconnected
        /// It has lost history, and has yet to acknowledge that it has begun anew.
        case expired
    }

    public var state: State
    /// The process that is connected.
    public var processID: Int32?
    /// The last transaction that was acknowledged.
    public var cursor: String
    /// When that was.
    public var movedAt: String
    /// How many numbers that is behind the newest token: changes that are kept for it, its consumer's own
    /// included until a cleanup passes over them.
    public var behind: Int64

    public init(state: State, processID: Int32?, cursor: String, movedAt: String, behind: Int64) {
        self.state = state
        self.processID = processID
        self.cursor = cursor
        self.movedAt = movedAt
        self.behind = behind
    }
}

public struct ConsumerList: Codable, Sendable, Hashable {
    public var consumers: [ConsumerReport]

    public init(consumers: [ConsumerReport]) { self.consumers = consumers }
}

public struct HookReport: Codable, Sendable, Hashable {
    public enum Origin: String, Codable, Sendable {
        case manifest
        /// Added to the running daemon: gone when it ends.
        case added
        /// Added to the running daemon, and kept.
        case persisted
    }

    /// The place in the order of its kind, from 1.
    public var position: Int
    public var id: String
    public var name: String
    public var kind: String
    /// For an observer; `*` is every entity.
    public var entity: String?
    /// For an observer.
    public var operations: [String]?
    /// Not there for every store, every consumer.
    public var store: String?
    public var consumer: String?
    public var before: String?
    public var origin: Origin
    /// Since the daemon began, or the hook was added: calls that succeeded, attempts that failed.
    public var calls: Int
    public var failures: Int
    public var lastCallAt: String?
    public var lastError: String?
    public var lastErrorAt: String?

    public init(
        position: Int, id: String, name: String, kind: String, entity: String?, operations: [String]?,
        store: String?, consumer: String?, before: String?, origin: Origin, calls: Int, failures: Int,
        lastCallAt: String?, lastError: String?, lastErrorAt: String?
    ) {
        self.position = position
        self.id = id
        self.name = name
        self.kind = kind
        self.entity = entity
        self.operations = operations
        self.store = store
        self.consumer = consumer
        self.before = before
        self.origin = origin
        self.calls = calls
        self.failures = failures
        self.lastCallAt = lastCallAt
        self.lastError = lastError
        self.lastErrorAt = lastErrorAt
    }
}

public struct HookList: Codable, Sendable, Hashable {
    public var hooks: [HookReport]

    public init(hooks: [HookReport]) { self.hooks = hooks }
}

/// Hooks that came or went.
public struct HookChange: Codable, Sendable, Hashable {
    public var added: [HookName]?
    public var removed: [HookName]?

    public init(added: [HookName]? = nil, removed: [HookName]? = nil) {
        self.added = added
        self.removed = removed
    }
}

public struct HookName: Codable, Sendable, Hashable {
    public var id: String
    public var name: String
    public var kind: String

    public init(id: String, name: String, kind: String) {
        self.id = id
        self.name = name
        self.kind = kind
    }
}
