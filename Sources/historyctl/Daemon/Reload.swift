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
