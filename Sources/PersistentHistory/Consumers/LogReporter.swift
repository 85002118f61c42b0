public import Logging

/// Logs events with swift-log, in the three levels of detail of PersistentHistoryTrackingKit. It is a tracker's default.
public struct LogReporter: PipelineReporter {
    private let logger: Logger
    private let logLevel: Int

    /// A reporter that logs.
    ///
    /// - Parameters:
    ///   - logLevel: 0 logs nothing, 1 important events (failures, losses, rare changes), 2 all events.
    ///   - logger: The logger. With level 2, its own level is lowered to `debug` if it is higher.
    public init(logLevel: Int = 1, logger: Logger = Logger(label: "PersistentHistory")) {
        self.logLevel = logLevel
        var logger = logger
        if logLevel > 1 { logger.logLevel = min(logger.logLevel, .debug) }
        self.logger = logger
    }

    /// Logs an event if it is important enough.
    public func report(_ event: PipelineEvent) {
        guard logLevel > 0 else { return }
        let level = event.level
        guard logLevel > 1 || level >= .notice else { return }
        logger.log(level: level, "\(event.text)")
    }
}

extension PipelineEvent {
    /// The level of an event: an error needs an operator, a warning passes by itself, a notice is a rare change.
    var level: Logger.Level {
        switch self {
        case .storeLost, .watchFailed, .trackingFailed, .stateFailed, .hookHeld, .deadLetterKept, .lossUnheard,
            .stateMovedAside:
            .error
        case .entitiesUntracked(let untracked): untracked.isEmpty ? .debug : .error
        case .recordingDoubtful(let doubts): doubts.isEmpty ? .debug : .warning
        case .storeReplaced, .stateBegan, .hookFailed, .replicaMovedAside, .replicaTableLeftOut,
            .replicaLogGrows, .contextFailed, .feedExpired, .consumerFailed, .historyLost, .consumerPassedBy,
            .cleaningBlocked, .cleaningFailed:
            .warning
        case .watchOverflowed, .trackingUpdated, .stateRecovered, .consumerForgotten, .consumerRecovered,
            .hookRecovered, .replicaFilled, .replicaIndexLeftOut, .contextRecovered, .feedBegan, .feedForgotten:
            .notice
        case .consumerStands, .cursorMoved, .cursorsMoved, .feedMoved, .cleaningHeldBack, .cleaningRecovered,
            .tokenExpired,
            .recreated,
            .trackingComplete, .deadLettersFound:
            .debug
        default: .info
        }
    }
}

