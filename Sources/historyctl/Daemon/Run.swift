import ArgumentParser
import HistoryConfiguration
import HistoryControl

struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Run a pass now, and show how it ended.",
        discussion: """
            Hooks and contexts that failed are tried at once. Status 75 if a consumer has not caught up \
            afterwards, or if the pass takes longer than the timeout; the pass then continues.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.", completion: .stores)
    var store: String?

    func run() async throws {
        let timeout = try daemon.timeout ?? TimeoutArgument("1m")
        let list = try await daemon.ask(
            .run(store: store, timeout: timeout.text), ConsumerList.self,
            by: daemon.client(timeout: timeout.duration + TimeoutArgument.grace)
        ) {
            try $0.write(to: &$1)
        }
        guard list.consumers.allSatisfy({ $0.problem == nil }) else {
            throw ExitCode(ExitStatus.temporary.rawValue)
        }
    }
}
