public import FoundationEssentials

/// Everything that can be asked of a running daemon.
public enum ControlCommand: Sendable, Hashable {
    case status
    case consumers(store: String?)
    case hooks
    /// The manifest is the request's body.
    case addHooks(HookAddition)
    case removeHooks(HookSelection)
    case reload
    /// Nil is every store.
    case pause(store: String?)
    case resume(store: String?)
    /// The timeout is a duration as in the configuration; nil is a minute.
    case run(store: String?, timeout: String? = nil)
    case wait(WaitRequest)
    case follow(FollowRequest)
    case feed(FeedRequest)
    case acknowledge(FeedRequest, token: String)
    case clean(CleanRequest)
    case resync(ResyncRequest)
    case deadLetters(store: String?)
    case retryDeadLetters(DeadLetterSelection)
    case dropDeadLetters(DeadLetterSelection)
    case logLevel
    case setLogLevel(String)
}

/// How a manifest joins those in force.
public struct HookAddition: Sendable, Hashable {
    /// In front of which merge hook those of the manifest go that do not say it themselves.
    public var before: UUID?
    /// Whether they are kept over a restart.
    public var persist: Bool
    /// What the manifest is called in messages, and where relative paths in it begin.
    public var file: String?

    public init(before: UUID? = nil, persist: Bool = false, file: String? = nil) {
        self.before = before
        self.persist = persist
        self.file = file
    }
}

/// Which hooks are meant.
public struct HookSelection: Sendable, Hashable {
    public enum Which: Sendable, Hashable {
        case id(UUID)
        /// Observers of exactly this entity (`*` for those of every one) and this operation.
        case pair(entity: String, operation: String)
        case all
    }

    public var which: Which
    /// `observer` or `merge`; nil for both.
    public var kind: String?

    public init(_ which: Which, kind: String? = nil) {
        self.which = which
        self.kind = kind
    }
}

public struct WaitRequest: Sendable, Hashable {
    public var store: String?
    public var consumer: String
    public var token: String
    /// A duration as in the configuration; nil waits as long as it takes.
    public var timeout: String?

    public init(store: String? = nil, consumer: String, token: String, timeout: String? = nil) {
        self.store = store
        self.consumer = consumer
        self.token = token
        self.timeout = timeout
    }
}

public struct FollowRequest: Sendable, Hashable {
    public var store: String?
    /// Only what this consumer is told of.
    public var consumer: String?
    /// Begin after this transaction; nil begins with what comes.
    public var after: String?

    public init(store: String? = nil, consumer: String? = nil, after: String? = nil) {
        self.store = store
        self.consumer = consumer
        self.after = after
    }
}

/// Which feed is meant.
public struct FeedRequest: Sendable, Hashable {
    public var store: String?
    public var consumer: String
    public var context: String

    public init(store: String? = nil, consumer: String, context: String) {
        self.store = store
        self.consumer = consumer
        self.context = context
    }
}

public struct CleanRequest: Sendable, Hashable {
    public var store: String?
    public var dryRun: Bool
    /// Whether consumers that hold back the cleaning are passed by.
    public var force: Bool

    public init(store: String? = nil, dryRun: Bool = false, force: Bool = false) {
        self.store = store
        self.dryRun = dryRun
        self.force = force
    }
}

public struct ResyncRequest: Sendable, Hashable {
    public var context: String
    public var store: String?
    public var consumer: String?

    public init(context: String, store: String? = nil, consumer: String? = nil) {
        self.context = context
        self.store = store
        self.consumer = consumer
    }
}

public struct DeadLetterSelection: Sendable, Hashable {
    /// `store:number`, as the list shows it; nil for all.
    public var id: String?
    /// Of all, only this store's.
    public var store: String?

    public init(id: String? = nil, store: String? = nil) {
        self.id = id
        self.store = store
    }
}
