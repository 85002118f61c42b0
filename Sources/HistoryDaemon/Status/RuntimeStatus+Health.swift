import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// The health verdict: a pure function of all that is known, so that no problem is missed by chance.
extension RuntimeStatus {
    /// How long work may lack a thread: threads are requested ten times a second.
    private static let longestLack: Duration = .seconds(1)

    func health(at now: HistoryTimestamp) -> HealthReport {
        var reasons: [HealthReport.Reason] = []
        if let refusal { reasons.append(.init(.reloadRefused, "The last reload was refused: \(refusal)")) }
        if lackingThreads.time >= Self.longestLack {
            reasons.append(
                .init(
                    .threadsLacking,
                    "The system has refused threads for \(lackingThreads.time.components.seconds) s: \(lackingThreads.count, "task") waiting. Raise TasksMax= of the unit, or the limit of processes."
                ))
        }
        for (name, plugin) in plugins.sorted(by: { $0.key < $1.key }) {
            guard let problem = plugin.problem else { continue }
            reasons.append(
                .init(plugin.isFailing ? .pluginFailing : .pluginRestarting, problem, plugin: name))
        }
        for (name, folder) in folders.sorted(by: { $0.key < $1.key }) {
            if let problem = folder.problem {
                reasons.append(
                    .init(
                        .folderNotWatched,
                        "The folder \"\(folder.path)\" of \"\(name)\" is not watched. \(problem)"
                    ))
            }
            if folder.isMissing {
                reasons.append(
                    .init(
                        .folderMissing,
                        "The folder \"\(folder.path)\" of \"\(name)\" does not exist: none of its stores is served. Make it, or mount what it is on."
                    ))
            }
            if let maximum = folder.maximum {
                reasons.append(
                    .init(
                        .folderCrowded,
                        "The folder \"\(folder.path)\" of \"\(name)\" has more than \(maximum) files: the others are not served. Raise \"maximumStores\"."
                    ))
            }
        }
        for (name, store) in stores.sorted(by: { $0.key < $1.key }) {
            let limit = healthyLags[name] ?? StoreConfiguration.defaultHealthyLag
            reasons += store.reasons(name, limit, healthyFeedLags, at: now)
        }
        return HealthReport(reasons: withoutRepetitions(reasons))
    }

    /// At most this many stores of a folder are named for a cause.
    private static let mostNamed = 10

    /// Names only some of a folder's stores for the same cause, and counts the rest.
    private func withoutRepetitions(_ reasons: [HealthReport.Reason]) -> [HealthReport.Reason] {
        struct Key: Hashable {
            let template: String
            let cause: HealthReport.Cause
        }
        if templates.isEmpty { return reasons }
        var counts: [Key: Int] = [:]
        let kept = reasons.filter { reason in
            guard let template = reason.store.flatMap({ templates[$0] }) else { return true }
            counts[Key(template: template, cause: reason.cause), default: 0] += 1
            return counts[Key(template: template, cause: reason.cause), default: 0] <= Self.mostNamed
        }
        let rest = counts.filter { $0.value > Self.mostNamed }.sorted { $0.key.template < $1.key.template }
        return kept
            + rest.map { key, count in
                .init(
                    key.cause,
                    "The same of stores of \"\(key.template)\": \(count - Self.mostNamed, "reason") more.")
            }
    }
}

extension RuntimeStatus.Store {
    /// A read or a save that takes this long waits for something.
    fileprivate static let stuckTime: Duration = .seconds(1)
    /// A store that has changed and could not be read for this long is stuck, whatever the reason.
    fileprivate static let longestUnreadTime: Duration = .seconds(10)
    /// How long a context may wait for a lock or a disk.
    private static let longestContextWait: Duration = .seconds(3)

    private var isUnread: Bool { standing.unreadTime ?? .zero >= Self.longestUnreadTime }
    private var isStateStuck: Bool { standing.stateTime ?? .zero >= Self.stuckTime }
    /// Whether the store makes no progress.
    var isStuck: Bool {
        isUnread || isStateStuck || unresponsiveTime ?? .zero >= Self.stuckTime
            || standing.contexts.contains { $0.time >= Self.longestContextWait }
    }
    /// A history with this many changes that is never cleaned is probably an oversight.
    static let manyChanges: Int64 = 1_000_000