/// What happened, in a sentence: for a log that is read by people.
extension PipelineEvent {
    /// The event as a sentence.
    public var text: String {
        switch self {
        case .storeOpened(let newest): "The store is open at \(newest)."
        case .storeLost(let error): "The store cannot be used, so it waits. \(error)"
        case .watchFailed(let error): "The store cannot be watched, so it waits. \(error)"
        case .storeReplaced: "The store was replaced or removed; it is opened again."
        case .watchOverflowed: "The kernel dropped notifications of file changes; the store was checked."
        case .remoteChange(let newest): "Received a notification of remote changes, up to \(newest)."
        case .trackingUpdated(let outcome): "The tracking was updated: \(outcome.sentence)."
        case .trackingFailed(let error): "The store is not tracked as configured. \(error)"
        case .entitiesUntracked(let untracked) where untracked.isEmpty: "All is tracked as configured."
        case .entitiesUntracked(let untracked):
            "The store is not tracked as configured. \(untracked.sorted { $0.key < $1.key }.map(\.value).joined(separator: " "))"
        case .recordingDoubtful(let doubts) where doubts.isEmpty: "No recording is doubtful."
        case .recordingDoubtful(let doubts):
            "Changes of \(quoted(doubts.keys.sorted().map(\.text))) may go unrecorded."
        case .migrationUnderWay: "A migration is running; the triggers are not changed until it has ended."
        case .stateBegan(let path, let oldest):
            "The store has no state at \"\(path)\", although its history has been cleaned: every consumer begins after \(oldest)."
        case .stateFailed(let error): "The state cannot be written; it is tried again. \(error)"
        case .stateMovedAside(let error, let path):
            "The state was damaged, and was moved to \"\(path)\"; consumers start over. \(error)"
        case .stateRecovered: "The state can be written again."
        case .cleaned(let outcome):
            "Deleted \(counted(outcome.deleted, "change")) that every consumer has processed."
        case .cleaningBlocked(let consumers): "History is kept for \(quoted(consumers))."
        case .cleaningRecovered: "Cleaning goes on."
        case .cleaningFailed(let error): "History could not be cleaned; it is tried again. \(error)"
        case .consumerBegan(let consumer, let token): "\"\(consumer)\" is new; it begins after \(token)."
        case .consumerForgotten(let consumer):
            "\"\(consumer)\" is no longer configured; its cursor was removed."
        case .consumerStands(let consumer, let token): "\"\(consumer)\" continues after \(token)."
        case .cursorMoved(let consumer, let token): "\"\(consumer)\" has processed everything up to \(token)."
        case .cursorsMoved(let consumers, let token):
            "\(counted(consumers.count, "consumer")) with nothing to do moved to \(token)."
        case .consumerFailed(let consumer, let error, let delay):
            "\"\(consumer)\" cannot continue. \(error) It is tried again in \(delay)."
        case .consumerRecovered(let consumer): "\"\(consumer)\" continues."
        case .tokenExpired(let consumer, let error): "The token of \"\(consumer)\" is no longer valid. \(error)"
        case .recreated(let consumer, let entities, let token):
            "Changes of \(quoted(entities)) may have gone unrecorded before \(token); \"\(consumer)\" was notified to read them again."
        case .historyLost(let consumer, let expiry): "\"\(consumer)\" has lost history: \(expiry.sentence)."
        case .lossUnheard(_, let hook, let expiry):
            "Hook \"\(hook)\" has no onExpired closure, so it was not notified of lost history: \(expiry.sentence). Rebuild from the store what depends on it."
        case .consumerPassedBy(let consumer, let token, let standing):
            "\"\(consumer)\" has not moved for \(standing); history after \(token) is deleted without waiting for it."
        case .delivered(let consumer, let hook, let deliveries):
            "Delivered \(counted(deliveries.transactions, "transaction")) to \"\(hook)\" for \"\(consumer)\", up to \(deliveries.token)."
        case .hookFailed(_, let hook, let failure, let token, let attempt, let delay):
            "Hook \"\(hook)\" failed at \(token), attempt \(attempt): \(failure) It is tried again in \(delay)."
        case .hookHeld(let consumer, let hook, let failure, let token, let attempts, let delay):
            "Hook \"\(hook)\" failed at \(token), attempt \(attempts): \(failure) \"\(consumer)\" waits; it is tried again every \(delay)."
        case .hookRecovered(_, let hook, let token, let attempts):
            "Hook \"\(hook)\" succeeded at \(token), after \(counted(attempts, "failed attempt"))."
        case .deadLetterKept(let consumer, let hook, let failure, let token, let attempts):
            "Hook \"\(hook)\" failed at \(token), attempt \(attempts): \(failure) The call is kept as a dead letter, and \"\(consumer)\" continues."
        case .feedBegan(_, let feed, let token): "The feed \"\(feed)\" is new; it begins after \(token)."
        case .feedForgotten(_, let feed):
            "The feed \"\(feed)\" is no longer configured; its position was removed."
        case .feedMoved(_, let feed, let token):
            "The feed \"\(feed)\" has acknowledged everything up to \(token)."
        case .feedExpired(_, let feed, let expiry): "The feed \"\(feed)\" has lost history: \(expiry.sentence)."
        case .merged(_, let context, let transactions, let last):
            "Merged \(counted(transactions, "transaction")) into \"\(context)\", up to \(last)."
        case .replicaFilled(_, let context, let token):
            "The context \"\(context)\" was filled from the store as of \(token)."
        case .replicaMovedAside(_, let context, let path):
            "The context \"\(context)\" was damaged; its file was moved to \"\(path)\", and it is created again."
        case .replicaTableLeftOut(_, let context, let part):
            "The context \"\(context)\" is created without the table \"\(part.name)\": \(part.reason)."
        case .replicaIndexLeftOut(_, let context, let part):
            "The context \"\(context)\" is created without the index \"\(part.name)\": \(part.reason)."
        case .replicaLogGrows(_, let context, let bytes):
            "The context \"\(context)\" has a write-ahead log of \(bytes >> 20) MB, because a reader keeps a transaction open."
        case .contextFailed(_, let context, let error, let attempt):
            "The context \"\(context)\" cannot be updated, attempt \(attempt). \(error) It is tried again."
        case .contextRecovered(_, let context, let attempts):
            "The context \"\(context)\" can be updated again, after \(counted(attempts, "failed attempt"))."
        // What is only for the status.
        default: "\(self)"
        }
    }

    private func counted(_ count: Int, _ noun: String) -> String { "\(count) \(noun)\(count == 1 ? "" : "s")" }

    private func quoted(_ names: [String]) -> String { names.map { "\"\($0)\"" }.joined(separator: ", ") }
}

extension Expiry {
    /// Why, and from where to where.
    fileprivate var sentence: String {
        let range = lost.map { "everything after \($0), up to \(after)" } ?? "everything up to \(after)"
        return switch reason {
        case .expired: "\(range), was deleted"
        case .late: "\(range), was deleted before the consumer began"
        case .recreated:
            "changes of \(entities.map { "\"\($0)\"" }.joined(separator: ", ")) may have gone unrecorded before \(after)"
        default: "the store is no longer the same; the consumer continues after \(after)"
        }
    }
}

extension Tracking.Outcome {
    /// `began "person"; brought up to date "item"`.
    package var sentence: String {
        [("began", added), ("brought up to date", updated), ("table gone", dropped)]
            .filter { !$0.1.isEmpty }
            .map { "\($0.0) \($0.1.map { "\"\($0)\"" }.joined(separator: ", "))" }
            .joined(separator: "; ")
    }
}
