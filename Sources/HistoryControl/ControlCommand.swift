package import FoundationEssentials

/// Everything that can be asked of a running daemon. Where a store is nil, every store is meant.
package enum ControlCommand: Sendable, Hashable {
    case status
    case health
    /// Answered by text, not JSON.
    case metrics
    case doctor(store: String?)
    case consumers(store: String?)
    /// - to: A token, `oldest`, `newest`, or a date.
    /// - skip: Whether it may go forward.
    /// - dryRun: Whether it is only said what that would be.
    case moveConsumer(
        String, to: String, store: String? = nil, skip: Bool = false, dryRun: Bool = false)
    case hooks
    /// The manifest is the request's body.
    ///
    /// - before: In front of which merge hook those of the manifest go that do not say it themselves.
    /// - persist: Whether they are kept over a restart.
    /// - file: What the manifest is called in messages, and where relative paths in it begin.
    case addHooks(before: UUID? = nil, persist: Bool = false, file: String? = nil)
    case removeHooks(HookSelection)
    case plugins
    case restartPlugin(String)
    /// - hook: Nil is the plugin's first.
    /// - token: The transaction whose call is made; nil for an invented one.
    /// - dryRun: Whether the call is only shown.
    case testPlugin(String, hook: String? = nil, token: String? = nil, dryRun: Bool = false)
    case reload
    /// - consumer: The only one that is meant.
    /// - keep: Whether it stays paused over a restart.
    case pause(store: String?, consumer: String? = nil, keep: Bool = false)
    case resume(store: String?, consumer: String? = nil)
    /// The timeout is a duration as in the configuration; nil is a minute.
    case run(store: String?, timeout: String? = nil)
    /// The timeout is a duration as in the configuration; nil waits as long as it takes.
    case wait(consumer: String, token: String, store: String? = nil, timeout: String? = nil)
    /// - consumer: Only what is delivered to it.
    /// - after: Begin after this transaction; nil begins with what comes.
    case follow(store: String? = nil, consumer: String? = nil, after: String? = nil)
    case feed(FeedRequest)
    case acknowledge(FeedRequest, token: String)
    /// - force: Whether consumers that hold back the cleaning are passed by.
    case clean(store: String? = nil, dryRun: Bool = false, force: Bool = false)
    case resync(context: String, store: String? = nil, consumer: String? = nil)
    case deadLetters(store: String?)
    case retryDeadLetters(DeadLetterSelection)
    case dropDeadLetters(DeadLetterSelection)
    case logLevel
    case setLogLevel(String)
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