    fileprivate func reasons(
        _ name: String, _ limit: Duration, _ feedLimits: [[String]: Duration], at now: HistoryTimestamp
    ) -> [HealthReport.Reason] {
        var reasons: [HealthReport.Reason] = []
        func add(_ cause: HealthReport.Cause, _ message: String, _ consumer: String? = nil) {
            reasons.append(.init(cause, message, store: name, consumer: consumer))
        }
        if let problem { add(.storeNotOpen, "Store \"\(name)\" is not open: \(problem)") }
        if isStateFailing || stateProblem != nil {
            add(
                .stateNotWritable,
                stateProblem.map { "The state of store \"\(name)\" is lost: \($0)" }
                    ?? "The state of store \"\(name)\" cannot be written.")
        } else if isStateStuck, let time = standing.stateTime {
            add(
                .stateNotWritable,
                "The state of store \"\(name)\" could not be used for \(time.components.seconds) s: it waits for a lock or a disk."
            )
        }
        if problem == nil, isUnread, let time = standing.unreadTime {
            add(
                .storeStuck,
                "Store \"\(name)\" changed \(time.components.seconds) s ago, and could not be read since: it waits for a lock of another process, or for a disk."
            )
        } else if problem == nil, !isStateStuck, let unresponsiveTime, unresponsiveTime >= Self.stuckTime {
            add(
                .storeStuck,
                "Store \"\(name)\" has not answered for \(unresponsiveTime.components.seconds) s: it waits for a lock or a disk."
            )
        }
        for context in standing.contexts where context.time >= Self.longestContextWait {
            reasons.append(
                .init(
                    .replicaNotWritable,
                    "Context \"\(context.name)\" of \"\(context.consumer)\" has waited for \(context.time.components.seconds) s for its disk or a lock.",
                    store: name, consumer: context.consumer, context: context.name))
        }
        if let trackingProblem {
            add(.notTracked, "Store \"\(name)\" is not tracked as configured: \(trackingProblem)")
        }
        for (_, reason) in untracked.sorted(by: { $0.key < $1.key }) {
            add(.notTracked, "Store \"\(name)\" is not tracked as configured: \(reason)")
        }
        if isPaused { add(.paused, "Store \"\(name)\" is paused.") }
        if let cleaningProblem {
            add(.cleaningFailing, "History of store \"\(name)\" cannot be cleaned: \(cleaningProblem)")
        }
        if let neverCleaned, neverCleaned >= Self.manyChanges {
            add(
                .historyKept,
                "History of store \"\(name)\" has \(Int(neverCleaned), "change") and is never cleaned: set \"clean\" in its configuration, or run historyctl clean."
            )
        }
        for holder in holdingBack.sorted() {
            add(.historyKept, "History of store \"\(name)\" is kept for \"\(holder)\".")
        }
        for (consumer, count) in deadLetters.sorted(by: { $0.key < $1.key }) where count > 0 {
            add(.deadLetters, "\(count, "dead letter") of \"\(consumer)\" waiting.", consumer)
        }
        for (consumer, known) in consumers.sorted(by: { $0.key < $1.key }) {
            reasons += known.reasons(name, consumer, limit, feedLimits, isPaused: isPaused, at: now)
        }
        return reasons
    }
}

extension RuntimeStatus.Consumer {
    fileprivate func reasons(
        _ store: String, _ name: String, _ limit: Duration, _ feedLimits: [[String]: Duration], isPaused: Bool,
        at now: HistoryTimestamp
    ) -> [HealthReport.Reason] {
        var reasons: [HealthReport.Reason] = []
        func add(
            _ cause: HealthReport.Cause, _ message: String, hook: String? = nil, context: String? = nil
        ) {
            reasons.append(
                .init(cause, message, store: store, consumer: name, context: context, hook: hook))
        }
        for hook in heldHooks.sorted() {
            let reason = failure?.hook == hook ? failure?.reason : nil
            add(
                .hookHeld, "\"\(name)\" waits for hook \"\(hook)\"\(reason.map { ": \($0)" } ?? ".")",
                hook: hook)
        }
        if let failure, !failure.isHeld {
            if let hook = failure.hook {
                add(.hookRetrying, "Hook \"\(hook)\" failed for \"\(name)\": \(failure.reason)", hook: hook)
            } else {
                add(.consumerStuck, "\"\(name)\" cannot continue: \(failure.reason)")
            }
        }
        for (context, failure) in contexts.sorted(by: { $0.key < $1.key })
        where failure.attempt >= PipelineEvent.lastingFailure {
            add(
                failure.isReplica ? .replicaNotWritable : .contextFailing,
                "\(failure.kind) \"\(context)\" of \"\(name)\": \(failure.reason)", context: context)
        }
        if self.isPaused { add(.paused, "\"\(name)\" is paused.") }
        // A paused consumer lags on purpose.
        if isPaused || self.isPaused { return reasons }
        func check(
            _ lag: Lag, _ cause: HealthReport.Cause, _ subject: String, context: String? = nil,
            within limit: Duration = limit
        ) {
            let age = lag.age(at: now)
            guard age > limit + batchWindow else { return }
            let count = "\(lag.isAtLeast ? "at least " : "")\(lag.transactions, "transaction")"
            add(cause, "\(subject) is \(age.components.seconds) s behind, \(count).", context: context)
        }
        check(lag, .lagging, "\"\(name)\"")
        for (context, failure) in contexts.sorted(by: { $0.key < $1.key }) {
            check(failure.lag, .lagging, "\(failure.kind) \"\(context)\" of \"\(name)\"", context: context)
        }
        for (feed, lag) in feedLags.sorted(by: { $0.key < $1.key }) {
            check(
                lag, .feedLagging, "Feed \"\(feed)\" of \"\(name)\"", context: feed,
                within: feedLimits[[store, name, feed]] ?? limit)
        }
        return reasons
    }
}

extension RuntimeStatus.ContextFailure {
    fileprivate var kind: String { isReplica ? "Replica" : "Context" }
}
