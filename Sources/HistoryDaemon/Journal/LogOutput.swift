import Glibc
package import HistoryConfiguration
package import Logging
import PersistentHistory
import Synchronization

/// Where the log goes.
package enum LogOutput: Sendable, Hashable {
    /// Natively to journald, with fields.
    case journal
    /// As lines of text, without time and process id, which the reader of standard error adds.
    case standardError

    /// The journal if standard error leads there anyway, else standard error.
    ///
    /// Source: systemd.exec(5), `$JOURNAL_STREAM`: the device and inode of the stream that the service
    /// manager connected. It is inherited by children whose standard error leads elsewhere, hence the
    /// comparison.
    package static var suitable: LogOutput {
        var status = stat()
        guard let stream = getenv("JOURNAL_STREAM"), fstat(STDERR_FILENO, &status) == 0 else {
            return .standardError
        }
        return suitable(
            journalStream: String(cString: stream), device: UInt64(status.st_dev),
            inode: UInt64(status.st_ino))
    }

    private static let inUse = Locked<LogOutput>(.standardError)

    /// How many lines were dropped since the start because the log did not take them.
    static var droppedLines: Int {
        switch inUse.withLock(\.self) {
        case .journal: JournalWriter.shared.droppedInAll
        case .standardError: LineWriter.shared.droppedInAll
        }
    }

    static func suitable(journalStream: String, device: UInt64, inode: UInt64) -> LogOutput {
        journalStream == "\(device):\(inode)" ? .journal : .standardError
    }

    /// Makes this the output of every `Logger` of the process. Call it once, before anything is logged.
    ///
    /// - Parameter level: Stays connected: a change takes effect at once.
    package func bootstrap(level: LiveLogLevel, metadataProvider: Logger.MetadataProvider? = nil) {
        Self.inUse.withLock { $0 = self }
        switch self {
        case .journal:
            LoggingSystem.bootstrap(
                { _, provider in DaemonLogHandler.journal(level, provider) }, metadataProvider: metadataProvider
            )
            // The last records, mostly the reason for an exit, are still pending then.
            atexit { JournalWriter.shared.flush() }
        case .standardError:
            LoggingSystem.bootstrap(
                { _, provider in DaemonLogHandler.lines(level, provider) }, metadataProvider: metadataProvider)
            atexit { LineWriter.shared.flush() }
        }
    }
}

/// The level of the whole daemon's log, which may be changed while it runs.
///
/// Shared by every logger that was not given a level of its own.
package final class LiveLogLevel: Sendable {
    private let index: Atomic<Int>
    private static let levels = LogLevel.allCases
    /// Read for each event that might be logged.
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
    /// The level for swift-log; with `off` the handler drops even that.
    var loggerLevel: Logger.Level { Logger.Level(rawValue: rawValue) ?? .critical }
}
