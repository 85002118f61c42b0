import ArgumentParser
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct Reload: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload",
        abstract: "Read the configuration and the manifests again.",
        discussion: """
            Returns when the new configuration is in force. If it has errors, all of them are printed, the \
            old configuration stays in force, and the status is 78.
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        try await daemon.ask(.reload, ReloadReport.self) { report, output in
            try output.writeLine("The configuration is in force: \(report.hooks, "hook").")
            for (what, changes) in [("stores", report.stores), ("plugins", report.plugins)] {
                for (how, names) in [
                    ("begun", changes.begun), ("ended", changes.ended), ("changed", changes.changed),
                    ("unchanged", changes.unchanged),
                ] where !names.isEmpty {
                    try output.writeLine("\(what) \(how): \(names.joined(separator: ", ").printable)")
                }
            }
            for warning in report.warnings ?? [] { try output.writeLine("warning: \(warning.printable)") }
        }
    }
}

struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stop delivery until resume. Calls in flight finish first.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.")
    var store: String?

    func run() async throws {
        try await daemon.ask(.pause(store: store), PauseReport.self) { try $0.write(to: &$1) }
    }
}

struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Continue after a pause, with everything that was committed meanwhile.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.")
    var store: String?

    func run() async throws {
        try await daemon.ask(.resume(store: store), PauseReport.self) { try $0.write(to: &$1) }
    }
}

extension PauseReport {
    fileprivate func write(to output: inout StandardOutput) throws {
        for store in stores {
            try output.writeLine("\(store.name.printable) \(store.paused ? "is paused" : "is resumed")")
        }
    }
}

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Run a pass now, and show how it ended.",
        discussion: """
            Hooks and contexts that failed are tried at once. Status 75 if a consumer has not caught up \
            afterwards, or if the pass takes longer than the timeout; the pass then continues.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.")
    var store: String?

    func run() async throws {
        let timeout = try daemon.limit.timeout ?? TimeoutArgument("1m")
        let list = try await daemon.ask(
            .run(store: store, timeout: timeout.text), ConsumerList.self,
            by: daemon.client(timeout: timeout.duration + TimeoutOptions.grace)
        ) {
            try $0.write(to: &$1)
        }
        guard list.consumers.allSatisfy({ $0.problem == nil }) else {
            throw ExitCode(ExitStatus.temporary.rawValue)
        }
    }
}

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
