public import Logging

/// Receives the events of one store.
public protocol PipelineReporter: Sendable {
    /// Called for each event, in order for one consumer. It must not block.
    func report(_ event: PipelineEvent)
}

/// A reporter that ignores all events.
public struct SilentReporter: PipelineReporter {
    /// A reporter that ignores everything.
    public init() {}
    /// Does nothing.
    public func report(_ event: PipelineEvent) {}
}

/// Logs events with swift-log, in the three levels of detail of PersistentHistoryTrackingKit. It is a tracker's default.
public struct LogReporter: PipelineReporter {
    private let logger: Logger
    private let logLevel: Int

    /// A reporter that logs.
    ///
    /// - Parameters:
    ///   - logLevel: 0 logs nothing, 1 important events (failures, losses, rare changes), 2 all events.
    ///   - logger: The logger. With level 2, its own level is lowered to `trace`.
    public init(logLevel: Int = 1, logger: Logger = Logger(label: "PersistentHistory")) {
        self.logLevel = logLevel
        var logger = logger
        if logLevel > 1 { logger.logLevel = .trace }
        self.logger = logger
    }

    /// Logs what an event says, if it is important enough.
    public func report(_ event: PipelineEvent) {
        guard logLevel > 1 || (logLevel == 1 && !event.isRoutine) else { return }
        for message in event.messages() where logLevel > 1 || message.level >= .notice {
            var metadata = message.fields
            if let code = message.code { metadata["event"] = "\(code)" }
            logger.log(level: message.level, "\(message.text)", metadata: metadata)
        }
    }
}
