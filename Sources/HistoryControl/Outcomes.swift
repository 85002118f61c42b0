/// The result of a reload: the configuration is in force.
package struct ReloadReport: Codable, Sendable, Hashable {
    /// Stores that were started, ended, or restarted because their configuration changed. All others were left
    /// alone.
    package var stores: Changes
    /// Plugins' processes, likewise.
    package var plugins: Changes
    package var hooks: Int
    /// Stores that wait, and for what; nil if there are none.
    package var warnings: [String]?

    package struct Changes: Codable, Sendable, Hashable {
        package var begun: [String] = []
        package var ended: [String] = []
        package var changed: [String] = []
        package var unchanged: [String] = []

        package init() {}
    }

    package init(stores: Changes, plugins: Changes, hooks: Int, warnings: [String]? = nil) {
        self.stores = stores
        self.plugins = plugins
        self.hooks = hooks
        self.warnings = warnings
    }
}

/// Stores, or consumers, that were paused or resumed.
package struct PauseReport: Codable, Sendable, Hashable {
    package var stores: [Store]

    package struct Store: Codable, Sendable, Hashable {
        package var name: String
        /// The only consumer affected; absent if the whole store is.
        package var consumer: String?
        package var paused: Bool
        /// Whether the pause outlives the daemon; absent if there is none.
        package var kept: Bool?
        /// Consumers that stay paused while their store continues; absent if there are none.
        package var pausedConsumers: [String]?

        package init(name: String, paused: Bool) {
            self.name = name
            self.paused = paused
        }
    }

    package init(stores: [Store]) { self.stores = stores }
}

/// The position of a consumer after a wait, or of a feed after an acknowledgement.
package struct PositionReport: Codable, Sendable, Hashable {
    package var store: String
    package var consumer: String
    /// The feed.
    package var context: String?
    /// At or after the requested token.
    package var cursor: String

    package init(store: String, consumer: String, context: String? = nil, cursor: String) {
        self.store = store
        self.consumer = consumer
        self.context = context
        self.cursor = cursor
    }
}

package struct CleanReport: Codable, Sendable, Hashable {
    package var stores: [Store]

    package struct Store: Codable, Sendable, Hashable {
        package var name: String
        /// The oldest token that is valid after the cleanup.
        package var through: String
        /// The number of deleted changes; for a dry run, of those that would be deleted.
        package var changes: Int
        package var isDryRun: Bool
        /// Consumers and feeds for which the rest is kept, the slowest first.
        package var keptFor: [Keeper]
        /// Consumers whose history was deleted, because of `force` or because they have not moved for too long.
        /// They start over.
        package var passedBy: [String]
        /// What is kept because it is younger than `keep`; absent if there is none.
        package var tooYoung: TooYoung?

        package struct TooYoung: Codable, Sendable, Hashable {
            package var changes: Int
            /// The time of the oldest of them.
            package var since: String

            package init(changes: Int, since: String) {
                self.changes = changes
                self.since = since
            }
        }

        package struct Keeper: Codable, Sendable, Hashable {
            package var consumer: String
            /// The consumer's feed, if it is one.
            package var context: String?
            /// The number of changes that it has not received.
            package var changes: Int

            package init(consumer: String, context: String? = nil, changes: Int) {
                self.consumer = consumer
                self.context = context
                self.changes = changes
            }

            /// `Main`, or for a feed `Main/live`.
            package var name: String { context.map { "\(consumer)/\($0)" } ?? consumer }
        }

        package init(
            name: String, through: String, changes: Int, isDryRun: Bool, keptFor: [Keeper],
            passedBy: [String], tooYoung: TooYoung? = nil
        ) {
            self.tooYoung = tooYoung
            self.name = name
            self.through = through
            self.changes = changes
            self.isDryRun = isDryRun
            self.keptFor = keptFor
            self.passedBy = passedBy
        }
    }

    package init(stores: [Store]) { self.stores = stores }
}

/// A context that was filled again.
package struct ResyncReport: Codable, Sendable, Hashable {
    package var store: String
    package var consumer: String
    package var context: String
    /// The position that it shows now.
    package var token: String

    package init(store: String, consumer: String, context: String, token: String) {
        self.store = store
        self.consumer = consumer
        self.context = context
        self.token = token
    }
}

package struct DeadLetterReport: Codable, Sendable, Hashable {
    /// `store:number`.
    package var id: String
    package var store: String
    package var consumer: String
    package var hook: String
    package var delivery: String
    /// `observe`, `merge` or `expired`.
    package var method: String
    package var reason: String
    package var attempts: Int
    package var keptAt: String
    /// The call's parameters as the hook received them: JSON in a string. Nil for a user that may not read the
    /// store.
    package var call: String?

    package init(
        id: String, store: String, consumer: String, hook: String, delivery: String, method: String,
        reason: String, attempts: Int, keptAt: String, call: String?
    ) {
        self.id = id
        self.store = store
        self.consumer = consumer
        self.hook = hook
        self.delivery = delivery
        self.method = method
        self.reason = reason
        self.attempts = attempts
        self.keptAt = keptAt
        self.call = call
    }
}

package struct DeadLetterList: Codable, Sendable, Hashable {
    package var deadLetters: [DeadLetterReport]

    package init(deadLetters: [DeadLetterReport]) { self.deadLetters = deadLetters }
}

/// The outcome for each dead letter, by id.
package struct DeadLetterOutcome: Codable, Sendable, Hashable {
    /// Those whose call has succeeded now: they are removed.
    package var delivered: [String]?
    package var dropped: [String]?
    /// Those that failed again, and are kept.
    package var failed: [Failure]?

    package struct Failure: Codable, Sendable, Hashable {
        package var id: String
        package var reason: String

        package init(id: String, reason: String) {
            self.id = id
            self.reason = reason
        }
    }

    package init(delivered: [String]? = nil, dropped: [String]? = nil, failed: [Failure]? = nil) {
        self.delivered = delivered
        self.dropped = dropped
        self.failed = failed
    }
}

package struct LogLevelReport: Codable, Sendable, Hashable {
    package var logLevel: String

    package init(logLevel: String) { self.logLevel = logLevel }
}
