import ArgumentParser
import HistoryConfiguration
import HistoryControl

struct Pause: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stop delivery until resume. Calls in flight finish first.")

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.", completion: .stores)
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
    @Argument(help: "The store; without one, all.", completion: .stores)
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
