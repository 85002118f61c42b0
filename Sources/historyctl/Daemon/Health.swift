import ArgumentParser
import HistoryConfiguration
import HistoryControl

struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show whether the daemon is healthy, and what is wrong.",
        discussion: """
            Status 0 if it is healthy; 1 if it is degraded: everything is delivered, but something needs \
            attention; 2 if it is failing: something is not delivered. Status 69 if it is not running.
            """)

    @OptionGroup var daemon: DaemonOptions

    func run() async throws {
        let report = try await daemon.ask(.health, HealthReport.self) { report, output in
            try output.writeLine(report.verdict.rawValue)
            for reason in report.reasons {
                try output.writeLine("\(reason.verdict.rawValue): \(reason.message.printable)")
            }
        }
        if report.verdict != .healthy { throw ExitCode(report.verdict.rank) }
    }
}

struct Metrics: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Print the daemon's metrics, for Prometheus.",
        discussion: """
            The format is OpenMetrics, which node_exporter's textfile collector also reads. With \
            historyd-metrics.socket, Prometheus can scrape the metrics itself.
            """)

    @OptionGroup var connection: ConnectionOptions

    func run() async throws {
        var output = StandardOutput()
        try output.write(try await connection.client.send(.metrics))
        try output.flush()
    }
}
