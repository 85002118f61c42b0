import ArgumentParser
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
        let client = daemon.client(timeout: daemon.limit.orDefault(.seconds(5)))
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

struct Metrics: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics",
        abstract: "Print the daemon's metrics, for Prometheus.",
        discussion: """
            The format is Prometheus' text format, as node_exporter's textfile collector reads it. With \
            historyd-metrics.socket, Prometheus can scrape the metrics itself, as OpenMetrics.
            """)

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var limit: TimeoutOptions

    func run() async throws {
        var output = StandardOutput()
        let metrics = try await connection.client(timeout: limit.orDefault()).send(.metrics)
        try output.write(Array(PrometheusText.converted(String(decoding: metrics, as: UTF8.self)).utf8))
        try output.flush()
    }
}
