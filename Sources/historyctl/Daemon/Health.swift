import ArgumentParser
import HistoryBase
import HistoryConfiguration
import HistoryControl

struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health",
        abstract: "Show whether the daemon is healthy, and what is wrong.",
        discussion: """
            Status 0 if it is healthy; 1 if it is degraded: everything is delivered, but something needs \
            attention; 2 if it is failing: something is not delivered, or the daemon does not answer within 5 \
            seconds (--timeout). Status 69 if it is not running.
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let client = daemon.client(timeout: daemon.timeout?.duration ?? .seconds(5))
        let bytes: [UInt8]
        do {
            bytes = try await client.send(.health)
        } catch let error as ControlClient.Unanswered {
            bytes = try ControlJSON.bytes(HealthReport(reasons: [.init(.notAnswering, error.description)]))
        }
        let report = try daemon.show(bytes, HealthReport.self) { report, output in
            try output.writeLine(report.verdict.rawValue)
            for reason in report.reasons {
                try output.writeLine("\(reason.verdict.rawValue): \(reason.message.printable)")
            }
        }
        if report.verdict != .healthy { throw ExitCode(report.verdict.rank) }
    }
}
