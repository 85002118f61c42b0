/// What a consumer, a replica or a feed has not received of a store's history.
package struct LagReport: Codable, Sendable, Hashable {
    package var transactions: Int
    /// Whether there are more: a long backlog is not counted completely. Absent otherwise.
    package var isAtLeast: Bool?
    /// The age of the oldest of them; 0 if there are none.
    package var seconds: Double

    package init(transactions: Int, isAtLeast: Bool?, seconds: Double) {
        self.transactions = transactions
        self.isAtLeast = isAtLeast
        self.seconds = seconds
    }
}

/// Whether the daemon does its work.
package struct HealthReport: Codable, Sendable, Hashable {
    package enum Verdict: String, Codable, Sendable, CaseIterable, Comparable {
        case healthy
        /// Everything is delivered, but something needs attention.
        case degraded
        /// Something is not delivered.
        case failing

        package static func < (a: Self, b: Self) -> Bool { a.rank < b.rank }

        /// The exit status of `historyctl health`.
        package var rank: Int32 { Int32(Self.allCases.firstIndex(of: self) ?? 0) }
    }

    /// The cause of a verdict other than healthy.
    package enum Cause: String, Codable, Sendable, CaseIterable {
        /// The daemon does not answer. Only `historyctl` reports this.
        case notAnswering
        /// The system refuses threads that stores need.
        case threadsLacking
        case storeNotOpen
        /// A folder whose files are stores cannot be watched.
        case folderNotWatched
        /// A folder has more files than `maximumStores`: the others are not served.
        case folderCrowded
        /// A store waits for a lock or for a disk.
        case storeStuck
        /// The state of a store cannot be written: its consumers wait.
        case stateNotWritable
        /// A configured entity is not tracked: its changes are not recorded.
        case notTracked
        /// A hook failed for the last time: its consumer waits.
        case hookHeld
        /// A consumer cannot continue.
        case consumerStuck
        /// A replica cannot be written.
        case replicaNotWritable
        /// A plugin does not process the changes of a context that it keeps.
        case contextFailing
        /// A plugin's process keeps ending.
        case pluginFailing
        /// A consumer or a replica lags by more than `healthyLag`.
        case lagging
        /// A hook failed, and is retried.
        case hookRetrying
        /// A plugin's process has ended, and has not worked since.
        case pluginRestarting
        /// There is no such folder of stores, yet or any more.
        case folderMissing
        /// Calls were given up, and are kept to be retried or dropped.
        case deadLetters
        /// A feed's client has not acknowledged for longer than `healthyLag`.
        case feedLagging
        /// History is kept for a consumer that has not moved for a long time.
        case historyKept
        /// History cannot be cleaned.
        case cleaningFailing
        /// An operator has paused the delivery.
        case paused
        /// The configuration was reloaded and refused: an older one is in force.
        case reloadRefused

        /// How severe it is.
        package var verdict: Verdict {
            switch self {
            case .notAnswering, .threadsLacking, .storeNotOpen, .folderNotWatched, .folderCrowded, .storeStuck,
                .stateNotWritable, .notTracked,
                .hookHeld,
                .consumerStuck,
                .replicaNotWritable,
                .contextFailing, .pluginFailing, .lagging:
                .failing
            case .hookRetrying, .pluginRestarting, .folderMissing, .deadLetters, .feedLagging, .historyKept,
                .cleaningFailing, .paused, .reloadRefused:
                .degraded
            }
        }
    }

    package struct Reason: Codable, Sendable, Hashable {
        package var verdict: Verdict
        package var cause: Cause
        /// Where the problem is; members that do not apply are absent.
        package var store: String?
        package var consumer: String?
        package var context: String?
        package var hook: String?
        package var plugin: String?
        /// For readers.
        package var message: String

        package init(
            _ cause: Cause, _ message: String, store: String? = nil, consumer: String? = nil,
            context: String? = nil, hook: String? = nil, plugin: String? = nil
        ) {
            verdict = cause.verdict
            self.cause = cause
            self.message = message
            self.store = store
            self.consumer = consumer
            self.context = context
            self.hook = hook
            self.plugin = plugin
        }
    }

    package var verdict: Verdict
    /// The most severe first; empty if healthy.
    package var reasons: [Reason]

    package init(reasons: [Reason]) {
        // In the order of the causes, then in the given order.
        let order = Cause.allCases.enumerated().reduce(into: [Cause: Int]()) { $0[$1.element] = $1.offset }
        self.reasons = reasons.enumerated().sorted {
            (order[$0.element.cause] ?? 0, $0.offset) < (order[$1.element.cause] ?? 0, $1.offset)
        }.map(\.element)
        verdict = reasons.map(\.verdict).max() ?? .healthy
    }
}
