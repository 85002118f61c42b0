import PersistentHistory
import ServiceLifecycle

/// Serves the metrics, and nothing else, by TCP on sockets that the service manager has made: whoever reaches the port
/// may read them. There is no thread for it where there are no sockets.
struct MetricsServer: Service {
    let descriptors: [Int32]
    let handler: ControlHandler

    func run() async throws {
        guard !descriptors.isEmpty else {
            // A service that returns would end the whole group.
            try await gracefulShutdown()
            return
        }
        try await cancelWhenGracefulShutdown {
            try await HTTPServer(descriptors, logger: handler.logger).run { query in
                switch query.line {
                case "GET /metrics", "GET /v1/metrics":
                    HTTPAnswer(type: MetricsText.contentType, await handler.metrics())
                case let line where line.hasPrefix("GET "):
                    HTTPAnswer(status: 404, "Metrics are at /metrics.\n")
                default: HTTPAnswer(status: 405, "Metrics are read with GET.\n")
                }
            }
        }
    }
}
