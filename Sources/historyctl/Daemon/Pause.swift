import ArgumentParser
import HistoryBase
import HistoryConfiguration
import HistoryControl

struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stop delivery until resume. Calls in flight finish first.",
        discussion: """
            A restart of the daemon ends a pause, unless it is kept. A store and its consumers are paused and resumed \
            apart from each other.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.", completion: .stores)
    var store: String?
    @Option(help: "Only this consumer.", completion: .consumers)
    var consumer: String?
    @Flag(help: "Keep the pause over restarts of the daemon.")
    var keep = false

    func run() async throws {
        let command = ControlCommand.pause(store: store, consumer: consumer, keep: keep)
        try await daemon.ask(command, PauseReport.self) { try $0.write(to: &$1) }
    }
}

struct Resume: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Continue after a pause, with everything that was committed meanwhile.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.", completion: .stores)
    var store: String?
    @Option(help: "Only this consumer.", completion: .consumers)
    var consumer: String?

    func run() async throws {
        let command = ControlCommand.resume(store: store, consumer: consumer)
        try await daemon.ask(command, PauseReport.self) { try $0.write(to: &$1) }
    }
}

extension PauseReport {
    fileprivate func write(to output: inout StandardOutput) throws {
        for store in stores {
            let name = (store.consumer.map { "\($0) of \(store.name)" } ?? store.name).printable
            let lasting = store.kept == true ? "also over restarts" : "or until the daemon ends"
            try output.writeLine(
                "\(name) \(store.paused ? "is paused until resume, \(lasting)" : "is resumed")")
            if let others = store.pausedConsumers {
                try output.writeLine(
                    "Still paused: \(others.map(\.printable).joined(separator: ", ")). Resume them with --consumer."
                )
            }
        }
    }
}
