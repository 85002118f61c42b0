import Glibc
import HistoryConfiguration
import Logging

/// Writes to the journal, with fields, or to standard error, as plain lines.
///
/// A struct, as swift-log requires: what is set on one logger does not affect another. Only the level is
/// shared, by all loggers that have none of their own.
struct DaemonLogHandler: LogHandler {
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    private var ownLevel: Logger.Level?
    private let sharedLevel: LiveLogLevel
    private let write: @Sendable (Logger.Level, String, Logger.Metadata) -> Void

    /// - Parameter write: Gets each line's level, text and metadata; must not block for long.
    init(
        level: LiveLogLevel, metadataProvider: Logger.MetadataProvider? = nil,
        write: @escaping @Sendable (Logger.Level, String, Logger.Metadata) -> Void
    ) {
        self.sharedLevel = level
        self.metadataProvider = metadataProvider
        self.write = write
    }

    var logLevel: Logger.Level {
        get { ownLevel ?? sharedLevel.loggerLevel }
        set { ownLevel = newValue }
    }

    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        if ownLevel == nil, sharedLevel.level == .off { return }
        var all = metadata
        if let provided = metadataProvider?.get() { all.merge(provided) { _, new in new } }
        if let given = event.metadata { all.merge(given) { _, new in new } }
        if let error = event.error { all["error"] = "\(error)" }
        write(event.level, "\(event.message)", all)
    }

    static func journal(
        _ level: LiveLogLevel, _ provider: Logger.MetadataProvider? = nil, to writer: JournalWriter = .shared
    ) -> DaemonLogHandler {
        DaemonLogHandler(level: level, metadataProvider: provider) { level, message, metadata in
            writer.write(JournalEntry(level: level, message: message, metadata: metadata))
        }
    }

    /// - Parameter omitsEvents: Whether to leave out an event's name, which is for searching a log, not for a
    ///   reader at a terminal.
    static func lines(
        _ level: LiveLogLevel, _ provider: Logger.MetadataProvider? = nil, to writer: LineWriter = .shared,
        omitsEvents: Bool = isatty(STDERR_FILENO) == 1
    ) -> DaemonLogHandler {
        DaemonLogHandler(level: level, metadataProvider: provider) { level, message, metadata in
            let metadata = omitsEvents ? metadata.filter { $0.key != "event" } : metadata
            writer.write(LogLine(level: level, message: message, metadata: metadata))
        }
    }
}
