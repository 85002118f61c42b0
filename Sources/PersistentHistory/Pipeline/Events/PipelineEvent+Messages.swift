import Logging

/// The messages of an event, for the library's log and the daemon's journal.
extension PipelineEvent {
    /// The event as sentences: none if it is only for the state, several if it names several entities.
    ///
    /// - Parameter store: The store's name, if there are several stores.
    public func messages(of store: String? = nil) -> [EventMessage] {
        let (it, name) = store.map { ("Store \"\($0)\"", "store \"\($0)\"") } ?? ("The store", "the store")
        func say(
            _ weight: EventMessage.Weight, _ text: String, _ consumer: String? = nil, hook: String? = nil,
            context: String? = nil, author: String? = nil, entity: String? = nil, at token: HistoryToken? = nil
        ) -> [EventMessage] {
            let fields: [(String, String?)] = [
                ("store", store), ("consumer", consumer), ("hook", hook), ("context", context),
                ("author", author), ("entity", entity), ("token", token?.description),
            ]
            return [EventMessage(weight, text, fields)]
        }
        return switch self {
        // MARK: The store
        case .storeOpened(let newest): say(.level(.info), "\(it) is open at \(newest).", at: newest)
        case .storeLost(let error) where error.code == .wouldLockOut:
            say(.code(.wouldLockOut), "\(it) is not opened. \(error) It is tried again when that changes.")
        case .storeLost(let error) where error.isOfState, .stateFailed(let error):
            say(.code(.stateUnavailable), "The state of \(name) cannot be used; its consumers wait. \(error)")
        case .storeLost(let error): say(.code(.storeLost), "\(it) cannot be used. \(error)")
        case .watchFailed(let error):
            say(.code(.watchFailed), "\(it) cannot be watched, so it waits. \(error)")
        case .storeReplaced:
            say(.code(.storeReplaced), "\(it) was replaced or removed; it is opened again.")
        case .watchOverflowed:
            // This concerns all stores.
            [
                EventMessage(
                    .code(.watchOverflowed),
                    "The kernel dropped notifications of file changes; all stores are checked for new history.")
            ]
        case .remoteChange(let newest): say(.level(.trace), "\(it) has changed, up to \(newest).", at: newest)

        // MARK: Tracking
        case .trackingUpdated(let outcome):
            (outcome.beganAgain
                ? say(
                    .code(.historyBeganAgain),
                    "Tables of the history of \(name) were missing. A new history begins, with a new store id.")
                : [])
                + say(.code(.trackingUpdated), "Changed the tracking of \(name): \(outcome.sentence).")
        case .trackingFailed(let error):
            say(.code(.trackingFailed), "\(it) is not tracked as configured. \(error)")
        case .entitiesUntracked(let untracked):
            untracked.sorted { $0.key < $1.key }.flatMap { entity, reason in
                say(
                    .code(.trackingFailed), "\(it) is not tracked as configured. \(reason)", entity: entity.text
                )
            }
        case .recordingDoubtful(let doubts):
            doubts.sorted { $0.key < $1.key }.flatMap { entity, reasons in
                say(
                    .code(.recordingDoubtful),
                    "Changes of \"\(entity)\" may go unrecorded in \(name): \(reasons.joined(separator: ", and ")).",
                    entity: entity.text)
            }
        case .trackingUnderWay(let done, let all):
            say(.level(.debug), "The tracking of \(name) is brought up to date: \(done) of \(all, "table").")
        case .migrationUnderWay:
            say(
                .level(.info),
                "A migration of \(name) is under way; its tracking is left alone until it has ended.")
        case .trackingComplete: []

        // MARK: The state
        case .stateBegan(let path, let oldest):
            say(
                .code(.stateLost),
                "\(it) has no state at \"\(path)\", although its history has been cleaned: every consumer begins after \(oldest).",
                at: oldest)
        case .stateMovedAside(let error, let newPath):
            say(
                .code(.stateCorrupt),
                "The state of \(name) was damaged. It was moved to \"\(newPath)\", and all consumers of the store start over. \(error.message) Its content can be rescued with sqlite3's \".recover\"."
            )
        case .stateRecovered: say(.code(.storeBack), "The state of \(name) can be written again.")
        case .deadLettersFound: []

        // MARK: Consumers
        case .consumerBegan(let consumer, let token):
            say(
                .level(.notice),
                "Consumer \"\(consumer)\" of \(name) is new. It begins after \(token)\(token.number > 0 ? "; its hooks are not called for older history" : "").",
                consumer, at: token)
        case .consumerForgotten(let consumer):
            say(
                .level(.notice),
                "Consumer \"\(consumer)\" of \(name) is no longer configured; its cursor was deleted.", consumer
            )
        case .consumerStands(let consumer, let token):
            say(
                .level(.trace), "Consumer \"\(consumer)\" of \(name) continues after \(token).", consumer,
                at: token)
        case .consumerMoved(let consumer, let from, let to, let peer):
            say(
                .code(.consumerMoved),
                "Consumer \"\(consumer)\" of \(name) was moved from \(from) to \(to), by \(peer): \(to.number < from.number ? "its hooks are called again for what lies in between" : "its hooks are not called for what lies in between").",
                consumer, at: to)
        case .cursorMoved(let consumer, let token):
            say(.level(.trace), "The cursor of \"\(consumer)\" is at \(token).", consumer, at: token)
        case .cursorsMoved(let consumers, let token):
            say(
                .level(.trace),
                "The cursors of \(consumers.count, "consumer") with nothing to do are at \(token).", at: token)
        case .consumerFailed(let consumer, let error, let delay):
            // An unusable state is reported for the store.
            say(
                .level(error.isOfState ? .debug : .warning),
                "Consumer \"\(consumer)\" of \(name) cannot continue. \(error) It is tried again in \(delay.text).",
                consumer)
        case .consumerRecovered(let consumer):
            say(.level(.notice), "Consumer \"\(consumer)\" of \(name) can continue.", consumer)
        case .tokenExpired(let consumer, let error):
            say(
                .code(.tokenExpired),
                "Consumer \"\(consumer)\" of \(name) starts over; its contexts are filled from the store. \(error)",
                consumer)
        case .historyLost(let consumer, let expiry):
            // The cause was reported before: the token, the new consumer, or the tables.
            say(
                .level(.debug),
                "The hooks of \"\(consumer)\" are notified of lost history: \(expiry.sentence).",
                consumer, at: expiry.after)
        case .recreated(let consumer, let entities, let token):
            say(
                .code(.changesUnrecorded),
                "Changes of \(entities.quoted) may have gone unrecorded before \(token); \"\(consumer)\" was notified to read them again.",
                consumer, at: token)
        case .lossUnheard(let consumer, let hook, let expiry):
            say(
                .level(.error),
                "Hook \"\(hook)\" has no onExpired closure, so it was not notified of lost history: \(expiry.sentence). Rebuild from the store what depends on it.",
                consumer, hook: hook, at: expiry.after)
        case .consumerPassedBy(let consumer, let token, let standing):
            say(
                .code(.consumerPassedBy),
                "Consumer \"\(consumer)\" of \(name) has not moved for \(standing.text); history after \(token) is deleted without waiting for it.",
                consumer, at: token)

        // MARK: Hooks
        case .delivered(let consumer, let hook, let deliveries):
            say(
                .level(.info),
                deliveries.sentence(of: hook, to: "\"\(consumer)\""),
                consumer, hook: hook, author: deliveries.author, entity: deliveries.entity,
                at: deliveries.token)
        case .hookFailed(let consumer, let hook, let failure, let token, _, let delay)
        where failure.reason == .daemonLacks:
            say(
                .code(.hookFailed),
                "Hook \"\(hook)\" cannot be called for \"\(consumer)\": \(failure) This counts as no attempt. It is tried again in \(delay.text).",
                consumer, hook: hook, at: token)
        case .hookFailed(let consumer, let hook, let failure, let token, let attempt, let delay):
            say(
                .code(failure.reason == .timedOut ? .hookTimedOut : .hookFailed),
                "Hook \"\(hook)\" failed for \"\(consumer)\", attempt \(attempt): \(failure) It is tried again in \(delay.text).",
                consumer, hook: hook, at: token)
        case .hookHeld(let consumer, let hook, let failure, let token, let attempts, let delay):
            say(
                .code(.hookHeld),
                "Hook \"\(hook)\" failed for \"\(consumer)\", attempt \(attempts): \(failure) \"\(consumer)\" waits; it is tried again every \(delay.text).",
                consumer, hook: hook, at: token)
        case .hookRecovered(let consumer, let hook, let token, let attempts):
            say(
                .code(.hookRecovered),
                "Hook \"\(hook)\" succeeded for \"\(consumer)\" after \(attempts, "failed attempt").",
                consumer, hook: hook, at: token)
        case .deadLetterKept(let consumer, let hook, let failure, let token, let attempts):
            say(
                .code(.deadLetterKept),
                "Hook \"\(hook)\" failed for \"\(consumer)\", attempt \(attempts): \(failure) The call is kept as a dead letter, and \"\(consumer)\" continues.",
                consumer, hook: hook, at: token)

        // MARK: Contexts
        case .merged(let consumer, let context, let transactions, let last):
            say(
                .level(.debug),
                "Merged \(transactions, "transaction") into context \"\(context)\" of \"\(consumer)\".",
                consumer,
                context: context, at: last)
        case .contextShows(let consumer, let context, let token):
            say(
                .level(.trace), "Context \"\(context)\" of \"\(consumer)\" shows everything up to \(token).",
                consumer,
                context: context, at: token)
        case .contextsClosed: []
        case .replicaFilled(let consumer, let context, let token):
            say(
                .code(.contextRefilled),
                "Context \"\(context)\" of \"\(consumer)\" was filled from the store as of \(token).", consumer,
                context: context, at: token)
        case .replicaMovedAside(let consumer, let context, let newPath):
            say(
                .level(.warning),
                "Context \"\(context)\" of \"\(consumer)\" was damaged; its file was moved to \"\(newPath)\", and it is created again.",
                consumer, context: context)
        case .replicaTableLeftOut(let consumer, let context, let table):
            say(
                .code(.replicaTableLeftOut),
                "Context \"\(context)\" of \"\(consumer)\" is created without the table \"\(table.name)\": \(table.reason).",
                consumer, context: context)
        case .replicaIndexLeftOut(let consumer, let context, let index):
            say(
                .level(.notice),
                "Context \"\(context)\" of \"\(consumer)\" is created without the index \"\(index.name)\": \(index.reason).",
                consumer, context: context)
        case .replicaLogGrows(let consumer, let context, let bytes):
            say(
                .level(.warning),
                "Context \"\(context)\" of \"\(consumer)\" has a write-ahead log of \(bytes >> 20) MB, because a reader keeps a transaction open. It shrinks when the transaction ends.",
                consumer, context: context)
        case .contextFailed(let consumer, let context, let error, let attempt):
            // A lock is held now and then.
            say(
                attempt == Self.lastingFailure ? .code(.contextFailed) : .level(.debug),
                "Context \"\(context)\" of \"\(consumer)\" cannot be updated, attempt \(attempt). \(error) It is tried again.",
                consumer, context: context)
        case .contextRecovered(let consumer, let context, let attempts):
            say(
                attempts >= Self.lastingFailure ? .code(.contextRecovered) : .level(.debug),
                "Context \"\(context)\" of \"\(consumer)\" can be updated again, after \(attempts, "failed attempt").",
                consumer, context: context)

        // MARK: Feeds
        case .feedBegan(let consumer, let feed, let token):
            say(
                .level(.notice), "The feed \"\(feed)\" of \"\(consumer)\" is new. It begins after \(token).",
                consumer, context: feed, at: token)
        case .feedForgotten(let consumer, let feed):
            say(
                .level(.notice),
                "The feed \"\(feed)\" of \"\(consumer)\" is no longer configured; its position was deleted.",
                consumer, context: feed)
        case .feedMoved(let consumer, let feed, let token):
            say(
                .level(.trace), "The feed \"\(feed)\" of \"\(consumer)\" is at \(token).", consumer,
                context: feed, at: token)
        case .feedExpired(let consumer, let feed, let expiry):
            say(
                .code(.tokenExpired),
                "The feed \"\(feed)\" of \"\(consumer)\" has lost history\(expiry.lost.map { " after \($0)" } ?? ""); its program is notified to start over at \(expiry.after).",
                consumer, context: feed, at: expiry.after)

        // MARK: Cleaning
        case .cleaned(let outcome):
            say(
                .code(.cleaned),
                "Deleted \(outcome.deleted, "change") of \(name) that every consumer has processed.\(outcome.space)",
                at: outcome.floor)
        case .cleaningBlocked(let consumers):
            say(
                .code(.consumerBlocksCleanup),
                "History of \(name) is kept for \(consumers.quoted), which \(consumers.count == 1 ? "has" : "have") not processed it.",
                consumers.first)
        case .cleaningFailed(let error):
            say(.code(.cleanFailed), "History of \(name) could not be cleaned. \(error) It is tried again.")
        case .cleaningRecovered: say(.level(.notice), "History of \(name) can be cleaned again.")
        case .cleaningWaits(let error): say(.level(.info), "\(error)")
        case .cleaningHeldBack, .cleaningStepped: []
        }
    }

