package import FoundationEssentials

/// Every request to a running daemon. A nil store stands for every store.
package enum ControlCommand: Sendable, Hashable {
    case status
    case health
    /// The answer is text, not JSON.
    case metrics
    case doctor(store: String?)
    case consumers(store: String?)
    /// - to: A token, `oldest`, `newest`, or a date.
    /// - skip: Whether the consumer may move forward.
    /// - dryRun: Whether to report the effect only.
    case moveConsumer(
        String, to: String, store: String? = nil, skip: Bool = false, dryRun: Bool = false)
    case hooks
    /// The manifest is the request's body.
    ///
    /// - before: The merge hook before which to insert those of the manifest that name none themselves.
    /// - persist: Whether they are kept over a restart.
    /// - file: The manifest's name in messages; relative paths in it start at its folder.
    case addHooks(before: UUID? = nil, persist: Bool = false, file: String? = nil)
    case removeHooks(HookSelection)
    case plugins
    case restartPlugin(String)
    /// - hook: Nil for the plugin's first hook.
    /// - token: The transaction for which to make the call; nil for a made-up one.
    /// - dryRun: Whether to show the call only.
    case testPlugin(String, hook: String? = nil, token: String? = nil, dryRun: Bool = false)
    case reload
    /// - consumer: The only consumer to pause; nil pauses the store.
    /// - keep: Whether it stays paused over a restart.
    case pause(store: String?, consumer: String? = nil, keep: Bool = false)
    case resume(store: String?, consumer: String? = nil)
    /// The timeout is a duration as in the configuration; nil stands for one minute.
    case run(store: String?, timeout: String? = nil)
    /// The timeout is a duration as in the configuration; nil waits as long as it takes.
    case wait(consumer: String, token: String, store: String? = nil, timeout: String? = nil)
    /// - consumer: Restricts the stream to what is delivered to this consumer.
    /// - after: The transaction after which to start; nil starts with the next commit.
    case follow(store: String? = nil, consumer: String? = nil, after: String? = nil)
    case feed(FeedRequest)
    case acknowledge(FeedRequest, token: String)
    /// - force: Whether to clean even what other consumers still need.
    case clean(store: String? = nil, dryRun: Bool = false, force: Bool = false)
    case resync(context: String, store: String? = nil, consumer: String? = nil)
    case deadLetters(store: String?)
    case retryDeadLetters(DeadLetterSelection)
    case dropDeadLetters(DeadLetterSelection)
    case logLevel
    case setLogLevel(String)
}

/// Selects hooks.
package struct HookSelection: Sendable, Hashable {
    package enum Which: Sendable, Hashable {
        case id(UUID)
        /// Observers of exactly this entity (`*` selects those of every entity) and this operation.
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

/// Selects a feed.
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
    /// Restricts the selection to this store.
    package var store: String?

    package init(id: String? = nil, store: String? = nil) {
        self.id = id
        self.store = store
    }
}
