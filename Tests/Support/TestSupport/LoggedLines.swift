public import Logging
import PersistentHistory

/// One line of a log.
public struct LoggedLine: Equatable, Sendable {
    public var level: Logger.Level
    public let text: String
    public var fields: Logger.Metadata

    public init(level: Logger.Level, text: String, fields: Logger.Metadata) {
        (self.level, self.text, self.fields) = (level, text, fields)
    }
}

/// Collects what is logged.
public final class LoggedLines: Sendable {
    private let lines = Locked<[LoggedLine]>([])
    private let level: Logger.Level

    /// - Parameter level: The lowest level to collect.
    public init(from level: Logger.Level = .trace) { self.level = level }

    public var logger: Logger {
        Logger(label: "test") { [level] _ in Handler(lines: self, logLevel: level) }
    }
    public var all: [LoggedLine] { lines.withLock { $0 } }
    /// `error: text` for each line.
    public var texts: [String] { all.map { "\($0.level): \($0.text)" } }

    private struct Handler: LogHandler {
        let lines: LoggedLines
        var metadata: Logger.Metadata = [:]
        var logLevel: Logger.Level

        init(lines: LoggedLines, logLevel: Logger.Level) {
            (self.lines, self.logLevel) = (lines, logLevel)
        }

        subscript(metadataKey key: String) -> Logger.MetadataValue? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let line = LoggedLine(
                level: event.level, text: "\(event.message)", fields: event.metadata ?? [:])
            lines.lines.withLock { $0.append(line) }
        }
    }
}
