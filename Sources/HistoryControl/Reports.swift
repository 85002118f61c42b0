/// The state of the daemon.
package struct DaemonReport: Codable, Sendable, Hashable {
    package var version: String
    package var processID: Int32
    /// ISO 8601 in UTC, like all times.
    package var startedAt: String
    /// The line that `systemctl status` shows.
    package var summary: String
    /// The configuration's file.
    package var configuration: String
    package var logLevel: String
    /// The last attempt to reload the configuration; absent before the first.
    package var reload: ReloadAttempt?
    package var hooks: Int
    /// The plugins with a long-running process; members may be added.
    package var plugins: [PluginReport]?
    package var stores: [StoreReport]
    /// Folders whose files are stores; absent if there are none.
    package var templates: [TemplateReport]?

    package init(
        version: String, processID: Int32, startedAt: String, summary: String, configuration: String,
        logLevel: String, hooks: Int, stores: [StoreReport]
    ) {
        self.version = version
        self.processID = processID
        self.startedAt = startedAt
        self.summary = summary
        self.configuration = configuration
        self.logLevel = logLevel
        self.hooks = hooks
        self.stores = stores
    }
}

/// A plugin with a long-running process.
package struct PluginReport: Codable, Sendable, Hashable {
    package enum State: String, Codable, Sendable, CaseIterable {
        case running
        /// Its process has ended, or could not be started, and has not worked since.
        case failing
    }

    package var name: String
    package var state: State
    /// How often its process has ended by itself, or could not be started.
    package var failures: Int
    package var problem: String?

    package init(name: String, state: State, failures: Int) {
        self.name = name
        self.state = state
        self.failures = failures
    }
}

package struct ReloadAttempt: Codable, Sendable, Hashable {
    package var at: String
    /// Empty if the configuration was accepted.
    package var problems: [String]

    package init(at: String, problems: [String]) {
        self.at = at
        self.problems = problems
    }
}

package struct StoreReport: Codable, Sendable, Hashable {
    package enum State: String, Codable, Sendable, CaseIterable {
        case open
        /// Missing or unreadable: the daemon tries again when something changes.
        case waiting
        /// Nothing is delivered until `resume`.
        case paused
        /// Idle: it is opened with the next commit.
        case resting
    }

    package var name: String
    package var path: String
    /// The name of the store's entry, if that has a folder.
    package var template: String?
    package var state: State
    /// Why it waits.
    package var problem: String?
    /// The newest transaction's token; absent while the store is not open.
    package var newest: String?
    /// The oldest valid token.
    package var oldest: String?
    /// Configured entities that are not tracked as configured; absent if all are.
    package var untracked: [UntrackedEntity]?
    /// How many changes by unlisted authors are kept forever, because they are neither delivered nor cleaned.
    /// Absent if they are.
    package var unlistedChanges: Int?
    /// Whether history is deleted only by hand; absent if a strategy does it.
    package var neverCleaned: Bool?
    /// What a cleanup waits for; absent if none waits for long.
    package var cleaningWaits: String?
    /// How many changes the history has, without those that an earlier cleanup kept; absent while the store is
    /// not open.
    package var changes: Int64?
    package var consumers: [ConsumerReport] = []

    package init(name: String, path: String, state: State) {
        self.name = name
        self.path = path
        self.state = state
    }
}

/// A configured entity whose changes are not recorded, or not as configured.
package struct UntrackedEntity: Codable, Sendable, Hashable {
    package var entity: String
    package var reason: String

    package init(entity: String, reason: String) {
        self.entity = entity
        self.reason = reason
    }
}

package struct ConsumerReport: Codable, Sendable, Hashable {
    package enum State: String, Codable, Sendable, CaseIterable {
        /// It has received everything.
        case level
        /// There is more for it, and it is processing that.
        case behind
        /// There is more for it, and its batch window has not ended.
        case gathering
        /// Something failed, and is retried.
        case retrying
        /// A hook failed for the last time: the consumer waits for that hook, which is retried.
        case held
        case paused
        /// Its store is not open.
        case waiting
    }

    package var store: String
    package var consumer: String
    /// The name of the store's entry, if that has a folder.
    package var template: String?
    package var state: State
    /// The last transaction that it is done with.
    package var cursor: String?
    /// When that was.
    package var movedAt: String?
    /// How far its cursor's number is behind the newest token's: this counts changes, its own included.
    package var behind: Int64?
    /// What it has not received.
    package var lag: LagReport?
    /// The hook that holds it, or that failed.
    package var hook: String?
    package var problem: String?
    /// Calls that were given up, and are kept to be retried or dropped.
    package var deadLetters: Int?
    /// The position up to which its hooks are called again, because it was moved back; absent otherwise.
    package var replayThrough: String?
    /// When its batch window ends, while it gathers commits.
    package var windowEndsAt: String?
    package var contexts: [ContextReport] = []

    package init(store: String, consumer: String, state: State) {
        self.store = store
        self.consumer = consumer
        self.state = state
    }
}

package struct ContextReport: Codable, Sendable, Hashable {
    package var name: String
    package var kind: String
    package var path: String?
    /// The plugin that keeps it.
    package var plugin: String?
    /// Why it cannot be updated at the moment.
    package var problem: String?
    /// What it has not received.
    package var lag: LagReport?
    package var feed: FeedReport?

    package init(name: String, kind: String) {
        self.name = name
        self.kind = kind
    }
}

package struct FeedReport: Codable, Sendable, Hashable {
    package enum State: String, Codable, Sendable, CaseIterable {
        case connected
        /// It keeps its position.
        case disconnected
        /// It has lost history, and has not acknowledged the loss yet.
        case expired
    }

    package var state: State
    /// The connected process.
    package var processID: Int32?
    /// The last transaction that was acknowledged.
    package var cursor: String
    /// When that was.
    package var movedAt: String
    /// How far its number is behind the newest token's: this counts the changes that are kept for it, its
    /// consumer's own included until a cleanup deletes them.
    package var behind: Int64

    package init(state: State, processID: Int32?, cursor: String, movedAt: String, behind: Int64) {
        self.state = state
        self.processID = processID
        self.cursor = cursor
        self.movedAt = movedAt
        self.behind = behind
    }
}

package struct ConsumerList: Codable, Sendable, Hashable {
    package var consumers: [ConsumerReport]

    package init(consumers: [ConsumerReport]) { self.consumers = consumers }
}
