import ArgumentParser
import HistoryBase
import HistoryConfiguration
import HistoryControl

struct Plugins: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "plugins",
        abstract: "List plugins, restart one, or test one.",
        subcommands: [ListPlugins.self, RestartPlugin.self, TestPlugin.self])
}

struct ListPlugins: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "Show the plugins and the states of their processes.")

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        try await daemon.ask(.plugins, PluginList.self) { list, output in
            var table = TextTable(
                ["PLUGIN", "MODE", "STATE", "FAILURES", "HOOKS", "COMMAND", "PROBLEM"], names: [0])
            try table.write(
                list.plugins.map { plugin in
                    [
                        plugin.name, plugin.mode, plugin.state?.rawValue ?? "", String(plugin.failures),
                        String(plugin.hooks.count), plugin.command.joined(separator: " "),
                        plugin.problem ?? "",
                    ]
                }, to: &output)
            try table.writeCut(to: &output)
        }
    }
}

struct RestartPlugin: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restart", abstract: "End a coprocess, and start it again.",
        discussion: "Calls in flight finish first. Status 75 if the new process does not run.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The plugin.", completion: .plugins) var name: String

    func run() async throws {
        let restart = try await daemon.ask(.restartPlugin(name), PluginRestart.self) { restart, output in
            try output.writeLine(restart.problem?.printable ?? "\(restart.plugin) runs again")
        }
        if restart.problem != nil { throw ExitCode(ExitStatus.temporary.rawValue) }
    }
}

struct TestPlugin: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "test", abstract: "Make a call to a hook, and show the result.",
        discussion: """
            A separate process is started for the call. The call is that of a past transaction, or of an invented one, \
            whose object has the key -1 or "sample". It has the member "sample": true, and a delivery that begins with \
            "test-". Whatever the plugin does with a change, it does with this one: see first what it gets, with \
            --dry-run. Status 75 if the hook fails.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The plugin.", completion: .plugins) var name: String
    @Argument(help: "The hook; without one, the plugin's first.") var hook: String?
    @Option(help: "Make the first call that this transaction makes to the hook.") var token: String?
    @Flag(help: "Only show the call.") var dryRun = false

    func run() async throws {
        let request = ControlCommand.testPlugin(name, hook: hook, token: token, dryRun: dryRun)
        let test = try await daemon.ask(request, PluginTest.self) { test, output in
            try output.writeLine("call: \(test.call.printable)")
            for line in test.errors { try output.writeLine("standard error: \(line.printable)") }
            guard let seconds = test.seconds else { return }
            let milliseconds = Int((seconds * 1000).rounded())
            if let problem = test.problem {
                try output.writeLine("failed after \(milliseconds) ms: \(problem.printable)")
            } else {
                let result = test.result.map { ", with \($0)" } ?? ""
                try output.writeLine("succeeded after \(milliseconds) ms\(result)")
            }
        }
        if test.succeeded == false { throw ExitCode(ExitStatus.temporary.rawValue) }
    }
}
