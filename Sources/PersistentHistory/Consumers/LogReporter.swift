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
        case .watchOverflowed, .trackingUpdated, .stateRecovered, .consumerForgotten, .hookRecovered,
            .replicaFilled, .replicaIndexLeftOut, .contextRecovered, .feedBegan, .feedForgotten:
            .notice
        case .consumerStands, .cursorMoved, .cursorsMoved, .feedMoved, .cleaningHeldBack, .tokenExpired,
            .recreated,
            .trackingComplete, .deadLettersFound:
            .debug
        default: .info
        }
    }
}
