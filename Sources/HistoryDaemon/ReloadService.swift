public import HistoryConfiguration
public import Logging
import PersistentHistory
import ServiceLifecycle
import UnixSignals

/// Reads the configuration again at SIGHUP, all or nothing: it returns when a new one was read, and
/// goes on where there is an error in it.
///
/// The service manager is told of each attempt, and that the daemon is ready again also after one
/// that was refused: a reload of `Type=notify-reload` would otherwise wait in vain (sd_notify(3)).
struct ReloadService: Service {
    let file: String
    let logger: Logger
    let notifier: any ServiceNotifying
    let goOn: @Sendable (LoadedConfiguration) -> Void
    private let taken = Locked(false)

    init(
        file: String, logger: Logger, notifier: any ServiceNotifying,
        goOn: @escaping @Sendable (LoadedConfiguration) -> Void
    ) {
        self.file = file
        self.logger = logger
        self.notifier = notifier
        self.goOn = goOn
    }

    /// Whether a new configuration was read.
    var isTaken: Bool { taken.withLock { $0 } }

    func run() async throws {
        for await _ in await UnixSignalsSequence(trapping: .sighup).cancelOnGracefulShutdown() {
            notifier.notify(.reloading)
            do {
                let loaded = try LoadedConfiguration.load(file: file)
                try loaded.refuseWhatIsNotServed()
                logger.report(.reloaded, "The configuration was read again, and is in force.")
                taken.withLock { $0 = true }
                goOn(loaded)
                return
            } catch {
                for problem in error.problems { logger.report(.reloadRefused, "\(problem)") }
                notifier.notify(.ready)
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
