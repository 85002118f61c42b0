import ArgumentParser
import HistoryControl

struct Wait: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "wait",
        abstract: "Wait until a consumer has processed a transaction.",
        discussion: """
            A writer calls history_token() after its commit, and waits for that token. When this command \
            returns, the consumer's hooks have been called and its replicas show the transaction. Status 75 \
            after the timeout.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Option(help: "The consumer.", completion: .consumers)
    var consumer: String
    @Option(help: "The transaction's token.")
    var token: String
    @Option(help: "The consumer's store, if several have a consumer of that name.", completion: .stores)
    var store: String?

    func run() async throws {
        let timeout = try daemon.timeout ?? TimeoutArgument("30s")
        try await daemon.ask(
            .wait(consumer: consumer, token: token, store: store, timeout: timeout.text), PositionReport.self,
            by: daemon.client(timeout: timeout.duration + TimeoutArgument.grace)
        ) { try $1.writeLine($0.cursor) }
    }
}
