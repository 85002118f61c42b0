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

extension LoadedConfiguration {
    /// What the contract knows and this version does not serve is said at once, not ignored.
    ///
    /// - Throws: `ConfigurationErrors`.
    public func refuseWhatIsNotServed() throws(ConfigurationErrors) {
        var problems: [ConfigurationProblem] = []
        for store in configuration.stores {
            for author in store.authors {
                for context in author.contexts where context.kind == .feed {
                    problems.append(
                        ConfigurationProblem(
                            file: files.first ?? "", position: nil,
                            message:
                                "Context \"\(context.name)\" of \"\(author.name)\" in store \"\(store.name)\" is a feed, which this version does not serve: only \"replica\" is."
                        ))
                }
            }
        }
        if !problems.isEmpty { throw ConfigurationErrors(problems: problems) }
    }
}

extension LogLevel {
    /// The level of the log.
    public var loggerLevel: Logger.Level { Logger.Level(rawValue: rawValue) ?? .info }
}
