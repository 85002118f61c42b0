public import HistoryConfiguration
public import Logging
import PersistentHistory
import ServiceLifecycle
import UnixSignals

/// Reads the configuration again at SIGHUP; what comes of it is in the journal.
struct ReloadService: Service {
    let steward: Steward

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            do {
                _ = try await steward.reload()
            } catch {
                // Told already, with all that is wrong: the old one stays in force.
            }
        }
        try await gracefulShutdown()
    }
}

extension LogLevel {
    /// The level of the log.
    public var loggerLevel: Logger.Level { Logger.Level(rawValue: rawValue) ?? .info }
}
