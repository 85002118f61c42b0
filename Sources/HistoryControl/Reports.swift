/// What the daemon is about.
package struct DaemonReport: Codable, Sendable, Hashable {
    package var version: String
    package var processID: Int32
    /// ISO 8601 UTC, as all times.
    package var startedAt: String
    /// The line that `systemctl status` shows.
    package var summary: String
    /// The configuration's file.
    package var configuration: String
    package var logLevel: String
    /// The last attempt to read the configuration again; not there before the first.
    package var reload: ReloadAttempt?
    package var hooks: Int
    /// Those with a process that is kept; new members may come.
    package var plugins: [PluginReport]?
    package var stores: [StoreReport]
    /// Folders whose files are stores; not there where there are none.
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

/// A plugin whose process is kept.
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
    /// Empty if the configuration was taken.
    package var problems: [String]

    package init(at: String, problems: [String]) {
        self.at = at
        self.problems = problems
    }
}

package struct StoreReport: Codable, Sendable, Hashable {
    package enum State: String, Codable, Sendable, CaseIterable {
        case open
        /// Not there, or not to be read: it is tried again when something changes.
        case waiting
        /// Nothing is delivered until `resume`.
        case paused
    }

    package var name: String
    package var path: String
    /// The name of the entry, if that has a folder.
    package var template: String?
    package var state: State
    /// Why it waits.
    package var problem: String?
    /// The newest transaction's; not there while the store is not open.
    package var newest: String?
    /// The oldest token that still works.
    package var oldest: String?
    /// Configured entities that are not tracked as configured; not there where all are.
    package var untracked: [UntrackedEntity]?
    /// How many changes by unlisted authors are kept for ever: those are neither delivered nor cleaned. Not there
    /// where they are.
    package var unlistedChanges: Int?
    /// Whether history is deleted only by hand; not there where a strategy does it.
    package var neverCleaned: Bool?
    /// What a cleanup waits for; not there where none waits for long.
    package var cleaningWaits: String?
    /// How many changes the history has, but for those that were kept in an earlier cleanup; not there while the store
    /// is not open.
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
        /// It has had everything.
        case level
        /// There is more for it, and it is at work.
        case behind
        /// There is more for it, and its batch window is not over.
        case gathering
        /// Something failed, and is tried again.
        case retrying
        /// A hook failed for the last time: it waits for that hook, which is tried again.
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
    /// How many numbers its cursor is behind the newest token: changes, its own included.
    package var behind: Int64?
    /// What it has not had.
    package var lag: LagReport?
    /// What it is held by, or what failed.
    package var hook: String?
    package var problem: String?
    /// Calls that were given up, and wait to be retried or dropped.
    package var deadLetters: Int?
    /// Up to where its hooks are called again, because it was moved back; not there otherwise.
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
    /// Which plugin keeps it.
    package var plugin: String?
    /// Why it cannot be updated now.
    package var problem: String?
    /// What it has not had.
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
        /// It keeps its place.
        case disconnected
        /// It has lost history, and has not acknowledged that yet.
        case expired
    }

    package var state: State
    /// The process that is connected.
    package var processID: Int32?
    /// The last transaction that was acknowledged.
    package var cursor: String
    /// When that was.
    package var movedAt: String
    /// How many numbers that is behind the newest token: changes that are kept for it, its consumer's own
    /// included until a cleanup passes over them.
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