    /// The number of the failed attempt at which a failing context is reported. A lock is usually
    /// released before that.
    package static let lastingFailure = 3

    /// Whether each commit, or each start of a consumer, causes it, so that it is not important.
    package var isRoutine: Bool {
        switch self {
        case .remoteChange, .delivered, .merged, .contextShows, .contextsClosed, .consumerStands, .cursorMoved,
            .cursorsMoved, .feedMoved:
            true
        default: false
        }
    }
}

extension Expiry {
    /// What was lost, and how.
    fileprivate var sentence: String {
        let range = lost.map { "everything after \($0), up to \(after)" } ?? "everything up to \(after)"
        return switch reason {
        case .expired: "\(range), was deleted"
        case .late: "\(range), was deleted before the consumer began"
        case .recreated: "changes of \(entities.quoted) may have gone unrecorded before \(after)"
        case .restored, .replaced: "the store is no longer the same; the consumer starts over at \(after)"
        }
    }
}

extension Tracking.Outcome {
    /// `began "person"; brought up to date "item"`.
    package var sentence: String {
        [("began", added), ("brought up to date", updated), ("table gone", dropped)]
            .filter { !$0.1.isEmpty }.map { "\($0) \($1.quoted)" }.joined(separator: "; ")
    }
}

extension CleaningOutcome {
    fileprivate var space: String {
        (givenBack > 0 ? " \(givenBack >> 10) KB were returned to the file system." : "")
            + (free > 0 ? " \(free >> 10) KB of its file are free for reuse." : "")
    }
}
