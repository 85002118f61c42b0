import ArgumentParser
import HistoryControl

struct Resync: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resync",
        abstract: "Fill a replica, or a context that a plugin keeps, again from its store.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The name of the context.", completion: .contexts)
    var context: String
    @Option(help: "Its store, if several stores have such a context.", completion: .stores)
    var store: String?
    @Option(help: "Its consumer, if several consumers have such a context.", completion: .consumers)
    var consumer: String?

    func run() async throws {
        let request = ControlCommand.resync(context: context, store: store, consumer: consumer)
        try await daemon.ask(request, ResyncReport.self) { try $1.writeLine($0.token) }
    }
}
