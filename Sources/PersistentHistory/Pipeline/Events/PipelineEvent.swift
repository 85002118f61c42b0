public import Logging

/// An event between a commit and a hook, for logs, metrics and status reports.
public enum PipelineEvent: Sendable {
    /// The store is open; its newest transaction is given.
    case storeOpened(newest: HistoryToken)
    /// The store cannot be read for now. It is retried when something changes.
    case storeLost(HistoryError)
    /// The store's files cannot be watched, so the store waits. It is retried.
    case watchFailed(ObserverError)
    /// The path now has another store, or an older state of the store.
    case storeReplaced
    /// The kernel dropped notifications of file changes; the store was checked for new history.
    case watchOverflowed
    /// Another program has committed changes: the kit's notification of a remote change. Several commits
    /// that one look finds count as one.
    case remoteChange(newest: HistoryToken)
    /// The triggers were brought up to date with the schema or the configured entities.
    case trackingUpdated(Tracking.Outcome)
    /// Not all entities are tracked as configured; tracked entities are still recorded.
    case trackingFailed(HistoryError)
    /// Which configured entities are not tracked as configured, and why: after each look at the schema,
    /// and usually none.
    case entitiesUntracked([BinaryText: String])
    /// Entities whose recording may miss something, and why: after each look at the schema, and usually
    /// none.
    case recordingDoubtful([BinaryText: [String]])
    /// Of many tables, some are tracked or updated, in steps between which others can write.
    case trackingUnderWay(done: Int, of: Int)
    /// A migration is running: the tracking is left alone until it has ended.
    case migrationUnderWay
    /// There was no state for a store whose history has been cleaned: it was lost, or left behind.
    case stateBegan(path: String, oldest: HistoryToken)
    /// Everything is tracked as configured.
    case trackingComplete
    /// How many dead letters wait when the store was opened, by consumer.
    case deadLettersFound([String: Int])
    /// The state was damaged: its file was renamed, and is created again.
    case stateMovedAside(HistoryError, to: String)
    /// The state could not be written, several times in a row. It is retried.
    case stateFailed(HistoryError)
    /// The state could be written again.
    case stateRecovered
    /// A consumer without a cursor begins here.
    case consumerBegan(consumer: String, at: HistoryToken)
    /// A consumer is no longer configured; its cursor was removed.
    case consumerForgotten(consumer: String)
    /// The position of a consumer when its store was opened, or when it starts over.
    case consumerStands(consumer: String, at: HistoryToken)
    /// An operator has moved a consumer: back, so that its hooks are called again, or forward, past
    /// skipped transactions.
    case consumerMoved(consumer: String, from: HistoryToken, to: HistoryToken, by: String)
    /// Consecutive calls of a hook have succeeded.
    case delivered(consumer: String, hook: String, Deliveries)
    /// A call failed, and is retried after the delay.
    case hookFailed(
        consumer: String, hook: String, HookFailure, token: HistoryToken, attempt: Int, retryAfter: Duration)
    /// The last attempt failed: the consumer waits, and keeps trying.
    case hookHeld(
        consumer: String, hook: String, HookFailure, token: HistoryToken, attempts: Int, retryAfter: Duration)
    /// A hook that was held has succeeded.
    case hookRecovered(consumer: String, hook: String, token: HistoryToken, attempts: Int)
    /// The last attempt failed: the call is kept as a dead letter, and the consumer continues.
    case deadLetterKept(consumer: String, hook: String, HookFailure, token: HistoryToken, attempts: Int)
    /// Transactions were merged into a replica.
    case merged(consumer: String, context: String, transactions: Int, last: HistoryToken)
    /// A context shows everything up to here. A replica may merge changes long before it shows them.
    case contextShows(consumer: String, context: String, HistoryToken)
    /// A consumer's contexts have not been opened yet, so it is not known what they show.
    case contextsClosed(consumer: String, contexts: [String])
    /// A replica was filled from a snapshot of the store.
    case replicaFilled(consumer: String, context: String, at: HistoryToken)
    /// A damaged replica was moved aside.
    case replicaMovedAside(consumer: String, context: String, to: String)
    /// A table of the store that the replica cannot have.
    case replicaTableLeftOut(consumer: String, context: String, ReplicaContext.LeftOut)
    /// An index of the store that the replica cannot have.
    case replicaIndexLeftOut(consumer: String, context: String, ReplicaContext.LeftOut)
    /// The replica's write-ahead log grows, because a reader keeps a transaction open.
    case replicaLogGrows(consumer: String, context: String, bytes: Int64)
    /// A context could not be opened or written. It is retried; `attempt` counts the consecutive
    /// failures.
    case contextFailed(consumer: String, context: String, HistoryError, attempt: Int)
    /// A context that had failed was written again, after this number of failed attempts.
    case contextRecovered(consumer: String, context: String, attempts: Int)
    /// A consumer has processed everything up to here.
    case cursorMoved(consumer: String, to: HistoryToken)
    /// The cursors of all consumers that a commit does not concern have moved past it.
    case cursorsMoved(MovedConsumers, to: HistoryToken)
    /// A new feed begins here.
    case feedBegan(consumer: String, context: String, at: HistoryToken)
    /// A feed is no longer configured; its position was removed.
    case feedForgotten(consumer: String, context: String)
    /// The feed's program has acknowledged a token.
    case feedMoved(consumer: String, context: String, to: HistoryToken)
    /// History was deleted that a feed has not delivered; its program is notified.
    case feedExpired(consumer: String, context: String, Expiry)
    /// A consumer's pass failed, and is retried after the delay.
    case consumerFailed(consumer: String, HistoryError, retryAfter: Duration)
    /// A consumer whose passes failed continues, even if there was nothing to process.
    case consumerRecovered(consumer: String)
    /// History was deleted that a consumer has not processed.
    case tokenExpired(consumer: String, HistoryError)
    /// Changes of some entities may have gone unrecorded before a position; the consumer's hooks have been notified.
    case recreated(consumer: String, entities: [String], at: HistoryToken)
    /// A consumer has lost history, and its hooks will be notified.
    case historyLost(consumer: String, Expiry)
    /// A closure hook without `onExpired` could not be notified of lost history.
    case lossUnheard(consumer: String, hook: String, Expiry)
    /// A consumer has not moved for so long that history was deleted before it processed it.
    case consumerPassedBy(consumer: String, at: HistoryToken, standing: Duration)
    /// History was deleted.
    case cleaned(CleaningOutcome)
    /// Cleaning waits for these consumers, which have no position yet.
    case cleaningBlocked(by: [String])
    /// At each cleanup: all consumers that have not moved for long and hold back the cleaning; usually none.
    case cleaningHeldBack(by: [String])
    /// History could not be deleted. It is retried.
    case cleaningFailed(HistoryError)
    /// A cleanup waits for a moment in which no other connection is in a transaction.
    case cleaningWaits(HistoryError)
    /// From time to time during a cleanup, and at its end: its transactions since the last report.
    case cleaningStepped(CleaningEffort)
    /// Cleaning continues after a failure, even if there was nothing left to delete.
    case cleaningRecovered
}

/// Consumers whose cursors move together. There may be many, so the type answers queries instead of listing them.
public struct MovedConsumers: Sendable {
    let idle: IdleConsumers
    /// The number of consumers.
    public let count: Int

    /// Whether a consumer is one of them, now.
    public func contains(_ consumer: String) -> Bool { idle.contains(consumer) }
}

/// One sentence of an event, for logs.
public struct EventMessage: Sendable, Equatable {
    /// Nil if it is not a reason for an alert.
    package let code: MessageCode?
    /// An error needs an operator, a warning recovers by itself, a notice is a rare change.
    public let level: Logger.Level
    /// The sentence, which is understandable without the fields.
    public let text: String
    /// What it is about: `store`, `consumer`, `hook`, `context`, `author`, `entity`, `token`.
    public let fields: Logger.Metadata

    enum Weight {
        case code(MessageCode)
        case level(Logger.Level)
    }

    init(_ weight: Weight, _ text: String, _ fields: [(String, String?)] = []) {
        (code, level) =
            switch weight {
            case .code(let code): (code, code.level)
            case .level(let level): (nil, level)
            }
        self.text = text
        self.fields = fields.reduce(into: [:]) { fields, field in
            if let value = field.1 { fields[field.0] = .string(value) }
        }
    }
}
