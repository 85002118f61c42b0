package import HistoryConfiguration
import Logging
import Synchronization

/// The level of the whole daemon's log, which may be changed while it runs.
///
/// Shared by every logger that was not given a level of its own.
package final class LiveLogLevel: Sendable {
    private let index: Atomic<Int>
    private static let levels = LogLevel.allCases
    /// Asked for with each event that might be logged.
    private static let loggerLevels = levels.map(\.loggerLevel)

    package init(_ level: LogLevel = .info) {
        index = Atomic(Self.index(of: level))
    }

    package var level: LogLevel {
        get { Self.levels[index.load(ordering: .relaxed)] }
        set { index.store(Self.index(of: newValue), ordering: .relaxed) }
    }

    var loggerLevel: Logger.Level { Self.loggerLevels[index.load(ordering: .relaxed)] }

    private static func index(of level: LogLevel) -> Int { levels.firstIndex(of: level) ?? 0 }
}

extension LogLevel {
    /// The level that swift-log knows; with `off` the handler drops even that.
    var loggerLevel: Logger.Level { Logger.Level(rawValue: rawValue) ?? .critical }
}
