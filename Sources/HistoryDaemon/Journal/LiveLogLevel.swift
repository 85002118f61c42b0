package import HistoryConfiguration
package import Logging
import Synchronization

/// The level of the whole daemon's log, which may be changed while it runs.
///
/// Shared by every logger that was not given a level of its own.
package final class LiveLogLevel: Sendable {
    private let index: Atomic<Int>

    package init(_ level: Logger.Level = .info) {
        index = Atomic(Self.index(of: level))
    }

    package var level: Logger.Level {
        get { Logger.Level.allCases[index.load(ordering: .relaxed)] }
        set { index.store(Self.index(of: newValue), ordering: .relaxed) }
    }

    private static func index(of level: Logger.Level) -> Int {
        Logger.Level.allCases.firstIndex(of: level) ?? 0
    }
}

extension LogLevel {
    /// The level of the log.
    package var loggerLevel: Logger.Level { Logger.Level(rawValue: rawValue) ?? .info }
}
