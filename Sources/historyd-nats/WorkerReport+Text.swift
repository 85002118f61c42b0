import Foundation
import HistoryNATS

extension WorkerReport {
    static func json(_ reports: some Encodable) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(reports)).map { String(decoding: $0, as: UTF8.self) } ?? "[]"
    }

    /// OpenMetrics text (https://prometheus.io/docs/specs/om/open_metrics_spec/).
    static func metrics(_ reports: [WorkerReport], _ health: WorkerHealth) -> String {
        var text = ""
        func family(_ name: String, _ type: String, _ help: String, _ value: (WorkerReport) -> String?) {
            text += "# TYPE \(name) \(type)\n# HELP \(name) \(help)\n"
            for report in reports {
                guard let value = value(report) else { continue }
                let suffix = type == "counter" ? "_total" : ""
                text +=
                    "\(name)\(suffix){role=\"\(report.role.rawValue)\",stream=\"\(report.name)\"} \(value)\n"
            }
        }
        family("historyd_nats_connected", "gauge", "Whether a session with the server runs.") {
            $0.isConnected ? "1" : "0"
        }
        family("historyd_nats_position", "gauge", "Number of the last change in the stream or the mirror.") {
            String($0.position)
        }
        family("historyd_nats_epoch", "gauge", "The stream's epoch.") { String($0.epoch) }
        family(
            "historyd_nats_lag_seconds", "gauge",
            "For how long something is, or may be, missing; 0 where nothing is."
        ) {
            String($0.lag.seconds)
        }
        family("historyd_nats_lag_transactions", "gauge", "Transactions that are missing, where that is known.")
        {
            $0.lag.transactions.map { String($0) }
        }
        family("historyd_nats_health", "gauge", "0 healthy, 1 degraded, 2 failing.") { report in
            let found = health.reasons.first { $0.role == report.role && $0.stream == report.name }
            return String(found?.verdict.rank ?? 0)
        }
        family("historyd_nats_foreign_messages", "counter", "Messages of somebody else, which are skipped.") {
            String($0.foreign)
        }
        family("historyd_nats_refusals", "counter", "Decisions for an operator, and groups that do not fit.") {
            String($0.refusals)
        }
        family("historyd_nats_groups", "counter", "Groups published or applied.") { String($0.groups) }
        family("historyd_nats_bytes", "counter", "Bytes of their bodies.") { String($0.bytes) }
        family("historyd_nats_sessions", "counter", "Sessions that began.") { String($0.connections) }
        family("historyd_nats_failures", "counter", "Sessions that failed, refusals among them.") {
            String($0.failures)
        }
        family(
            "historyd_nats_last_change_timestamp_seconds", "gauge", "When the position last changed."
        ) { $0.changed.map { String($0) } }
        return text + "# EOF\n"
    }
}
