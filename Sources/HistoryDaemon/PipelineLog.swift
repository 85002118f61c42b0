import Logging
import HistoryControl
import PersistentHistory

/// Takes what happens to one store into the status, and logs it.
struct PipelineLog: PipelineReporter {
    let store: String
    let logger: Logger
    let status: LiveStatus
    let deliveries: DeliveryLog
    /// Called when a hook is held: a single run (`--once`) then gives up.
    var onHold: @Sendable () -> Void = {}

    func report(_ event: PipelineEvent) {
        // What each commit begins with: it changes nothing of the status.
        if case .remoteChange = event { return log(event, isRepeated: false) }
        let effects = status.apply(event, store: store)
        if effects.isStoreBack {
            logger.report(.storeBack, "Store \"\(store)\" can be used again.", metadata: fields())
        }
        if effects.isStateBack {
            logger.report(
                .storeBack, "The state of store \"\(store)\" can be written again.", metadata: fields())
        }
        log(event, isRepeated: effects.isRepeated)
        if case .hookHeld = event { onHold() }
    }

    private func log(_ event: PipelineEvent, isRepeated: Bool) {
        switch event {
        case .storeOpened(let newest):
            logger.info("Store \"\(store)\" is open at \(newest).", metadata: fields(token: newest))
        case .storeLost(let error) where error.code == .wouldLockOut:
            logger.report(
                .wouldLockOut,
                "Store \"\(store)\" is not opened. \(error) The daemon tries again when that changes.",
                metadata: fields())
        case .storeLost(let error) where error.isOfState: report(error, isRepeated: false)
        case .stateFailed(let error): report(error, isRepeated: isRepeated)
        case .stateMovedAside(let error, let newPath):
            logger.report(
                .stateCorrupt,
                "The state of store \"\(store)\" was damaged. It was moved to \"\(newPath)\", and all consumers of the store start over. \(error.message) Its content can be rescued with sqlite3's \".recover\".",
                metadata: fields())
        case .stateRecovered: break  // Reported with the change of the status.
        case .storeLost(let error):
            logger.report(.storeLost, "Store \"\(store)\" cannot be used. \(error)", metadata: fields())
        case .watchFailed(let error):
            logger.report(
                .watchFailed, "Store \"\(store)\" cannot be watched, so it waits. \(error)",
                metadata: fields())
        case .storeReplaced:
            logger.report(
                .storeReplaced, "Store \"\(store)\" was replaced or removed; it is opened again.",
                metadata: fields())
        case .watchOverflowed:
            // It concerns all stores, and is reported once.
            if isRepeated { return }
            logger.report(
                .watchOverflowed, "The kernel dropped notices of file changes; all stores were looked at.")
        case .remoteChange(let newest):
            logger.trace("Store \"\(store)\" has changed, up to \(newest).", metadata: fields(token: newest))
        case .trackingUpdated(let outcome):
            if outcome.beganAgain {
                logger.report(
                    .historyBeganAgain,
                    "Tables of the history of store \"\(store)\" were missing. A new history begins, with a new store id.",
                    metadata: fields())
            }
            logger.report(
                .trackingUpdated, "Changed the tracking of store \"\(store)\": \(outcome.sentence).",
                metadata: fields())
        case .trackingFailed(let error):
            logger.report(
                .trackingFailed, "Store \"\(store)\" is not tracked as configured. \(error)", metadata: fields()
            )
        case .entitiesUntracked where isRepeated, .recordingDoubtful where isRepeated: break
        case .entitiesUntracked(let untracked):
            for (entity, reason) in untracked.sorted(by: { $0.key < $1.key }) {
                var fields = fields()
                fields["entity"] = "\(entity)"
                logger.report(
                    .trackingFailed, "Store \"\(store)\" is not tracked as configured. \(reason)",
                    metadata: fields)
            }
        case .recordingDoubtful(let doubts):
            for (entity, reasons) in doubts.sorted(by: { $0.key < $1.key }) {
                var fields = fields()
                fields["entity"] = "\(entity)"
                logger.report(
                    .recordingDoubtful,
                    "Changes of \"\(entity)\" may go unrecorded in store \"\(store)\": \(reasons.joined(separator: ", and ")).",
                    metadata: fields)
            }
        case .migrationUnderWay:
            logger.info(
                "A migration of store \"\(store)\" is under way; its tracking is left alone until it has ended.",
                metadata: fields())
        case .recreated(let consumer, let entities, let token):
            logger.report(
                .changesUnrecorded,
                "Changes of \(entities.map { "\"\($0)\"" }.joined(separator: ", ")) may have gone unrecorded before \(token); \"\(consumer)\" was notified to read them again.",
                metadata: fields(consumer, token: token))
        case .trackingComplete, .deadLettersFound: break  // For the status.
        case .stateBegan(let path, let oldest):
            logger.report(
                .stateLost,
                "Store \"\(store)\" has no state at \"\(path)\", although its history has been cleaned: every consumer begins after \(oldest).",
                metadata: fields(token: oldest))
        case .consumerBegan(let consumer, let token) where token.number > 0:
            logger.notice(
                "Consumer \"\(consumer)\" of store \"\(store)\" is new. Older history has been deleted, so it begins after \(token).",
                metadata: fields(consumer, token: token))
        case .consumerBegan(let consumer, let token):
            logger.notice(
                "Consumer \"\(consumer)\" of store \"\(store)\" is new. It begins after \(token).",
                metadata: fields(consumer, token: token))
        case .consumerStands(let consumer, let token):
            logger.trace(
                "Consumer \"\(consumer)\" of store \"\(store)\" continues after \(token).",
                metadata: fields(consumer, token: token))
        case .consumerForgotten(let consumer):
            logger.notice(
                "Consumer \"\(consumer)\" of store \"\(store)\" is no longer configured; its cursor was deleted.",
                metadata: fields(consumer))
        case .delivered(let consumer, let hook, let deliveries):
            self.deliveries.log(deliveries, of: hook, to: consumer, store: store)
        case .hookFailed(let consumer, let hook, let failure, let token, let attempt, let delay):
            logger.report(
                failure.reason == .timedOut ? .hookTimedOut : .hookFailed,
                "Hook \"\(hook)\" failed for \"\(consumer)\", attempt \(attempt): \(failure) It is tried again in \(delay.text).",
                metadata: fields(consumer, hook, token))
        case .hookHeld(let consumer, let hook, let failure, let token, let attempts, let delay):
            let text: Logger.Message =
                "Hook \"\(hook)\" failed for \"\(consumer)\", attempt \(attempts): \(failure) \"\(consumer)\" waits; it is tried again every \(delay.text)."
            if isRepeated {
                logger.debug(text, metadata: fields(consumer, hook, token))
            } else {
                logger.report(.hookHeld, text, metadata: fields(consumer, hook, token))
            }
        case .hookRecovered(let consumer, let hook, let token, let attempts):
            logger.report(
                .hookRecovered,
                "Hook \"\(hook)\" succeeded for \"\(consumer)\" after \(attempts, "failed attempt").",
                metadata: fields(consumer, hook, token))
        case .deadLetterKept(let consumer, let hook, let failure, let token, let attempts):
            logger.report(
                .deadLetterKept,
                "Hook \"\(hook)\" failed for \"\(consumer)\", attempt \(attempts): \(failure) The call is kept as a dead letter, and \"\(consumer)\" continues.",
                metadata: fields(consumer, hook, token))
        case .merged(let consumer, let context, let transactions, let last):
            logger.debug(
                "Merged \(transactions, "transaction") into context \"\(context)\" of \"\(consumer)\".",
                metadata: fields(consumer, token: last, context: context))
        case .replicaFilled(let consumer, let context, let token):
            logger.report(
                .contextRefilled,
                "Context \"\(context)\" of \"\(consumer)\" was filled from the store as of \(token).",
                metadata: fields(consumer, token: token, context: context))
        case .replicaMovedAside(let consumer, let context, let newPath):
            logger.warning(
                "Context \"\(context)\" of \"\(consumer)\" was damaged; its file was moved to \"\(newPath)\", and it is created again.",
                metadata: fields(consumer, context: context))
        case .replicaTableLeftOut(let consumer, let context, let table):
            logger.report(
                .replicaTableLeftOut,
                "Context \"\(context)\" of \"\(consumer)\" is created without the table \"\(table.name)\": \(table.reason).",
                metadata: fields(consumer, context: context))
        case .replicaIndexLeftOut(let consumer, let context, let index):
            logger.notice(
                "Context \"\(context)\" of \"\(consumer)\" is created without the index \"\(index.name)\": \(index.reason).",
                metadata: fields(consumer, context: context))
        case .replicaLogGrows(let consumer, let context, let bytes):
            logger.warning(
                "Context \"\(context)\" of \"\(consumer)\" has a write-ahead log of \(bytes >> 20) MB, because a reader keeps a transaction open. It shrinks when the transaction ends.",
                metadata: fields(consumer, context: context))
        case .contextFailed(let consumer, let context, let error, RuntimeStatus.lastingFailure):
            logger.report(
                .contextFailed,
                "Context \"\(context)\" of \"\(consumer)\" cannot be updated. \(error) The daemon keeps trying.",
                metadata: fields(consumer, context: context))
        case .contextFailed(let consumer, let context, let error, let attempt):
            logger.debug(
                "Context \"\(context)\" of \"\(consumer)\" cannot be updated, attempt \(attempt). \(error)",
                metadata: fields(consumer, context: context))
        case .contextRecovered(_, _, ..<RuntimeStatus.lastingFailure): break  // A lock, held for a moment.
        case .contextRecovered(let consumer, let context, let attempts):
            logger.report(
                .contextRecovered,
                "Context \"\(context)\" of \"\(consumer)\" can be updated again, after \(attempts, "failed attempt").",
                metadata: fields(consumer, context: context))
        case .cursorMoved(let consumer, let token):
            logger.trace(
                "The cursor of \"\(consumer)\" is at \(token).", metadata: fields(consumer, token: token))
        case .cursorsMoved(let consumers, let token):
            logger.trace(
                "The cursors of \(consumers.count, "consumer") with nothing to do are at \(token).",
                metadata: fields(token: token))
        case .feedBegan(let consumer, let context, let token):
            logger.notice(
                "The feed \"\(context)\" of \"\(consumer)\" is new. It begins after \(token).",
                metadata: fields(consumer, token: token, context: context))
        case .feedForgotten(let consumer, let context):
            logger.notice(
                "The feed \"\(context)\" of \"\(consumer)\" is no longer configured; its position was deleted.",
                metadata: fields(consumer, context: context))
        case .feedMoved(let consumer, let context, let token):
            logger.trace(
                "The feed \"\(context)\" of \"\(consumer)\" is at \(token).",
                metadata: fields(consumer, token: token, context: context))
        case .feedExpired(let consumer, let context, let expiry):
            logger.report(
                .tokenExpired,
                "The feed \"\(context)\" of \"\(consumer)\" has lost history\(expiry.lost.map { " after \($0)" } ?? ""); its program is notified to start over at \(expiry.after).",
                metadata: fields(consumer, token: expiry.after, context: context))
        case .consumerFailed(let consumer, let error, let delay):
            logger.log(
                level: error.isOfState ? .debug : .warning,
                "Consumer \"\(consumer)\" of store \"\(store)\" cannot continue. \(error) It is tried again in \(delay.text).",
                metadata: fields(consumer))
        case .tokenExpired(let consumer, let error):
            logger.report(
                .tokenExpired,
                "Consumer \"\(consumer)\" of store \"\(store)\" starts over; its contexts are filled from the store. \(error)",
                metadata: fields(consumer))
        case .historyLost, .lossUnheard: break  // Told with the expired token, or the new consumer.
        case .consumerPassedBy(let consumer, let token, let standing):
            logger.report(
                .consumerPassedBy,
                "Consumer \"\(consumer)\" of store \"\(store)\" has not moved for \(standing.text); history after \(token) is deleted without waiting for it.",
                metadata: fields(consumer, token: token))
        case .cleaned(let outcome):
            var space =
                outcome.givenBack > 0 ? " \(outcome.givenBack >> 10) KB were returned to the file system." : ""
            if outcome.free > 0 { space += " \(outcome.free >> 10) KB of its file are free for reuse." }
            logger.report(
                .cleaned,
                "Deleted \(outcome.deleted, "change") of store \"\(store)\" that every consumer has processed.\(space)",
                metadata: fields(token: outcome.floor))
        case .cleaningBlocked(let consumers):
            let names = consumers.map { "\"\($0)\"" }.joined(separator: ", ")
            logger.report(
                .consumerBlocksCleanup,
                "History of store \"\(store)\" is kept for \(names), which have not processed it.",
                metadata: fields(consumers.first))
        case .cleaningHeldBack, .cleaningRecovered, .consumerRecovered: break  // For the status.
        case .cleaningFailed(let error):
            logger.report(
                .cleanFailed, "History of store \"\(store)\" could not be cleaned. \(error) It is tried again.",
                metadata: fields())
        }
    }

    private func report(_ error: HistoryError, isRepeated: Bool) {
        let text: Logger.Message =
            "The state of store \"\(store)\" cannot be used; its consumers wait. \(error)"
        if isRepeated { return logger.debug(text, metadata: fields()) }
        logger.report(.stateUnavailable, text, metadata: fields())
    }

    private func fields(
        _ consumer: String? = nil, _ hook: String? = nil, _ token: HistoryToken? = nil, context: String? = nil
    ) -> Logger.Metadata {
        var fields: Logger.Metadata = ["store": "\(store)"]
        if let consumer { fields["consumer"] = "\(consumer)" }
        if let hook { fields["hook"] = "\(hook)" }
        if let token { fields["token"] = "\(token)" }
        if let context { fields["context"] = "\(context)" }
        return fields
    }

    private func fields(_ consumer: String? = nil, token: HistoryToken, context: String? = nil)
        -> Logger.Metadata
    {
        fields(consumer, nil, token, context: context)
    }
}
