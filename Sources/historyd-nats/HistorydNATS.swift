import ArgumentParser
import Foundation
import HistoryConfiguration
import HistoryDaemon
import Logging
import PersistentHistory

@main
struct HistorydNATS: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "historyd-nats",
        abstract: "Carries the history of SQLite stores to other machines, over NATS JetStream.",
        discussion: """
            It publishes the history of stores that historyd records to streams, and follows streams into mirrors: \
            SQLite files on which another historyd serves hooks, feeds and replicas.

            Exit statuses are those of sysexits(3): 64 usage, 69 not running, 75 temporary, 78 configuration.
            """,
        version: HistoryVersion.current,
        subcommands: [
            Run.self, Publish.self, Promote.self, StatusCommand.self, HealthCommand.self, DoctorCommand.self,
            ReloadCommand.self,
        ],
        defaultSubcommand: Run.self)
}

struct ConfigurationOption: ParsableArguments {
    @Option(help: "The configuration.")
    var config = "/etc/historyd/nats.json"

    /// - Throws: `ExitCode` after all errors were reported.
    func load(_ logger: Logger) throws -> NATSConfiguration {
        do {
            return try NATSConfiguration.load(file: config)
        } catch {
            for problem in error.problems { logger.report(.natsConfigurationInvalid, "\(problem)") }
            throw ExitCode(ExitStatus.configuration.rawValue)
        }
    }
}

/// The log, configured like the daemon's.
func makeLogger() -> (Logger, LiveLogLevel) {
    let level = LiveLogLevel(.info)
    LogOutput.suitable.bootstrap(level: level)
    return (Logger(label: "historyd-nats"), level)
}

struct Run: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Publish and follow (the default).")

    @OptionGroup var options: ConfigurationOption

    @Flag(help: "Check the configuration, report all errors, and exit.")
    var checkConfig = false

    @Flag(help: "Publish and follow what exists now, and exit.")
    var once = false

    func run() throws {
        InheritedSignals.reset(endsAtBrokenPipe: false)
        MappedFiles.surviveLoss()
        ProcessMemory.keepSmall()
        try HistoryLoop.carry { try await serve() }
    }

    private func serve() async throws {
        let (logger, level) = makeLogger()
        let loaded = try options.load(logger)
        if checkConfig {
            let missing = loaded.missingFiles { FileManager.default.fileExists(atPath: $0) }
            for problem in missing {
                logger.report(.natsConfigurationInvalid, "\(options.config): \(problem)")
            }
            guard missing.isEmpty else { throw ExitCode(ExitStatus.configuration.rawValue) }
            print(
                "\(options.config) is valid: \(loaded.publish.count) published, \(loaded.follow.count) followed."
            )
            return
        }
        level.level = loaded.logLevel
        if once {
            let program = Program(configuration: loaded, logger: logger)
            guard await program.runOnce() else { throw ExitCode(ExitStatus.temporary.rawValue) }
        } else {
            let service = NATSService(
                file: options.config, logger: logger, level: level, notifier: ServiceNotifier(logger: logger))
            try await service.run(loaded)
        }
    }
}

struct Publish: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Start a new epoch of a stream: the store is right, and the stream is not.",
        discussion: "Followers get a new snapshot. Needed if the store and a copy of it were both written to.")

    @OptionGroup var options: ConfigurationOption

    @Option(name: .customLong("new-epoch"), help: ArgumentHelp("The stream's name.", valueName: "name"))
    var newEpoch: String

    func run() throws {
        try HistoryLoop.carry {
            let (logger, _) = makeLogger()
            let configuration = try options.load(logger)
            guard configuration.publish.contains(where: { $0.name == newEpoch }) else {
                logger.error("The configuration publishes nothing as \"\(newEpoch)\".")
                throw ExitCode(ExitStatus.noInput.rawValue)
            }
            let program = Program(configuration: configuration, logger: logger)
            guard await program.publishNewEpoch(newEpoch) else {
                throw ExitCode(ExitStatus.temporary.rawValue)
            }
        }
    }
}
