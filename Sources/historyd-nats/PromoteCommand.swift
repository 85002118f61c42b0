import ArgumentParser
import HistoryConfiguration
import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

struct Promote: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "promote",
        abstract: "Make a store of a mirror: the stream goes on from it, and no more from its old source.",
        discussion: """
            The mirror first takes what the stream has. Then it says what may be lost, and does nothing if that is \
            not known to be nothing, unless --accept-loss is given. The page "Mirrors on other machines" has a \
            runbook.
            """)

    @OptionGroup var options: ConfigurationOption

    @Argument(help: "The stream's name, which the configuration follows.")
    var name: String

    @Option(
        help:
            "The old source's file, if it can be read here: the transactions that the mirror lacks are counted."
    )
    var source: String?

    @Flag(help: "Promote the mirror even if transactions may be lost.")
    var acceptLoss = false

    func run() throws {
        try HistoryLoop.carry {
            let (logger, _) = makeLogger()
            let configuration = try options.load(logger)
            guard let following = configuration.follow.first(where: { $0.name == name }) else {
                logger.error("The configuration follows nothing as \"\(name)\".")
                throw ExitCode(ExitStatus.noInput.rawValue)
            }
            let promotion = Promotion(
                connect: NATSConnection.connect, configuration: configuration, following: following,
                source: source, stateFolder: Program.stateFolder, logger: logger)
            guard await onPool({ promotion.run(acceptsLoss: acceptLoss) }) else {
                throw ExitCode(ExitStatus.temporary.rawValue)
            }
        }
    }
}
