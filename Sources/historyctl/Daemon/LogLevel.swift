import ArgumentParser
import HistoryControl

struct LogLevelVerb: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "log-level", abstract: "Show the log level, or set it until the daemon ends.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "trace, debug, info, notice, warning, error, critical or off.")
    var level: String?

    func run() async throws {
        try await daemon.ask(level.map { .setLogLevel($0) } ?? .logLevel, LogLevelReport.self) {
            try $1.writeLine($0.logLevel)
        }
    }
}
