import HistoryControl
import HistoryDaemon
import HistoryNATS

extension WorkerReport {
    static func json(_ reports: some Encodable) -> String {
        (try? ControlJSON.bytes(reports)).map { String(decoding: $0.dropLast(), as: UTF8.self) } ?? "[]"
    }

    /// OpenMetrics text.
    static func metrics(_ reports: [WorkerReport], _ health: WorkerHealth) -> [UInt8] {
        var text = MetricsText()
        func write(
            _ name: String, _ help: String, as kind: MetricsText.Kind = .gauge,
            _ value: (WorkerReport) -> Double?
        ) {
            text.write(
                "historyd_nats_" + name, help, as: kind,
                reports.compactMap { report in
                    value(report).map { ([("role", report.role.rawValue), ("stream", report.name)], $0) }
                })
        }
        write("connected", "Whether a session with the server runs.") { $0.isConnected ? 1 : 0 }
        write("position", "Number of the last change in the stream or the mirror.") { Double($0.position) }
        write("epoch", "The stream's epoch.") { Double($0.epoch) }
        write("lag_seconds", "For how long something is, or may be, missing; 0 where nothing is.") {
            $0.lag.seconds
        }
        write("lag_transactions", "Transactions that are missing, where that is known.") {
            $0.lag.transactions.map { Double($0) }
        }
        write("health", "0 healthy, 1 degraded, 2 failing.") { report in
            let found = health.reasons.first { $0.role == report.role && $0.stream == report.name }
            return Double(found?.verdict.rank ?? 0)
        }
        write("foreign_messages", "Messages of somebody else, which are skipped.", as: .counter) {
            Double($0.foreign)
        }
        write("refusals", "Decisions for an operator, and groups that do not fit.", as: .counter) {
            Double($0.refusals)
        }
        write("groups", "Groups published or applied.", as: .counter) { Double($0.groups) }
        write("bytes", "Bytes of their bodies.", as: .counter) { Double($0.bytes) }
        write("sessions", "Sessions that began.", as: .counter) { Double($0.connections) }
        write("failures", "Sessions that failed, refusals among them.", as: .counter) { Double($0.failures) }
        write("as_of_timestamp_seconds", "As of when the mirror shows the source, by the source's clock.") {
            $0.asOf
        }
        write("heard_timestamp_seconds", "When the publisher was last heard of.") { $0.heard }
        write(
            "last_comparison_timestamp_seconds",
            "When the stream was last compared with the store or the mirror."
        ) {
            $0.compared
        }
        write("last_change_timestamp_seconds", "When the position last changed.") { $0.changed }
        return text.end()
    }
}
