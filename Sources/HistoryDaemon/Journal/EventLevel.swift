package import Logging

extension Event {
    /// How loud the event is, in syslog's terms: an *error* wants a human to act, a *warning* is
    /// degraded service that recovers by itself, a *notice* is a rare change of state, *info* the rest.
    package var level: Logger.Level {
        switch self {
        case .starting, .ready, .stopping, .cleaned, .natsReady:
            .info
        case .reloaded, .storeBack, .trackingUpdated, .watchOverflowed, .contextRefilled,
            .contextRecovered, .hookRecovered, .pluginRestarted, .stateRemoved, .paused, .resumed,
            .hooksChanged, .natsReloaded, .natsResumed, .mirrorFilled:
            .notice
        case .storeReplaced, .tokenExpired, .hookFailed, .hookTimedOut, .pluginDied,
            .consumerBlocksCleanup, .consumerPassedBy, .cleanFailed, .stateLost, .linesDropped,
            .controlRefused, .replicaTableLeftOut, .recordingDoubtful, .changesUnrecorded, .historyBeganAgain,
            .natsInterrupted, .natsMessageForeign, .mirrorMovedAside, .loopStalled:
            .warning
        case .configurationInvalid, .reloadRefused, .storeLost, .storeUnusable, .wouldLockOut, .trackingFailed,
            .watchFailed, .contextFailed, .hookHeld, .deadLetterKept, .pluginFailing,
            .pluginUnstartable,
            .stateCorrupt, .stateUnavailable, .stateInUse, .pipelineStuck, .controlUnavailable,
            .natsConfigurationInvalid, .natsReloadRefused, .natsDiverged, .natsFeedUnusable,
            .mirrorGroupRefused, .mirrorStale:
            .error
        }
    }
}

extension Logger {
    /// Logs an event that an operator may be alerted on, at the event's own level.
    ///
    /// The text should stand by itself ("The hook "audit/new" …, 3 attempts failed."): the metadata's
    /// known keys (see ``JournalEntry``) become fields of the journal and are not repeated in the line.
    package func report(
        _ event: Event, _ message: @autoclosure () -> Logger.Message,
        error: @autoclosure () -> (any Error)? = nil,
        metadata: @autoclosure () -> Logger.Metadata = [:],
        file: String = #fileID, function: String = #function, line: UInt = #line
    ) {
        log(
            level: event.level, message(), error: error(),
            metadata: metadata().merging(["event": .string(event.rawValue)]) { _, event in event },
            file: file, function: function, line: line)
    }
}
