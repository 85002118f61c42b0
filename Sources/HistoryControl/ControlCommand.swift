package import FoundationEssentials

/// Everything that can be asked of a running daemon.
package enum ControlCommand: Sendable, Hashable {
    case status
    case health
    /// Answered by text, not JSON.
    case metrics
    case doctor(store: String?)
    case consumers(store: String?)
    case hooks
    /// The manifest is the request's body.
    case addHooks(HookAddition)
    case removeHooks(HookSelection)
    case plugins
    case restartPlugin(String)
    case testPlugin(PluginTestRequest)
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
package struct HookAddition: Sendable, Hashable {
    /// In front of which merge hook those of the manifest go that do not say it themselves.
    package var before: UUID?
    /// Whether they are kept over a restart.
    package var persist: Bool
    /// What the manifest is called in messages, and where relative paths in it begin.
    package var file: String?

    package init(before: UUID? = nil, persist: Bool = false, file: String? = nil) {
        self.before = before
        self.persist = persist
        self.file = file
    }
}

/// Which hooks are meant.
package struct HookSelection: Sendable, Hashable {
    package enum Which: Sendable, Hashable {
        case id(UUID)
        /// Observers of exactly this entity (`*` for those of every one) and this operation.
        case pair(entity: String, operation: String)
        case all
    }

    package var which: Which
    /// `observer` or `merge`; nil for both.
    package var kind: String?

    package init(_ which: Which, kind: String? = nil) {
        self.which = which
        self.kind = kind
    }
}

package struct WaitRequest: Sendable, Hashable {
    package var store: String?
    package var consumer: String
    package var token: String
    /// A duration as in the configuration; nil waits as long as it takes.
    package var timeout: String?

    package init(store: String? = nil, consumer: String, token: String, timeout: String? = nil) {
        self.store = store
        self.consumer = consumer
        self.token = token
        self.timeout = timeout
    }
}

package struct FollowRequest: Sendable, Hashable {
    package var store: String?
    /// Only what is delivered to this consumer.
    package var consumer: String?
    /// Begin after this transaction; nil begins with what comes.
    package var after: String?

    package init(store: String? = nil, consumer: String? = nil, after: String? = nil) {
        self.store = store
        self.consumer = consumer
        self.after = after
    }
}

/// Which feed is meant.
package struct FeedRequest: Sendable, Hashable {
    package var store: String?
    package var consumer: String
    package var context: String

    package init(store: String? = nil, consumer: String, context: String) {
        self.store = store
        self.consumer = consumer
        self.context = context
    }
}

package struct PluginTestRequest: Sendable, Hashable {
    package var plugin: String
    /// Nil is the plugin's first.
    package var hook: String?
    /// The transaction whose call is made; nil for an invented one.
    package var token: String?
    /// Whether the call is only shown.
    package var dryRun: Bool

    package init(plugin: String, hook: String? = nil, token: String? = nil, dryRun: Bool = false) {
        self.plugin = plugin
        self.hook = hook
        self.token = token
        self.dryRun = dryRun
    }
}

package struct CleanRequest: Sendable, Hashable {
    package var store: String?
    package var dryRun: Bool
    /// Whether consumers that hold back the cleaning are passed by.
    package var force: Bool

    package init(store: String? = nil, dryRun: Bool = false, force: Bool = false) {
        self.store = store
        self.dryRun = dryRun
        self.force = force
    }
}

package struct ResyncRequest: Sendable, Hashable {
    package var context: String
    package var store: String?
    package var consumer: String?

    package init(context: String, store: String? = nil, consumer: String? = nil) {
        self.context = context
        self.store = store
        self.consumer = consumer
    }
}

package struct DeadLetterSelection: Sendable, Hashable {
    /// `store:number`, as the list shows it; nil for all.
    package var id: String?
    /// Of all, only this store's.
    package var store: String?

    package init(id: String? = nil, store: String? = nil) {
        self.id = id
        self.store = store
    }
}
