import ArgumentParser
import HistoryControl

struct Metrics: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "metrics",
        abstract: "Print the daemon's metrics, for Prometheus.",
        discussion: """
            The format is Prometheus' text format, as node_exporter's textfile collector reads it. With \
            historyd-metrics.socket, Prometheus can scrape the metrics itself, as OpenMetrics.
            """)

    @OptionGroup var connection: ConnectionOptions
    @Option(help: .timeout, transform: TimeoutArgument.init)
    var timeout: TimeoutArgument?

    func run() async throws {
        var output = StandardOutput()
        let client = connection.client(timeout: timeout?.duration ?? TimeoutArgument.byDefault)
        let metrics = try await client.send(.metrics)
        try output.write(Array(PrometheusText.converted(String(decoding: metrics, as: UTF8.self)).utf8))
        try output.flush()
    }
}
